"""What holds for every coder: bits, codes, model files, seeds, and degenerate data."""

import copy
import functools
import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import cbid.coders.base
from cbid import CBID, load
from cbid.coders import LSH, ModelFileError
from cbid.storage.models import read_model, write_model
from tests.coders.every import EVERY, make

every_coder = pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
# Degenerate data, such as few samples or one column, may cause warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*classes have fewer than:UserWarning"),
    pytest.mark.filterwarnings("ignore:learning ended at:UserWarning"),
    pytest.mark.filterwarnings("ignore:every weight is zero:UserWarning"),
]

T = 9  # bits; no multiple of 8
# Values by the round of learning, as many as there were.
HISTORY = {"objective_"}


@functools.cache
def digits():
    """Ten classes, 64 columns; the pixels that vary most come first."""
    X, y = load_digits(return_X_y=True)
    X = X[:, np.argsort(-X.var(axis=0), kind="stable")]
    return X[:250].astype(np.float32), y[:250]


@functools.cache
def fitted(cls):
    return make(cls, n_bits=T).fit(*digits())


def agreement(a, b):
    return np.mean(a == b)


@every_coder
def test_bits_codes_and_projections_agree(cls):
    X, _ = digits()
    coder = fitted(cls)
    bits = coder.transform(X)
    assert coder.n_bits_ == T
    assert bits.shape == (len(X), T)
    assert bits.dtype == np.int8
    assert set(np.unique(bits)) <= {-1, 1}
    codes = coder.encode(X)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, np.packbits(bits > 0, axis=1))
    np.testing.assert_array_equal(np.where(coder.project(X) >= 0, 1, -1), bits)
    assert coder.project(X).dtype == np.float32
    assert list(coder.get_feature_names_out()) == [f"{cls.__name__.lower()}{i}" for i in range(T)]


@every_coder
def test_nearest_neighbours_by_codes_are_far_better_than_chance(cls):
    X, y = digits()
    bits = fitted(cls).transform(X).astype(int)
    nearest = np.argmax(bits[200:] @ bits[:200].T, axis=1)
    assert np.mean(y[:200][nearest] == y[200:]) > 0.3


@every_coder
def test_the_same_seed_gives_the_same_bits(cls):
    X, y = digits()
    first = fitted(cls).encode(X)
    again = clone(fitted(cls))
    with pytest.raises(NotFittedError):
        again.transform(X)
    assert again.get_params() == fitted(cls).get_params()
    np.testing.assert_array_equal(again.fit(X, y).encode(X), first)


@pytest.mark.parametrize("seed", [None, 7, np.random.RandomState(0)], ids=["None", "int", "RandomState"])
def test_kinds_of_seeds(seed):
    X, y = digits()
    assert LSH(n_bits=3, random_state=seed).fit(X, y).encode(X).shape == (len(X), 1)


@every_coder
def test_settings_are_rejected_by_name(cls):
    wrong = {
        "n_bits": [0, -3, 65_537, 8.0, True, "8"],
        "random_state": ["a", -1, 1.5, np.random.default_rng(0)],
        "n_jobs": [0],
    }
    for name, values in wrong.items():
        for value in values if name in inspect.signature(cls).parameters else ():
            with pytest.raises(ValueError, match=f"{name}="):
                make(cls, n_bits=3).set_params(**{name: value}).fit(*digits())


@every_coder
def test_settings_changed_after_a_fit_have_no_effect_before_the_next(cls):
    X, _ = digits()
    coder = copy.deepcopy(fitted(cls))
    before = coder.encode(X)
    others = {"n_bits": 3, "n_layers": 1, "n_nearest": 2, "bits_per_subspace": 2, "outer": True, "p": 1}
    coder.set_params(**{name: value for name, value in others.items() if name in coder.get_params()})
    np.testing.assert_array_equal(coder.encode(X), before)


