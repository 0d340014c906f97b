"""Raw results: written once, read back, and whole after a kill."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cbid import CBID
from cbid.paper.base import CLASS_BITS, INDEPENDENT, PATCH_BITS
from cbid.paper.raw import (
    _CONSTANTS,
    _NOT_OF_CLASS_BITS,
    _OF_THE_PAPER_FORM,
    _SKIPPED_BY_CLASS_BITS,
    RawResults,
    defaults_fingerprint,
)


@pytest.fixture
def raw(tmp_path):
    return RawResults(tmp_path / "raw" / "x.jsonl")


def test_what_is_added_is_read_whatever_the_order_of_the_settings(raw):
    raw.add({"a": 1, "b": "x"}, {"values": np.arange(3), "mean": np.float32(0.5)}, 1.23456)
    cell = {"b": "x", "a": 1}
    (row,) = raw.results([cell])
    assert row.result == {"values": [0, 1, 2], "mean": 0.5}
    assert row.seconds == 1.235
    assert (row["a"], row["mean"]) == (1, 0.5)
    assert raw.missing([cell, {"a": 2, "b": "x"}]) == [{"a": 2, "b": "x"}]


def test_results_come_in_the_order_of_the_cells(raw):
    for i in (2, 0, 1):
        raw.add({"i": i}, {}, 0)
    assert [row["i"] for row in raw.results([{"i": i} for i in range(4)])] == [0, 1, 2]


def test_nothing_there(raw):
    raw.repair()
    assert not len(raw.results([{"a": 1}]))


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_line_without_its_end_is_cut_off_and_the_others_stay(raw, cut):
    for i in range(3):
        raw.add({"i": i}, {"value": i}, 0)
    whole = raw.path.read_bytes()
    raw.path.write_bytes(whole[:-cut])
    assert [row["i"] for row in raw.read().values()] == [0, 1]
    raw.repair()
    raw.add({"i": 2}, {"value": 2}, 0)
    assert raw.path.read_bytes() == whole


def test_another_revision_does_not_count(raw):
    raw.add({"i": 0}, {"value": "old"}, 0)
    newer = RawResults(raw.path, revision=2)
    assert newer.missing([{"i": 0}])
    newer.add({"i": 0}, {"value": "new"}, 0)
    assert [RawResults(raw.path, r).results([{"i": 0}]).rows[0]["value"] for r in (1, 2)] == ["old", "new"]


def test_packed_lines_are_read_and_later_ones_replace_them(raw):
    for i in range(3):
        raw.add({"i": i}, {"value": "old"}, 1)
    first = raw.pack().read_bytes()
    assert not raw.path.exists()
    assert raw.missing([{"i": i} for i in range(4)]) == [{"i": 3}]
    assert raw.pack().read_bytes() == first  # the same lines, the same bytes
    raw.add({"i": 1}, {"value": "new"}, 1)
    assert [row["value"] for row in raw.results([{"i": i} for i in range(3)])] == ["old", "new", "old"]


def test_lines_of_earlier_defaults_are_read_but_count_as_missing(raw):
    raw.add({"i": 0}, {}, 1)
    line = json.loads(raw.path.read_text())
    raw.path.write_text(json.dumps(line | {"defaults": "0123456789ab"}) + "\n")
    assert len(raw.results([{"i": 0}])) == 1
    assert raw.missing([{"i": 0}]) == [{"i": 0}]


def test_results_of_methods_without_cbid_do_not_age(raw):
    """A rival's line of earlier defaults counts, and is packed as one that depends on none."""
    cells = [{"method": method} for method in ("C-BID", "ITQ")]
    for cell in cells:
        raw.add(cell, {}, 1)
    old = raw.path.read_text().replace(defaults_fingerprint(), "0123456789ab")
    raw.path.write_text(old)
    assert raw.missing(cells) == cells
    rivals = RawResults(raw.path, independent=("ITQ",))
    assert rivals.missing(cells) == [{"method": "C-BID"}]
    rivals.pack()
    assert [row.defaults for row in RawResults(raw.path).results(cells)] == ["0123456789ab", INDEPENDENT]
    rivals.add({"method": "ITQ", "bits": 8}, {}, 1)
    assert json.loads(raw.path.read_text())["defaults"] == INDEPENDENT


def test_class_bits_do_not_age_with_the_defaults_of_likeness(raw, monkeypatch):
    cell = {"method": "C-BID"}
    of_class = RawResults(raw.path, scope=CLASS_BITS)
    of_class.add(cell, {}, 1)
    before = defaults_fingerprint(), defaults_fingerprint(CLASS_BITS)
    defaults_fingerprint.cache_clear()
    monkeypatch.setattr("cbid.learning.likeness._CLASS_BITS", 0.9)
    assert defaults_fingerprint() != before[0]
    assert defaults_fingerprint(CLASS_BITS) == before[1]
    assert of_class.missing([cell]) == []
    defaults_fingerprint.cache_clear()
    monkeypatch.setattr("cbid.coders.large_margin._NU", 0.2)
    assert of_class.missing([cell]) == [cell]
    monkeypatch.undo()
    defaults_fingerprint.cache_clear()


