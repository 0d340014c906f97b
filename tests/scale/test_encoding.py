"""Codes streamed to a file: the bytes of ``coder.encode``, atomic, resumed after a stop."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cbid import CBID
from cbid.coders import ITQ
from cbid.scale import encode_to
from cbid.scale.encoding import Encode
from cbid.scale.parts import compute_part
from cbid.scale.sources import MemoryRows, open_rows
from cbid.storage import code_files
from cbid.storage.atomic import whole_file
from tests.scale.test_sources import write_parquet


@pytest.fixture
def npy(tmp_path, vectors):
    np.save(tmp_path / "x.npy", vectors[0])
    return tmp_path / "x.npy"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_file_is_the_one_that_encode_would_give(npy, vectors, coder, tmp_path, n_jobs):
    codes = encode_to(npy, coder, tmp_path / "codes.npy", part_rows=64, n_jobs=n_jobs)
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    code_files.save(tmp_path / "at_once.npy", coder.encode(vectors[0]))
    assert (tmp_path / "codes.npy").read_bytes() == (tmp_path / "at_once.npy").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["at_once.npy", "codes.npy", "codes.npy.json", "x.npy"]


def test_parts_are_cut_where_the_coder_cuts(vectors, monkeypatch, tmp_path):
    """Other cuts may round differently in a matrix product; here spans are two slices of the coder."""
    monkeypatch.setattr("cbid.coders.base._CHUNK_BYTES", 8 * 12 * 50)
    monkeypatch.setattr("cbid.scale.encoding._ROWS", 140)
    coder = CBID(n_bits=4, kernel="linear", random_state=0).fit(*vectors)  # a slice is as wide as X
    codes = encode_to(vectors[0], coder, tmp_path / "codes.npy")
    spans = json.loads((tmp_path / "codes.npy.json").read_text())["spans"]
    assert spans == [[start, start + 100] for start in range(0, 1000, 100)]
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))


def test_a_killed_run_continues(npy, vectors, coder, tmp_path, monkeypatch):
    asked = []
    compute = Encode.__call__

    def until_500(self, start, stop):
        asked.append(start)
        if start == 500:
            raise KeyboardInterrupt
        return compute(self, start, stop)

    monkeypatch.setattr(Encode, "__call__", until_500)
    with pytest.raises(KeyboardInterrupt):
        encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100)
    assert not (tmp_path / "codes.npy").exists()
    monkeypatch.setattr(Encode, "__call__", lambda self, *span: (asked.append(span[0]), compute(self, *span))[1])
    codes = encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100)
    assert asked == [0, 100, 200, 300, 400, 500, 500, 600, 700, 800, 900]
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100)  # finished
    assert len(asked) == 11


def test_a_damaged_part_is_recomputed(npy, vectors, coder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("cbid.scale.parts.Job.join", lambda self: [])
        patch.setattr("cbid.storage.code_files.load", lambda path: None)
        encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100)
    part = tmp_path / "codes.npy.parts" / "part-000003.safetensors"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    other = part.with_name("part-000004.safetensors")
    other.write_bytes(part.with_name("part-000005.safetensors").read_bytes())
    np.testing.assert_array_equal(
        encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100), coder.encode(vectors[0])
    )


def test_another_job_is_not_mixed_in(npy, vectors, coder, tmp_path):
    out = tmp_path / "codes.npy"
    encode_to(npy, coder, out)
    other = ITQ(n_bits=8).fit(vectors[0])
    with pytest.raises(FileExistsError, match=r"codes.npy"):
        encode_to(npy, other, out)
    np.testing.assert_array_equal(encode_to(npy, other, out, overwrite=True), other.encode(vectors[0]))
    out.unlink()
    (tmp_path / "codes.npy.parts").mkdir()
    (tmp_path / "codes.npy.parts" / "plan.json").write_text('{"what": "codes", "coder": "x"}')
    (tmp_path / "codes.npy.parts" / "part-000000.safetensors").touch()
    with pytest.raises(FileExistsError, match=r"codes.npy.parts.*\(changed: coder, source, spans\)"):
        encode_to(npy, other, out)


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_stay(npy, coder, tmp_path, overwrite):
    folder = tmp_path / "codes.npy.parts"
    folder.mkdir()
    for name in ("part-000000.safetensors", "part-notes.safetensors", ".notes.tmp"):
        (folder / name).write_text("precious")
    with pytest.raises(FileExistsError, match=r"part-000000\.safetensors is not a part"):
        encode_to(npy, coder, tmp_path / "codes.npy", overwrite=overwrite)
    (folder / "part-000000.safetensors").unlink()
    encode_to(npy, coder, tmp_path / "codes.npy", overwrite=overwrite)
    assert sorted(path.name for path in folder.iterdir()) == [".notes.tmp", "part-notes.safetensors"]


@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_ids_are_kept(vectors, coder, tmp_path, kind):
    ids = np.arange(1000)[::-1] * 3
    ids = [f"née {i}" for i in ids] if kind == "text" else ids
    write_parquet(tmp_path / "x.parquet", vectors[0], id=ids)
    codes = encode_to(tmp_path / "x.parquet", coder, tmp_path / "codes.npy", part_rows=140)
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    np.testing.assert_array_equal(np.load(tmp_path / "codes.ids.npy"), ids)


def test_bad_arguments(npy, coder, tmp_path):
    with pytest.raises(ValueError, match=r"out=.*codes\.bin"):
        encode_to(npy, coder, tmp_path / "codes.bin")
    with pytest.raises(ValueError, match="part_rows=0"):
        encode_to(npy, coder, tmp_path / "codes.npy", part_rows=0)
    with pytest.raises(ValueError, match="max_memory=1,000 bytes"):
        encode_to(npy, coder, tmp_path / "codes.npy", max_memory="1kB")
    with pytest.raises(ValueError, match="source is an array in the memory"):
        encode_to(np.load(npy), coder, tmp_path / "codes.npy", scheduler="tcp://127.0.0.1:1")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


def test_a_job_that_cannot_start_leaves_nothing(npy, vectors, coder, tmp_path):
    out = tmp_path / "codes.npy"
    np.save(tmp_path / "narrow.npy", vectors[0][:, :8])
    for source, used, message, how in (
        (vectors[0][:0], coder, r"source has shape \(0, 12\)", {}),
        (tmp_path / "narrow.npy", coder, "source has vectors of 8 values", {}),
        (npy, ITQ(n_bits=8), "is not fitted", {}),
        (npy, ITQ(n_bits=8), "is not fitted", {"part_rows": 10}),
        (npy, coder, "n_jobs=0", {"n_jobs": 0}),
        (npy, coder, "n_jobs=0", {"n_jobs": 0, "part_rows": 10}),
    ):
        with pytest.raises(ValueError, match=message):
            encode_to(source, used, out, **how)
        assert not (tmp_path / "codes.npy.parts").exists()


def test_a_folder_without_parts_is_no_other_job(npy, vectors, coder, tmp_path):
    (tmp_path / "codes.npy.parts").mkdir()
    (tmp_path / "codes.npy.parts" / "plan.json").write_text('{"what": "codes", "coder": "x"}')
    encode_to(npy, coder, tmp_path / "codes.npy")
    assert not (tmp_path / "codes.npy.parts").exists()


def stopped_before(patch, what):
    """Simulate Ctrl-C when this file is about to be written."""

    def written(path):
        if str(path).endswith(what):
            raise KeyboardInterrupt
        return whole_file(path)

    patch.setattr("cbid.scale.parts.whole_file", written)


@pytest.mark.parametrize("what", ["codes.npy", "codes.ids.npy", "codes.npy.json"])
def test_a_run_that_was_stopped_while_it_joined(npy, vectors, coder, tmp_path, monkeypatch, what):
    out, ids = tmp_path / "codes.npy", np.arange(1000) + 7
    with monkeypatch.context() as patch:
        stopped_before(patch, what)
        with pytest.raises(KeyboardInterrupt):
            encode_to(npy, coder, out, ids=ids, part_rows=100)
    monkeypatch.setattr(Encode, "__call__", None)  # nothing is computed again
    np.testing.assert_array_equal(encode_to(npy, coder, out, ids=ids, part_rows=100), coder.encode(vectors[0]))
    np.testing.assert_array_equal(np.load(tmp_path / "codes.ids.npy"), ids)
    assert not (tmp_path / "codes.npy.parts").exists()


def test_other_ids_are_another_job(npy, coder, tmp_path, monkeypatch):
    out = tmp_path / "codes.npy"
    encode_to(npy, coder, out, ids=np.arange(1000))
    for ids in (np.arange(1000) + 5000, None):
        with pytest.raises(FileExistsError):
            encode_to(npy, coder, out, ids=ids)
    encode_to(npy, coder, out, ids=np.arange(1000) + 5000, overwrite=True)
    assert np.load(tmp_path / "codes.ids.npy")[0] == 5000
    encode_to(npy, coder, out, overwrite=True)
    assert not (tmp_path / "codes.ids.npy").exists()  # they belonged to the old codes


def test_given_ids_win(vectors, coder, tmp_path):
    write_parquet(tmp_path / "x.parquet", vectors[0], id=np.arange(1000))
    ids = [f"image {i}" for i in range(1000)]
    encode_to(tmp_path / "x.parquet", coder, tmp_path / "codes.npy", ids=ids, n_jobs=2, part_rows=140)
    assert np.load(tmp_path / "codes.ids.npy").tolist() == ids


def test_a_source_that_changes_during_the_job_is_reported(vectors, coder, tmp_path, monkeypatch):
    """Ids of fewer rows than there are codes."""
    monkeypatch.setattr(MemoryRows, "ids_of", lambda self, start, stop: np.arange(start, stop - 1))
    with pytest.raises(ValueError, match="rows 0 to 999 gave 1000 codes, 999 ids"):
        encode_to(vectors[0], coder, tmp_path / "codes.npy", ids=np.arange(1000))


def test_the_old_result_stays_until_the_new_one_is_there(npy, vectors, coder, tmp_path, monkeypatch):
    out = tmp_path / "codes.npy"
    encode_to(npy, coder, out)
    other = ITQ(n_bits=8).fit(vectors[0])
    with monkeypatch.context() as patch:
        patch.setattr(Encode, "__call__", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            encode_to(npy, other, out, overwrite=True)
    np.testing.assert_array_equal(encode_to(npy, coder, out), coder.encode(vectors[0]))
    np.testing.assert_array_equal(encode_to(npy, other, out, overwrite=True), other.encode(vectors[0]))


def test_the_source_is_no_output(npy, vectors, coder, tmp_path):
    (tmp_path / "link.npy").symlink_to(npy)
    np.save(tmp_path / "z.ids.npy", vectors[0])
    for source, out in ((npy, npy), (npy, tmp_path / "link.npy"), (tmp_path / "z.ids.npy", tmp_path / "z.npy")):
        with pytest.raises(ValueError, match=r"is the source itself"):
            encode_to(source, coder, out, ids=np.arange(1000), overwrite=True)
    np.testing.assert_array_equal(np.load(npy), vectors[0])


def test_many_damaged_parts_and_one_of_another_job(npy, vectors, coder, tmp_path, monkeypatch):
    out = tmp_path / "codes.npy"
    with monkeypatch.context() as patch:
        stopped_before(patch, "codes.npy")
        with pytest.raises(KeyboardInterrupt):
            encode_to(npy, coder, out, part_rows=100)
    for number in range(6):
        with open(tmp_path / "codes.npy.parts" / f"part-{number:06d}.safetensors", "r+b") as file:
            file.truncate(20)
    np.testing.assert_array_equal(encode_to(npy, coder, out, part_rows=100), coder.encode(vectors[0]))


def test_parts_without_a_plan_are_not_used(npy, vectors, coder, tmp_path, monkeypatch):
    """Other files in the folder stay."""
    out, folder = tmp_path / "codes.npy", tmp_path / "codes.npy.parts"
    with monkeypatch.context() as patch:
        stopped_before(patch, "codes.npy")
        with pytest.raises(KeyboardInterrupt):
            encode_to(npy, ITQ(n_bits=8).fit(vectors[0]), out, part_rows=100)
    (folder / "plan.json").unlink()
    (folder / "mine.txt").touch()
    np.testing.assert_array_equal(encode_to(npy, coder, out, part_rows=100), coder.encode(vectors[0]))
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "text", ["7", '""', "[[1]]", '{"spans": 3}', '{"spans": [[1]]}', '{"spans": [[0, 0.5]]}', "[" * 100_000]
)
@pytest.mark.parametrize("name", ["codes.npy.json", "codes.npy.parts/plan.json"])
def test_a_damaged_plan_is_named(npy, coder, tmp_path, name, text):
    encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100)
    (tmp_path / "codes.npy.parts").mkdir()
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=f"{name.replace('.', '[.]')} is damaged"):
        encode_to(npy, coder, tmp_path / "codes.npy")


def test_parts_that_a_finished_job_has_left_are_cleared(npy, coder, tmp_path, monkeypatch):
    out = tmp_path / "codes.npy"
    with monkeypatch.context() as patch:
        patch.setattr("cbid.scale.parts.Job._remove_parts", lambda self: None)
        encode_to(npy, coder, out, part_rows=100)
    assert (tmp_path / "codes.npy.parts").exists()
    encode_to(npy, coder, out, part_rows=100)
    assert not (tmp_path / "codes.npy.parts").exists()


def test_the_memory_of_the_process_is_no_other_job(npy, vectors, coder, tmp_path, monkeypatch):
    """A continued run keeps the parts of the stopped run, although memory would give other sizes."""
    out, sizes = tmp_path / "codes.npy", iter([300, 400, 250, 200])
    monkeypatch.setattr("cbid.scale.encoding._part_rows", lambda *_: next(sizes))
    with monkeypatch.context() as patch:
        stopped_before(patch, "codes.npy")
        with pytest.raises(KeyboardInterrupt):
            encode_to(npy, coder, out)
    for _ in range(2):
        np.testing.assert_array_equal(encode_to(npy, coder, out), coder.encode(vectors[0]))
    spans = json.loads((tmp_path / "codes.npy.json").read_text())["spans"]
    assert spans == [[0, 300], [300, 600], [600, 900], [900, 1000]]
    with pytest.raises(FileExistsError):
        encode_to(npy, coder, out, part_rows=100)  # chosen by the caller


def test_finished_jobs_need_no_memory(npy, vectors, coder, tmp_path):
    encode_to(npy, coder, tmp_path / "codes.npy")
    codes = encode_to(npy, coder, tmp_path / "codes.npy", max_memory="1kB")
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))


@pytest.mark.parametrize("on_a_worker", [False, True])
def test_threads_of_blas_are_as_before(npy, coder, tmp_path, monkeypatch, on_a_worker):
    """Parts of unequal duration overlap; each is computed with one thread."""
    compute, seen = Encode.__call__, []

    def blas():
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    def allow(n):
        # In a thread that ends, so that other threads may change the limit afterwards.
        setter = Thread(target=threadpool_limits, args=(n,))
        setter.start()
        setter.join()

    def slow(self, start, stop):
        for _ in range(1 + start // 100 % 3 * 2):
            time.sleep(0.01)
            seen.append(blas())
        return compute(self, start, stop)

    monkeypatch.setattr(Encode, "__call__", slow)
    before = blas()
    allow(2)
    if blas() != {2}:
        pytest.skip("BLAS does not use two threads here, or another thread controls it")
    try:
        if on_a_worker:
            task, spans = Encode(open_rows(npy), coder), [(start, start + 100) for start in range(0, 1000, 100)]
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda span: compute_part(task, str(tmp_path / f"{span[0]}"), "job", 0, *span), spans))
                assert blas() == {2}
        else:
            encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100, n_jobs=2)
        assert blas() == {2}
    finally:
        allow(max(before))
    assert set().union(*seen) == {1}
