"""Digests are stored in files: their values must not change between releases."""

import hashlib

import numpy as np

from cbid.storage.digests import digest_bytes, digest_file, digest_of, digest_text, new_digest


def test_digests_are_blake2b(tmp_path):
    content = "café".encode()
    expected = hashlib.blake2b(content, digest_size=16).hexdigest()
    (tmp_path / "file").write_bytes(content)
    assert digest_text("café") == digest_text(content) == digest_bytes(content).hex() == expected
    assert digest_file(tmp_path / "file") == new_digest(content).hexdigest() == expected
    assert digest_bytes(content, size=4) == hashlib.blake2b(content, digest_size=4).digest()
    assert new_digest(content, person=b"images").hexdigest() != expected


def test_values_of_0_1_0():
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    assert digest_of(array, {"b": 1, "a": [None, "x"]}) == "76a3296aef8701c0d1621f186cadcc08"
    assert digest_of(array) == digest_of(array.copy(order="F")) != digest_of(array.T)
    assert digest_of(array) != digest_of(array.astype("<i8"))
