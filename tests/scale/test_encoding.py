"""Codes streamed to a file: the bytes of ``coder.encode``, whole or not at all, gone on with after a stop."""

import json

import numpy as np
import pytest

from cbid import CBID, codes_io
from cbid.coders import ITQ
from cbid.scale import encode_to
from cbid.scale.encoding import Encode
from tests.scale.test_sources import write_parquet


@pytest.fixture
def npy(tmp_path, vectors):
    np.save(tmp_path / "x.npy", vectors[0])
    return tmp_path / "x.npy"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_file_is_the_one_that_encode_would_give(npy, vectors, coder, tmp_path, n_jobs):
    codes = encode_to(npy, coder, tmp_path / "codes.npy", part_rows=64, n_jobs=n_jobs)
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    codes_io.save(tmp_path / "at_once.npy", coder.encode(vectors[0]))
    assert (tmp_path / "codes.npy").read_bytes() == (tmp_path / "at_once.npy").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["at_once.npy", "codes.npy", "codes.npy.json", "x.npy"]


def test_parts_are_cut_where_the_coder_cuts(vectors, monkeypatch, tmp_path):
    """At other places a product of matrices may round otherwise; here spans are two slices of the coder."""
    monkeypatch.setattr("cbid.coders.base._CHUNK_BYTES", 8 * 12 * 50)
    monkeypatch.setattr("cbid.scale.encoding._ROWS", 140)
    coder = CBID(n_bits=4, random_state=0).fit(*vectors)
    codes = encode_to(vectors[0], coder, tmp_path / "codes.npy")
    spans = json.loads((tmp_path / "codes.npy.json").read_text())["spans"]
    assert spans == [[start, start + 100] for start in range(0, 1000, 100)]
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))


def test_a_killed_run_goes_on(npy, vectors, coder, tmp_path, monkeypatch):
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
    encode_to(npy, coder, tmp_path / "codes.npy", part_rows=100)  # it is there
    assert len(asked) == 11


def test_a_damaged_part_is_made_again(npy, vectors, coder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("cbid.scale.parts.Job.join", lambda self: [])
        patch.setattr("cbid.codes_io.load", lambda path: None)
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
    with pytest.raises(FileExistsError, match=r"codes.npy is there, made of something else"):
        encode_to(npy, other, out)
    np.testing.assert_array_equal(encode_to(npy, other, out, overwrite=True), other.encode(vectors[0]))
    out.unlink()
    (tmp_path / "codes.npy.parts").mkdir()
    (tmp_path / "codes.npy.parts" / "plan.json").write_text('{"what": "codes", "coder": "x"}')
    with pytest.raises(FileExistsError, match=r"holds parts of another job \(changed: coder, source, spans\)"):
        encode_to(npy, other, out)


@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_ids_are_kept(vectors, coder, tmp_path, kind):
    ids = np.arange(1000)[::-1] * 3
    ids = [f"née {i}" for i in ids] if kind == "text" else ids
    write_parquet(tmp_path / "x.parquet", vectors[0], id=ids)
    codes = encode_to(tmp_path / "x.parquet", coder, tmp_path / "codes.npy", part_rows=140)
    np.testing.assert_array_equal(codes, coder.encode(vectors[0]))
    np.testing.assert_array_equal(np.load(tmp_path / "codes.ids.npy"), ids)


def test_bad_arguments(npy, coder, tmp_path):
    with pytest.raises(ValueError, match=r"give the name of a \.npy file"):
        encode_to(npy, coder, tmp_path / "codes.bin")
    with pytest.raises(ValueError, match="part_rows=0 is not accepted"):
        encode_to(npy, coder, tmp_path / "codes.npy", part_rows=0)
    with pytest.raises(ValueError, match="max_memory of 1,000 bytes leaves nothing to encode with"):
        encode_to(npy, coder, tmp_path / "codes.npy", max_memory="1kB")
    with pytest.raises(ValueError, match="array in the memory of this process, which the workers cannot read"):
        encode_to(np.load(npy), coder, tmp_path / "codes.npy", scheduler="tcp://127.0.0.1:1")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]
