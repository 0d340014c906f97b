"""Unusual, wrong or hostile input works, or raises an error that names the argument and the value."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from cbid import CBID
from tests.coders.blobs import blobs

X, Y = blobs(n=60, d=4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_bits": 0}, "n_bits=0"),
        ({"n_bits": 65537}, "n_bits=65537"),
        ({"n_bits": 8.0}, "n_bits=8.0"),
        ({"n_bits": True}, "n_bits=True"),
        ({"nu": 0}, "nu=0"),
        ({"nu": -1}, "nu=-1"),
        ({"nu": float("nan")}, "nu=nan"),
        ({"nu": float("inf")}, "nu=inf"),
        ({"nu": "small"}, "nu='small'"),
        ({"margin": "wide"}, "margin='wide'"),
        ({"loss": "huber"}, "loss='huber'"),
        ({"penalty": "l2"}, "penalty='l2'"),
        ({"n_hits": 0}, "n_hits=0"),
        ({"n_misses": -2}, "n_misses=-2"),
        ({"hits": "furthest"}, "hits='furthest'"),
        ({"hits": "whole", "misses": "nearest"}, "hits='whole'"),
        ({"hits": "nearest", "misses": "whole"}, "misses='whole'"),
        ({"hits": "whole", "triplets": "all"}, "triplets='all'"),
        ({"triplets": "some"}, "triplets='some'"),
        ({"kernel": "poly"}, "kernel='poly'"),
        ({"gamma": 0.0}, "gamma=0.0"),
        ({"n_anchors": 0}, "n_anchors=0"),
        ({"n_components": 0}, "n_components=0"),
        ({"ridge": -1e-3}, "ridge=-0.001"),
        ({"whitening": -1.0}, "whitening=-1"),
        ({"sigmoid": "relu"}, "sigmoid='relu'"),
        ({"starts": "best"}, "starts='best'"),
        ({"n_starts": 0}, "n_starts=0"),
        ({"n_climbs": -1}, "n_climbs=-1"),
        ({"smoothing": -1.0}, "smoothing=-1.0"),
        ({"distinct": 0.5}, "distinct=0.5"),
        ({"max_rows": 0}, "max_rows=0"),
        ({"tol": 0}, "tol=0"),
        ({"warm_start": "yes"}, "warm_start='yes'"),
        ({"verbose": "x"}, "verbose='x'"),
        ({"verbose": -1}, "verbose=-1"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"n_jobs": "2"}, "n_jobs='2'"),
        ({"n_jobs": True}, "n_jobs=True"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        CBID(**{"n_bits": 4, **params}).fit(X, Y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(value):
    bad = X.copy()
    bad[3, 1] = value
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        CBID(n_bits=2).fit(bad, Y)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        CBID(n_bits=2).fit(X, Y).transform(bad)


def test_empty_one_class_and_lengths():
    with pytest.raises(ValueError, match="0 sample"):
        CBID().fit(np.empty((0, 3)), [])
    with pytest.raises(ValueError, match=r"one class .*7"):
        CBID().fit(X, np.full(60, 7))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CBID().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="likeness=0"):
        CBID(likeness=0).fit(X, None)


@pytest.mark.parametrize("labels", [[None] * 60, np.full(60, np.nan), np.ma.array(Y, mask=True), np.full(60, -1)])
@pytest.mark.parametrize(
    ("settings", "name"), [({"likeness": 0}, "likeness=0"), ({"margin": "class"}, "margin='class'")]
)
def test_no_label_at_all_with_settings_for_classes_only(labels, settings, name):
    with pytest.raises(ValueError, match=f"{name}: expected labels to learn from"):
        CBID(n_bits=4, missing_label=-1, **settings).fit(X, labels)


@pytest.mark.parametrize("likeness", [-0.1, 1.1, np.nan, np.inf, "half", [0.5]])
def test_likeness_is_a_number_from_0_to_1(likeness):
    with pytest.raises(ValueError, match=r"likeness=.*: expected a number from 0 to 1"):
        CBID(n_bits=2, likeness=likeness).fit(X, Y)


@pytest.mark.parametrize("margin", ["class", "paper", "database"])
def test_weights_of_classes_are_not_extended_to_new_ones(margin):
    two = Y < 2
    coder = CBID(n_bits=2, margin=margin, kernel="linear").fit(X[two], Y[two])
    before = coder.encode(X)
    with pytest.raises(ValueError, match=r"y has the classes \[0, 1, 2\].*expected \[0, 1\]"):
        coder.extend(X, Y, n_bits=4)
    np.testing.assert_array_equal(coder.encode(X), before)
    assert coder.n_bits == 2


def test_a_class_with_one_member_is_named():
    y = np.array(["cat", "dog"] * 30, dtype=object)
    y[5] = "unicorn"
    with pytest.raises(ValueError, match=r"one member.*'unicorn'"):
        CBID(n_bits=2).fit(X, y)


@pytest.mark.parametrize(
    "names", [["x", "y", "z"], [-1, 0, 99], [("a", 1), ("a", 2), ("b", 1)], [("n",), "x", 3], [0.5, 1.5, 2.5]]
)
def test_labels_of_any_kind_give_the_same_bits(names):
    coder = CBID(n_bits=4).fit(X, [names[v] for v in Y])
    assert len(coder.classes_) == 3
    numbers = CBID(n_bits=4).fit(X, [coder.classes_.tolist().index(names[v]) for v in Y])
    np.testing.assert_array_equal(coder.encode(X), numbers.encode(X))


def test_numbers_and_text_are_different_labels():
    assert CBID(n_bits=3).fit(X, [[1, "1", "a"][v] for v in Y]).classes_.tolist() == [1, "1", "a"]


def test_labels_that_are_not_hashable():
    with pytest.raises(ValueError, match="hashable"):
        CBID().fit(X, np.array([{"a": 1}] * 60, dtype=object))


@pytest.mark.parametrize("hits", ["whole", "class", "nearest"])
@pytest.mark.filterwarnings("ignore:.*classes have fewer:UserWarning")
def test_one_to_a_thousand(hits):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2002, 3))
    X[2000:] += 6
    y = np.repeat([0, 1], [2000, 2])
    bits = CBID(n_bits=4, kernel="linear", hits=hits).fit(X, y).transform(X).astype(int)
    far, near = bits[2000] @ bits[:2000].T, bits[2000] @ bits[2001]
    assert near > far.mean()


def test_more_hits_than_members_is_one_warning():
    with pytest.warns(UserWarning, match="3 of 3 classes have fewer than 51 members") as record:
        CBID(n_bits=2, hits="nearest", n_hits=50).fit(X, Y)
    assert len(record) == 1


def test_duplicates_with_different_labels():
    coder = CBID(n_bits=3).fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2) % 2 + np.tile([0, 1], 60))
    assert coder.n_bits_ == 3


@pytest.mark.parametrize("penalty", ["linf", "l1", 2.0])
@pytest.mark.parametrize("hits", ["whole", "nearest"])
@pytest.mark.filterwarnings("ignore:.*classes have fewer:UserWarning")
def test_identical_classes_are_not_blamed_on_nu(penalty, hits):
    with pytest.raises(ValueError, match="no hyperplane separates anything in the rows") as error:
        CBID(n_bits=4, penalty=penalty, hits=hits).fit([[0.0], [1], [0], [1]], [0, 0, 1, 1])
    assert "nu" not in str(error.value).split()
    for others in ([0, 1], [2, 3]):  # the anchors themselves, or other samples
        with pytest.raises(ValueError, match="no hyperplane separates anything in the rows"):
            CBID(n_bits=4, penalty=penalty).fit_triplets(X, [0, 1], others, others)


def test_nothing_but_duplicates():
    with pytest.raises(ValueError, match="no column that varies"):
        CBID().fit(np.ones((10, 3)), np.arange(10) % 2)


def test_constant_columns_have_no_say():
    wide = np.hstack([X, np.full((60, 2), 7.0)])
    coder = CBID(n_bits=4).fit(wide, Y)
    np.testing.assert_allclose(coder.coef_[:, 4:], 0, atol=1e-9)


def test_more_columns_than_samples():
    wide, y = blobs(n=20, d=300)
    assert CBID(n_bits=8).fit(wide, y).transform(wide).shape == (20, 8)


@pytest.mark.parametrize(("scale", "dtype"), [(1e12, np.float32), (1e-12, np.float64)])
@pytest.mark.parametrize(
    "settings", [{"kernel": "linear"}, {"kernel": "rbf"}, {"kernel": "linear", "hits": "nearest"}]
)
def test_scale_makes_no_difference(scale, dtype, settings):
    plain = CBID(n_bits=6, **settings).fit(X, Y)
    scaled = CBID(n_bits=6, **settings).fit((X * scale).astype(dtype), Y)
    np.testing.assert_allclose(scaled.objective_, plain.objective_, rtol=0.05)
    assert scaled.n_bits_ == 6


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("settings", [{}, {"kernel": "rbf"}, {"hits": "nearest"}])
def test_values_whose_squares_are_beyond_the_numbers(settings):
    for scale, advice in ((1e-200, "underflow; scale X up"), (1e200, "overflow; scale X down")):
        with pytest.raises(ValueError, match=rf"X .* squares {advice}"):
            CBID(n_bits=2, **settings).fit(X * scale, Y)
    tiny = (X * 1e-40).astype(np.float32)
    if settings.get("kernel") is None:  # similarities have no unit
        with pytest.raises(ValueError, match=r"X .* squares underflow; scale X up"):
            CBID(n_bits=2, **settings).fit(tiny, Y)


def test_a_large_offset_makes_no_difference():
    shifted = CBID(n_bits=6).fit(X + 1e6, Y)
    np.testing.assert_allclose(shifted.objective_, CBID(n_bits=6).fit(X, Y).objective_, rtol=0.05)


def test_float16_integers_lists_and_layouts():
    bits = CBID(n_bits=4).fit(X.astype(np.float16), Y).transform(X.astype(np.float16))
    assert bits.shape == (60, 4)
    CBID(n_bits=2).fit((X * 10).astype(int), Y)
    CBID(n_bits=2).fit(X.tolist(), Y.tolist())
    frozen = np.asfortranarray(X)
    frozen.setflags(write=False)
    strided = np.repeat(X, 2, axis=0)[::2]
    expected = CBID(n_bits=4).fit(X, Y).encode(X)
    for same in (frozen, strided):
        np.testing.assert_array_equal(CBID(n_bits=4).fit(same, Y).encode(same), expected)


def test_sparse_is_rejected():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        CBID().fit(csr_matrix(X), Y)


def test_width_and_shape_at_transform():
    coder = CBID(n_bits=2).fit(X, Y)
    with pytest.raises(ValueError, match="X has 3 features, but CBID is expecting 4"):
        coder.transform(X[:, :3])
    with pytest.raises(ValueError, match="Reshape your data"):
        coder.encode(X[0])
