"""What holds for every coder, whatever its method: bits, codes, files, seeds, and data at the edge of sense."""

import functools
import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import cbid.coders.base
from cbid import CodeIndex, load
from cbid.coders import ModelFileError
from cbid.storage.models import read_model, write_model
from tests.coders.every import EVERY, make

every_coder = pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
# Data without sense: few samples, one column. What is learned from it may come with a warning.
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
def test_bits_codes_and_projections_are_one_and_the_same(cls):
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
def test_bits_tell_samples_apart(cls):
    """1-NN by codes is far better than chance."""
    X, y = digits()
    bits = fitted(cls).transform(X).astype(int)
    nearest = np.argmax(bits[200:] @ bits[:200].T, axis=1)
    assert np.mean(y[:200][nearest] == y[200:]) > 0.3


@every_coder
def test_an_index_takes_its_codes(cls):
    X, _ = digits()
    index = CodeIndex(n_bits=T)
    index.add(fitted(cls).encode(X))
    assert (index.search(fitted(cls).encode(X[:5]), k=1).distances == 0).all()


@every_coder
def test_the_same_seed_gives_the_same_bits(cls):
    X, y = digits()
    first = fitted(cls).encode(X)
    again = clone(fitted(cls))
    with pytest.raises(NotFittedError):
        again.transform(X)
    assert again.get_params() == fitted(cls).get_params()
    np.testing.assert_array_equal(again.fit(X, y).encode(X), first)
    np.testing.assert_array_equal(again.fit(X, y).encode(X), first)


@every_coder
def test_every_seed_is_accepted(cls):
    if "random_state" not in inspect.signature(cls).parameters:
        pytest.skip("nothing about it is random")
    X, y = digits()
    for seed in (None, 7, np.random.RandomState(0)):
        assert make(cls, n_bits=3, random_state=seed).fit(X, y).encode(X).shape == (len(X), 1)


@every_coder
@pytest.mark.parametrize("seed", ["a", -1, 1.5, np.random.default_rng(0)], ids=str)
def test_what_is_no_seed_is_refused_by_name(cls, seed):
    if "random_state" not in inspect.signature(cls).parameters:
        pytest.skip("nothing about it is random")
    coder = make(cls, n_bits=3, random_state=seed)
    with pytest.raises(ValueError, match=r"random_state=.*"):
        coder.fit(*digits())


@every_coder
def test_n_jobs_is_no_number_but_zero(cls):
    if "n_jobs" not in inspect.signature(cls).parameters:
        pytest.skip("it takes one thread")
    with pytest.raises(ValueError, match="n_jobs=0"):
        make(cls, n_jobs=0).fit(*digits())


@every_coder
def test_settings_changed_after_the_fit_wait_for_the_next(cls):
    """A fitted coder is what was learned: other settings change nothing until it learns again."""
    X, y = digits()
    coder = make(cls, n_bits=T).fit(X, y)
    before = coder.encode(X)
    others = {"n_bits": 3, "n_layers": 1, "n_nearest": 2, "bits_per_subspace": 2, "outer": True, "p": 1}
    coder.set_params(**{name: value for name, value in others.items() if name in coder.get_params()})
    np.testing.assert_array_equal(coder.encode(X), before)


@every_coder
def test_a_failed_fit_leaves_the_coder_as_it_was(cls, monkeypatch):
    """At whatever moment it fails: here when X was looked at and most is learned."""
    X, y = digits()
    coder = make(cls, n_bits=T).fit(X, y)
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
    with pytest.raises(ValueError, match="NaN"):  # the names of the columns are kept before the values are looked at
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


@every_coder
def test_precision_and_layout_hardly_matter(cls):
    X, y = digits()
    coder = fitted(cls)
    assert agreement(coder.transform(X.astype(np.float64)), coder.transform(X)) > 0.998
    frozen = np.asfortranarray(X)
    frozen.setflags(write=False)
    assert agreement(coder.transform(frozen), coder.transform(X)) > 0.998
    other = make(cls, n_bits=T).fit(X.astype(np.float64), y)
    assert agreement(other.transform(X), coder.transform(X)) > 0.9


@every_coder
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_the_unit_of_X_hardly_matters(cls, scale):
    X, y = digits()
    scaled = X * np.float32(scale)
    assert agreement(make(cls, n_bits=T).fit(scaled, y).transform(scaled), fitted(cls).transform(X)) > 0.9


