"""``cbid encode``: existing, missing and unsuitable output files."""

import numpy as np
import pytest

from cbid.cli import run
from tests.project.made import write_images


@pytest.fixture
def encode(tmp_path, capsys, monkeypatch):
    """Call cbid encode in a folder with images/, others/ and a project; return the status and stderr."""
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "images", n=4)
    write_images(tmp_path / "others", n=4, first=50)
    assert run(["fit", "images", "--descriptor", "pixels", "--n-bits", "8", "--out", "p.cbid", "-q"]) == 0

    def call(*arguments):
        status = run(["encode", *arguments, "-q"])
        return status, capsys.readouterr().err

    return call


def test_another_folder_is_another_source(encode):
    in_parts = ("--out", "codes.npy", "--max-memory", "4GB")
    assert encode("images", *in_parts) == (0, "")
    status, shown = encode("others", *in_parts)
    assert status == 1
    assert ".npy" in shown
    assert encode("others", *in_parts, "--overwrite") == (0, "")
    assert encode("others", "--out", "at_once.npy") == (0, "")
    np.testing.assert_array_equal(np.load("codes.npy"), np.load("at_once.npy"))


@pytest.mark.parametrize("more", [(), ("--out", "codes.npy", "--max-memory", "4GB")])
def test_images_are_decoded_in_other_processes(encode, monkeypatch, more):
    def decode(*arguments, **named):
        raise AssertionError("decoded in this process")

    monkeypatch.setattr("cbid.data.image_sets.decode_image", decode)
    assert encode("others", *more)[0] == 0


@pytest.mark.parametrize("more", [(), ("--max-memory", "4GB")])
def test_a_wrong_call_is_rejected_before_the_work(encode, tmp_path, more):
    before = sorted(tmp_path.iterdir())
    for arguments, wanted, named in (
        (("--out", "nodir/x.npy"), 1, "--out=nodir/x.npy"),
        (("--out", "x.npy", "--n-jobs", "0"), 2, "--n-jobs"),
    ):
        status, shown = encode("images", *arguments, *more)
        assert status == wanted
        assert shown.startswith("cbid: ")
        assert named in shown
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("more", [(), ("--max-memory", "4GB", "--overwrite")])
def test_the_source_is_not_overwritten(encode, tmp_path, more):
    X = np.random.default_rng(0).random((40, 6)).astype(np.float32)
    np.savez(tmp_path / "v.npz", X=X, y=np.arange(40) % 2)
    np.save(tmp_path / "v.npy", X)
    assert run(["fit", "v.npz", "--n-bits", "8", "--out", "v.cbid", "-q"]) == 0
    status, shown = encode("v.npy", "--out", "v.npy", "--project", "v.cbid", *more)
    assert status == 1
    assert "--out=v.npy" in shown
    np.testing.assert_array_equal(np.load("v.npy"), X)
