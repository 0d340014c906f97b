"""Notes on long steps, such as compiling the kernels."""

from types import SimpleNamespace

import pytest

from cbid.progress import note, notes
from cbid.search import prepare_search, scan
from cbid.search.kernels import compile as kernels


def test_notes_are_heard_inside_the_block_only():
    heard = []
    note("nobody listens")
    with notes(heard.append):
        note("one")
        with notes(lambda text: heard.append(text.upper())):
            note("two")
        note("three")
    note("nobody again")
    assert heard == ["one", "TWO", "three"]


def compilation(module):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


def test_compiling_a_kernel_is_noted_once():
    """A kernel compiles the kernels that it calls: one note for all. Other functions are not worth a note."""
    listener = kernels._Announcement()
    heard = []
    with notes(heard.append):
        for module in ("cbid.search.kernels.scan", "elsewhere", "cbid.learning.bits", "cbid.learning.bits"):
            listener.on_start(compilation(module))
            listener.on_start(compilation("cbid.search.kernels.tables"))
            listener.on_end(compilation("cbid.search.kernels.tables"))
            listener.on_end(compilation(module))
    assert heard == [
        "compiling the search kernels, once for this installation (up to a minute)",
        "compiled in 0 s",
        "compiling the learner, once for this installation",
    ]


def test_the_kernels_can_be_prepared():
    prepare_search()
    assert all(map(scan._in_cache, ("scan_topk", "scan_within")))
    heard = []
    with notes(heard.append):
        prepare_search()
        with scan.prepare_meanwhile():
            pass
    assert heard == []


@pytest.mark.parametrize("missing", ["scan_topk", "scan_within"])
def test_the_kernels_are_compiled_in_another_process(monkeypatch, missing):
    """The process fills the cache; afterwards the kernels are loaded from there."""
    prepare_search()
    assert scan._in_cache("scan_topk")
    heard = []
    with notes(heard.append):
        with scan.prepare_meanwhile() as prepare:
            prepare()
        assert heard == []
        monkeypatch.setattr(scan, "_in_cache", lambda kernel: kernel != missing)
        with scan.prepare_meanwhile() as prepare:
            prepare()
    assert heard == [
        "compiling the search kernels in the background, once for this installation",
        "waiting for the search kernels",
    ]
