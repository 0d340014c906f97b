"""Model files: whole round trips, and every way to harm them."""

import dataclasses
import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

from cbid import CBID, load
from cbid.coders import ModelFileError


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300].astype(np.float32), y[:300]


@pytest.fixture(scope="module")
def coder(digits):
    return CBID(n_bits=7).fit(*digits)


@pytest.fixture
def path(coder, tmp_path):
    coder.save(tmp_path / "model.cbid")
    return tmp_path / "model.cbid"


@pytest.mark.parametrize("settings", [{}, {"kernel": "rbf", "n_anchors": 30}, {"margin": "class"}, {"penalty": 3}])
def test_round_trip(digits, tmp_path, settings):
    X, y = digits
    coder = CBID(n_bits=5, **settings).fit(X, y)
    coder.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert type(again) is CBID
    assert again.get_params() == coder.get_params()
    np.testing.assert_array_equal(again.encode(X), coder.encode(X))
    np.testing.assert_array_equal(again.weights_, coder.weights_)
    np.testing.assert_array_equal(again.truncate(3).weights_, coder.truncate(3).weights_)
    np.testing.assert_array_equal(again.classes_, coder.classes_)
    with pytest.raises(ValueError, match="features"):
        again.transform(X[:, :5])


@pytest.mark.parametrize("names", [["a", "b"], [True, False], [("a", 1), ("b", 2)], [1.5, 2.5], [3, "x"]])
def test_labels_of_any_kind_come_back(digits, tmp_path, names):
    X, y = digits
    labels = [names[v % 2] for v in y]
    coder = CBID(n_bits=2).fit(X, labels)
    coder.save(tmp_path / "m")
    assert load(tmp_path / "m").classes_.tolist() == coder.classes_.tolist()
    assert set(coder.classes_.tolist()) == set(names)


def test_a_label_without_a_json_form_is_refused_and_nothing_written(digits, tmp_path):
    X, y = digits
    coder = CBID(n_bits=2).fit(X, [frozenset([int(v) % 2]) for v in y])
    with pytest.raises(ValueError, match="frozenset"):
        coder.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_saved_part_resumes_where_it_stopped(digits, tmp_path):
    X, y = digits

    def save_at_three(coder):
        if coder.n_bits_ == 3:
            coder.save(tmp_path / "part")
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        CBID(n_bits=8, callback=save_at_three).fit(X, y)
    resumed = load(tmp_path / "part").set_params(warm_start=True).fit(X, y)
    whole = CBID(n_bits=8).fit(X, y)
    np.testing.assert_array_equal(resumed.encode(X), whole.encode(X))


def test_feature_names_come_back(digits, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    CBID(n_bits=2).fit(frame, y).save(tmp_path / "m")
    assert load(tmp_path / "m").feature_names_in_[5] == "pixel5"
    load(tmp_path / "m").transform(frame)


def test_a_users_own_loss_stays_behind_and_is_named(digits, tmp_path):
    class Mine:
        def value(self, rho):
            return np.logaddexp(0, -rho)

        def derivative(self, rho):
            return -1 / (1 + np.exp(rho))

        def conjugate(self, u):
            return u * np.log(u) + (1 - u) * np.log1p(-u)

    X, y = digits
    CBID(n_bits=2, loss=Mine()).fit(X, y).save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.transform(X).shape == (300, 2)
    with pytest.raises(ValueError, match="Mine"):
        again.fit(X, y)


def test_every_truncation_is_refused(path):
    whole = path.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            load(path)


def test_trailing_bytes_are_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelFileError, match="trailing"):
        load(path)


def test_altered_bytes_are_refused(path):
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in [*rng.integers(0, len(whole), 60), len(whole) - 1]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        with pytest.raises(ModelFileError):
            load(path)


def test_a_header_that_claims_a_huge_size_allocates_nothing(path):
    whole = path.read_bytes()
    path.write_bytes(struct.pack("<Q", 2**62) + whole[8:])
    with pytest.raises(ModelFileError, match="header claims 4611686018427387904 bytes"):
        load(path)
    # A tensor that claims a terabyte of a small file.
    header = {
        "__metadata__": {"format": "cbid-coder", "version": "1", "content": "{}", "sha256": ""},
        "coef_": {"dtype": "F64", "shape": [2**37], "data_offsets": [0, 2**40]},
    }
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ModelFileError, match="arrays end at byte 1099511627776"):
        load(path)


def test_foreign_files_are_not_taken_for_models(tmp_path):
    for name, data in (
        ("text", b"hello, this is no model file"),
        ("empty", b""),
        ("json", struct.pack("<Q", 2) + b"[]"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelFileError, match="model"):
            load(tmp_path / name)
    save_file({"x": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelFileError, match="not a cbid model"):
        load(tmp_path / "other.safetensors")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")


def test_an_unknown_kind_or_a_newer_version_is_named(path, monkeypatch, coder):
    from cbid.storage import models

    models.write_model(path, "FutureCoder", {}, {})
    with pytest.raises(ModelFileError, match="FutureCoder"):
        load(path)
    models.write_model(path, "CBID", {"params": {}, "fitted": {}}, {"coef_": np.array([np.nan])})
    with pytest.raises(ModelFileError, match="not finite"):
        load(path)
    models.write_model(path, "CBID", {"params": {"no_such": 1}, "fitted": {}}, {})
    with pytest.raises(ModelFileError, match="complete CBID"):
        load(path)
    monkeypatch.setattr(models, "MODEL", dataclasses.replace(models.MODEL, version=2))
    coder.save(path)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="version '2'"):
        load(path)


def test_a_failed_write_leaves_the_old_file(path, coder, monkeypatch):
    before = path.read_bytes()

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        coder.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


HOSTILE = [
    {"fitted": {"transform": 5}},
    {"fitted": {"__dict__": {}}},
    {"arrays": {"encode": np.zeros(3)}},
    {"arrays": {"coef_": np.zeros((3, 64))}},
    {"arrays": {"path_": np.zeros((2, 1))}},
    {"arrays": {"weights_": -np.ones(7)}},
    {"fitted": {"n_bits_": "eight"}},
    {"classes": {"dtype": "(20000,10000)f8", "values": [1.0]}},
    {"classes": {"dtype": "<U400000000", "values": ["a"]}},
    {"classes": {"dtype": "int64", "values": [2**80]}},
]


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_a_forged_file_with_a_right_checksum_is_refused(path, change):
    """The checksum shows damage, not malice: an attacker who writes a file can write its checksum too."""
    from cbid.storage import models

    kind, state, arrays = models.read_model(path)
    state["fitted"].update(change.get("fitted", {}))
    state.update({name: value for name, value in change.items() if name == "classes"})
    models.write_model(path, kind, state, {**arrays, **change.get("arrays", {})})
    with pytest.raises(ModelFileError):
        load(path)


def test_headers_that_are_no_headers(path):
    for text in (
        b"[" * 200_000,
        b'{"__metadata__": {"format": "cbid-coder", "version": "1", "content": 5, "sha256": ""}}',
    ):
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        with pytest.raises(ModelFileError):
            load(path)
