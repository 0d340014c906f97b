"""cbid encode with files that are in the way, and others that are not there."""

import numpy as np
import pytest

from cbid.cli import run
from tests.project.made import write_images


@pytest.fixture
def encode(tmp_path, capsys, monkeypatch):
    """The program in a folder with images/, others/ and a project; status, and what it says of errors."""
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "images", n=4)
    write_images(tmp_path / "others", n=4, first=50)
    assert run(["fit", "images", "--descriptor", "pixels", "--bits", "8", "--out", "p.cbid", "-q"]) == 0

    def call(*arguments):
        status = run(["encode", *arguments, "-q"])
        return status, capsys.readouterr().err

    return call


def test_another_folder_is_another_source(encode):
    in_parts = ("--out", "codes.npy", "--max-memory", "4GB")
    assert encode("images", *in_parts) == (0, "")
    status, told = encode("others", *in_parts)
    assert status == 1
    assert "is there, made of something else" in told
    assert encode("others", *in_parts, "--overwrite") == (0, "")
    assert encode("others", "--out", "at_once.npy") == (0, "")
    np.testing.assert_array_equal(np.load("codes.npy"), np.load("at_once.npy"))


@pytest.mark.parametrize("more", [(), ("--max-memory", "4GB")])
def test_what_is_refused_before_the_work(encode, tmp_path, more):
    there = sorted(tmp_path.iterdir())
    for arguments, wanted, message in (
        (("--out", "nodir/x.npy"), 1, "--out=nodir/x.npy is not accepted: there is no folder nodir"),
        (("--out", "x.npy", "--jobs", "0"), 2, "0 is not accepted; give 1 or more"),
    ):
        status, told = encode("images", *arguments, *more)
        assert status == wanted
        assert told.startswith("cbid: ")
        assert message in told
    assert sorted(tmp_path.iterdir()) == there


@pytest.mark.parametrize("more", [(), ("--max-memory", "4GB", "--overwrite")])
def test_the_source_is_not_overwritten(encode, tmp_path, more):
    X = np.random.default_rng(0).random((40, 6)).astype(np.float32)
    np.savez(tmp_path / "v.npz", X=X, y=np.arange(40) % 2)
    np.save(tmp_path / "v.npy", X)
    assert run(["fit", "v.npz", "--bits", "8", "--out", "v.cbid", "-q"]) == 0
    status, told = encode("v.npy", "--out", "v.npy", "--project", "v.cbid", *more)
    assert (status, told) == (1, "cbid: --out=v.npy is the source itself; give another name\n")
    np.testing.assert_array_equal(np.load("v.npy"), X)