@every_coder
def test_a_failed_fit_leaves_the_coder_unchanged(cls, monkeypatch):
    """Here the fit fails at its end."""
    X, y = digits()
    coder = copy.deepcopy(fitted(cls))
    before, state = coder.encode(X), vars(coder).copy()

    def full(self, name, value):
        if name == "n_bits_":
            raise MemoryError("no more")
        object.__setattr__(self, name, value)

    with monkeypatch.context() as patched:
        patched.setattr(cls, "__setattr__", full)
        with pytest.raises(MemoryError, match="no more"):
            coder.fit(X[:, :50], [f"digit {v}" for v in y])
    assert vars(coder).keys() == state.keys()
    np.testing.assert_array_equal(coder.encode(X), before)
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="NaN"):  # scikit-learn sets the column names before it checks the values
        coder.fit(pd.DataFrame(X * np.nan).rename(columns=str), y)
    assert not hasattr(coder, "feature_names_in_")


@every_coder
def test_codes_do_not_depend_on_the_batch(cls, monkeypatch):
    X, _ = digits()
    whole = fitted(cls).transform(X)
    one_by_one = np.concatenate([fitted(cls).transform(X[i : i + 1]) for i in range(40)])
    assert agreement(one_by_one, whole[:40]) > 0.995
    monkeypatch.setattr(cbid.coders.base, "_CHUNK_BYTES", 8 * 100 * 30)
    assert agreement(fitted(cls).transform(X), whole) > 0.998


def steady(cls):
    """How many bits rounding leaves alone: each bit of C-BID follows all before it, so small differences grow."""
    return 4 if cls is CBID else T


@every_coder
def test_precision_and_layout_hardly_matter(cls):
    X, y = digits()
    coder = fitted(cls)
    assert agreement(coder.transform(X.astype(np.float64)), coder.transform(X)) > 0.998
    frozen = np.asfortranarray(X)
    frozen.setflags(write=False)
    assert agreement(coder.transform(frozen), coder.transform(X)) > 0.998
    other = make(cls, n_bits=T).fit(X.astype(np.float64), y)
    assert agreement(other.transform(X)[:, : steady(cls)], coder.transform(X)[:, : steady(cls)]) > 0.9


@every_coder
@pytest.mark.parametrize("scale", [pytest.param(1e6, marks=pytest.mark.long), 1e-6])
def test_the_scale_of_X_hardly_matters(cls, scale):
    X, y = digits()
    scaled = X * np.float32(scale)
    found = make(cls, n_bits=T).fit(scaled, y).transform(scaled)
    assert agreement(found[:, : steady(cls)], fitted(cls).transform(X)[:, : steady(cls)]) > 0.9


@every_coder
def test_model_files_bring_back_the_same_coder(cls, tmp_path):
    X, _ = digits()
    fitted(cls).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is cls
    assert again.get_params() == fitted(cls).get_params()
    np.testing.assert_array_equal(again.encode(X), fitted(cls).encode(X))


@every_coder
def test_inconsistent_model_files_are_rejected(cls, tmp_path):
    """A forged file can have a valid checksum, so shapes and types are checked against each other."""
    path = tmp_path / "model"
    fitted(cls).save(path)
    kind, state, arrays = read_model(path)
    forged = []
    for name, array in arrays.items():
        others = {other: value for other, value in arrays.items() if other != name}
        forged += [] if name == "dial_" else [(state, others)]  # a coder saved during a fit has none
        forged += [
            (state, {**others, name: np.zeros(array.shape, np.uint8)}),
            (state, {**others, name: array[..., None]}),
        ]
        if name not in HISTORY:
            forged += [(state, {**others, name: np.delete(array, 0, axis)}) for axis in range(array.ndim)]
    for wrong in ({"n_bits_": 1000}, {"n_bits_": "eight"}, {"n_features_in_": 63}, {"transform": 1}):
        forged.append(({**state, "fitted": {**state["fitted"], **wrong}}, arrays))
    forged.append((state, {**arrays, "encode": np.zeros(3)}))
    for wrong_state, wrong_arrays in forged:
        write_model(path, kind, wrong_state, wrong_arrays)
        with pytest.raises(ModelFileError):
            load(path)