@every_coder
def test_model_files_bring_back_the_same_coder(cls, tmp_path):
    X, _ = digits()
    fitted(cls).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is cls
    assert again.get_params() == fitted(cls).get_params()
    np.testing.assert_array_equal(again.encode(X), fitted(cls).encode(X))


@every_coder
def test_model_files_that_do_not_fit_together_are_refused(cls, tmp_path):
    """Whoever can write a file can write its checksum: shapes and types are held against each other."""
    path = tmp_path / "model"
    fitted(cls).save(path)
    kind, state, arrays = read_model(path)
    forged = []
    for name, array in arrays.items():
        others = {other: value for other, value in arrays.items() if other != name}
        forged += [
            (state, others),
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
    """Where prefixes are codes, a shorter coder is that prefix and can be kept."""
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
        return  # which are looked for along as many axes as there are bits
    # Eigensolvers that look for fewer vectors end at slightly other ones.
    assert agreement(make(cls, n_bits=6).fit(X, y).transform(X), coder.truncate(6).transform(X)) > 0.98


@every_coder
@pytest.mark.parametrize("n_bits", [0, -3, 65_537, 8.0, True, "8", None])
def test_n_bits_must_be_a_number_of_bits(cls, n_bits):
    if n_bits is None and inspect.signature(cls).parameters["n_bits"].default is None:
        pytest.skip("None is as many as there are")
    coder = make(cls).set_params(n_bits=n_bits)
    with pytest.raises(ValueError, match=f"n_bits={n_bits!r}"):
        coder.fit(*digits())


def attempt(coder, X, y, queries):
    """The fitted coder's bits of the queries, or None, and what the error said."""
    try:
        return coder.fit(X, y).transform(queries), ""
    except ValueError as error:
        return None, str(error)


@every_coder
def test_more_bits_than_columns_or_an_error_that_says_how_many(cls):
    X, y = digits()
    X = X[:, :3]
    coder = make(cls, n_bits=20)
    bits, said = attempt(coder, X, y, X)
    if bits is None:
        assert "n_bits=20" in said
        with pytest.raises(NotFittedError):
            coder.transform(X)
    else:
        assert bits.shape[1] == 20 or cls.__name__ == "CBID"  # which ends early, with a warning


@every_coder
def test_one_column(cls):
    X, y = digits()
    bits, said = attempt(make(cls, n_bits=1), X[:, :1], y, X[:, :1])
    assert "n_bits=1" in said if bits is None else bits.shape == (len(X), 1)


@every_coder
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_a_handful_of_samples(cls, n):
    X, _ = digits()
    bits, said = attempt(make(cls, n_bits=1), X[:n], np.arange(n) % 2, X)
    if bits is None:
        assert any(word in said for word in ("sample", "class", "n_bits=1"))
    else:
        assert bits.shape == (len(X), 1)


@every_coder
def test_one_class(cls):
    X, _ = digits()
    y = np.full(len(X), "a")
    if make(cls).__sklearn_tags__().target_tags.required:
        with pytest.raises(ValueError, match=r"one class \('a'\)"):
            make(cls).fit(X, y)
    else:
        np.testing.assert_array_equal(make(cls).fit(X, y).encode(X), make(cls).fit(X).encode(X))


# Not learned from X but drawn, or a threshold on each column: bits that are the same for all.
DRAWN = {"LSH", "SignEmbedding"}
# Drawn in a unit that the distances within X give: the error names the setting that gives it otherwise.
DRAWN_IN_A_UNIT = {"PStableLSH": "one point; give width", "ShiftInvariantLSH": "one point; give gamma"}


@every_coder
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0])
def test_copies_of_one_point(cls, value):
    """All of X the same: what learns from it says that there is nothing to learn."""
    X = np.full((12, 4), value)
    bits, said = attempt(make(cls), X, np.arange(12) % 2, X)
    if cls.__name__ in DRAWN:
        assert (bits == bits[0]).all()
    else:
        assert DRAWN_IN_A_UNIT.get(cls.__name__, "X has no column that varies") in said


@every_coder
def test_many_copies_of_few_points(cls):
    X, _ = digits()
    bits, said = attempt(make(cls, n_bits=5), np.repeat(X[:8], 10, axis=0), np.repeat(np.arange(8) % 2, 10), X[:8])
    assert "n_bits=" in said if bits is None else len(np.unique(bits, axis=0)) > 1