@pytest.mark.parametrize("changed", ["cbid.learning.patches._TURNS", "cbid.classify.class_distances._ROUNDS"])
def test_patches_age_with_their_own_defaults_alone(raw, monkeypatch, changed):
    cell = {"method": "C-BID"}
    of_patches = RawResults(raw.path, scope=PATCH_BITS)
    of_patches.add(cell, {}, 1)
    defaults_fingerprint.cache_clear()
    monkeypatch.setattr("cbid.coders.large_margin._LINEAR_WHITENING", 0.7)
    assert of_patches.missing([cell]) == []
    defaults_fingerprint.cache_clear()
    monkeypatch.setattr(changed, 3)
    assert of_patches.missing([cell]) == [cell]
    monkeypatch.undo()
    defaults_fingerprint.cache_clear()


@pytest.mark.parametrize("form", ["linear", "rbf", "paper"])
def test_what_a_fingerprint_leaves_out_changes_nothing(form, monkeypatch):
    """The constants that class bits and the paper's form do not depend on change neither bits nor weights."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    paper = form == "paper"

    def learned():
        coder = CBID.paper(2, n_starts=20) if paper else CBID(n_bits=8, likeness=0, kernel=form)
        coder.fit(X, y)
        return coder.coef_, coder.weights_, coder.objective_

    before = learned()
    changed = 0
    for place in _CONSTANTS:
        for name, value in vars(import_module(place)).copy().items():
            left_out = place in _NOT_OF_CLASS_BITS or name in _SKIPPED_BY_CLASS_BITS
            if paper:
                left_out = name not in _OF_THE_PAPER_FORM
            if left_out and name.strip("_").isupper() and isinstance(value, (int, float)):
                monkeypatch.setattr(f"{place}.{name}", type(value)(value * 2))
                changed += 1
    assert changed >= 12
    for a, b in zip(before, learned()):
        np.testing.assert_array_equal(a, b)


def test_the_paper_form_ages_with_its_own_settings_only(raw, monkeypatch):
    cell = {"method": "Eq. 3"}
    own = RawResults(raw.path, scope=CLASS_BITS, paper_forms=("Eq. 3",))
    own.add(cell, {}, 1)
    defaults_fingerprint.cache_clear()
    monkeypatch.setattr("cbid.coders.large_margin._NU", 0.2)
    assert own.missing([cell]) == []
    assert RawResults(raw.path, scope=CLASS_BITS).missing([{"method": "C-BID"}])
    defaults_fingerprint.cache_clear()
    monkeypatch.setattr(CBID, "paper", lambda: CBID(margin="paper", nu=1e-4))
    assert own.missing([cell]) == [cell]
    monkeypatch.undo()
    defaults_fingerprint.cache_clear()


def test_the_fingerprint_of_the_defaults_is_the_same_in_every_process():
    code = "from cbid.paper.raw import defaults_fingerprint as f; print(f())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.strip() == defaults_fingerprint()


def test_lines_of_several_writers_do_not_mix(raw):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda i: RawResults(raw.path).add({"i": i}, {"values": [i] * 2000}, 0), range(40)))
    found = [json.loads(line) for line in raw.path.read_text().splitlines()]
    assert sorted(line["settings"]["i"] for line in found) == list(range(40))
    assert all(set(line["result"]["values"]) == {line["settings"]["i"]} for line in found)


def test_bad_lines_count_as_missing_and_are_reported(raw):
    for i in range(3):
        raw.add({"i": i}, {"value": i}, 0)
    assert raw.problem() is None
    whole = raw.path.read_bytes().splitlines(keepends=True)
    raw.path.write_bytes(whole[0] + whole[1][:20] + whole[2])  # half a line, and the next one behind it
    assert raw.missing([{"i": i} for i in range(3)]) == [{"i": 1}, {"i": 2}]
    assert re.match(r"x\.jsonl: line 2 .*JSONDecodeError", raw.problem())
    raw.add({"i": 1}, {"value": 1}, 0)
    assert [row["i"] for row in raw.results([{"i": i} for i in range(3)])] == [0, 1]
    raw.path.write_text('{"settings": {}}\n[]\n')
    assert re.match(r"x\.jsonl: 2 lines.*line 1.*KeyError: 'result'", raw.problem())


@pytest.mark.parametrize("other", [False, True])
def test_half_a_line_is_taken_back_unless_another_stands_behind_it(raw, monkeypatch, other):
    raw.add({"i": 0}, {}, 0)
    before, write = raw.path.read_bytes(), os.write

    def half(handle, data):
        written = write(handle, data[: len(data) // 2])
        if other:
            with raw.path.open("ab") as file:
                file.write(before)
        return written

    with monkeypatch.context() as patch:
        patch.setattr("cbid.paper.raw.os.write", half)
        with pytest.raises(OSError, match=r"x\.jsonl: only"):
            raw.add({"i": 1}, {}, 0)
    assert raw.path.read_bytes().startswith(before)
    assert raw.path.read_bytes().endswith(before)
    assert (raw.path.read_bytes() == before) is not other


def test_what_json_has_no_word_for_is_an_error(raw):
    with pytest.raises(TypeError, match="set is not a JSON value"):
        raw.add({"i": 0}, {"value": {1, 2}}, 0)
    assert not raw.path.exists()