@every_coder
def test_prefixes(cls, tmp_path):
    """If prefixes are codes, a truncated coder gives that prefix and can be saved."""
    X, y = digits()
    coder = fitted(cls)
    if not hasattr(coder, "truncate"):
        pytest.skip("its bits depend on each other")
    for n_bits in (1, 4, T):
        short = coder.truncate(n_bits)
        assert short.n_bits == short.n_bits_ == n_bits
        np.testing.assert_array_equal(short.transform(X), coder.transform(X)[:, :n_bits])
        short.save(tmp_path / "short")
        np.testing.assert_array_equal(load(tmp_path / "short").encode(X), short.encode(X))
    assert coder.n_bits_ == T
    for n_bits in (0, T + 1, 2.0, True):
        with pytest.raises(ValueError, match="n_bits="):
            coder.truncate(n_bits)
    if "code of the first eigenfunctions" in " ".join(inspect.getdoc(cls).split()):
        return  # they depend on n_bits
    # Eigensolvers give slightly different vectors for another number of them.
    assert agreement(make(cls, n_bits=6).fit(X, y).transform(X), coder.truncate(6).transform(X)) > 0.98


def attempt(coder, X, y, queries):
    """Return the bits of the queries, or None and the error message."""
    try:
        return coder.fit(X, y).transform(queries), ""
    except ValueError as error:
        return None, str(error)


@every_coder
def test_more_bits_than_columns_or_an_error(cls):
    X, y = digits()
    X = X[:, :3]
    coder = make(cls, n_bits=20)
    bits, said = attempt(coder, X, y, X)
    if bits is None:
        assert "n_bits=20" in said
        with pytest.raises(NotFittedError):
            coder.transform(X)
    else:
        assert bits.shape[1] == 20 or cls.__name__ == "CBID"  # C-BID stops early, with a warning


@every_coder
def test_one_column(cls):
    X, y = digits()
    bits, said = attempt(make(cls, n_bits=1), X[:, :1], y, X[:, :1])
    assert "n_bits=1" in said if bits is None else bits.shape == (len(X), 1)


@every_coder
def test_few_samples(cls):
    X, _ = digits()
    for n in (1, 2, 3, 6):
        bits, said = attempt(make(cls, n_bits=1), X[:n], np.arange(n) % 2, X)
        if bits is None:
            assert any(word in said for word in ("sample", "class", "n_bits=1"))
        else:
            assert bits.shape == (len(X), 1)


@every_coder
def test_one_class(cls):
    X, _ = digits()
    y = np.full(len(X), "a")
    if make(cls).__sklearn_tags__().target_tags.required or cls.__name__ == "CBID":
        with pytest.raises(ValueError, match="'a'"):
            make(cls).fit(X, y)
    else:
        np.testing.assert_array_equal(make(cls).fit(X, y).encode(X), make(cls).fit(X).encode(X))


# These take their scale from the distances within X, or from the setting that the error names.
SCALE = {"PStableLSH": "width=None", "ShiftInvariantLSH": "gamma=None"}


@every_coder
def test_copies_of_one_point(cls):
    for value in (0.0, 0.1):  # the mean of copies of 0.1 may differ from 0.1
        X = np.full((12, 4), value)
        bits, said = attempt(make(cls), X, np.arange(12) % 2, X)
        if cls.__name__ in {"LSH", "SignEmbedding"}:
            assert (bits == bits[0]).all()
        else:
            assert SCALE.get(cls.__name__, "X") in said


@every_coder
def test_many_copies_of_few_points(cls):
    X, _ = digits()
    bits, said = attempt(make(cls, n_bits=5), np.repeat(X[:8], 10, axis=0), np.repeat(np.arange(8) % 2, 10), X[:8])
    assert "n_bits=" in said if bits is None else len(np.unique(bits, axis=0)) > 1
