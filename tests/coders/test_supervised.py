"""What holds for every supervised rival, beyond what test_all_coders checks for all coders."""

import numpy as np
import pytest

from cbid import coders
from tests.coders.blobs import blobs

SMALL = {
    "argmax": lambda **p: coders.ArgmaxCode(**{"n_bits": 6, **p}),
    "ccaitq": lambda **p: coders.CCAITQ(**{"n_bits": 6, **p}),
    "cosdish": lambda **p: coders.COSDISH(**{"n_bits": 6, **p}),
    "cosdish rbf": lambda **p: coders.COSDISH(**{"n_bits": 6, "kernel": "rbf", "n_anchors": 20, **p}),
    "fasthash": lambda **p: coders.FastHash(**{"n_bits": 6, "n_trees": 5, **p}),
    "ksh": lambda **p: coders.KSH(**{"n_bits": 6, "n_anchors": 20, **p}),
    "lda": lambda **p: coders.LDASign(**p),
    "mcbit": lambda **p: coders.MCBit(**{"n_bits": 4, **p}),
    "picodes": lambda **p: coders.PiCoDes(**{"n_bits": 6, "n_iter": 2, **p}),
    "score lsh": lambda **p: coders.ScoreLSH(**{"n_bits": 6, **p}),
    "sdh": lambda **p: coders.SDH(**{"n_bits": 6, "n_anchors": 20, **p}),
    "sdh linear": lambda **p: coders.SDH(**{"n_bits": 6, "kernel": None, **p}),
}
X, Y = blobs()


@pytest.fixture(params=SMALL, ids=str)
def make(request):
    return SMALL[request.param]


def test_classes_of_new_vectors_are_recognised(make):
    inputs, y = blobs(n=180)
    coder = make().fit(inputs[:90], y[:90])
    stored, asked = (coder.transform(part).astype(int) for part in (inputs[:90], inputs[90:]))
    found = y[:90][np.argmax(asked @ stored.T, axis=1)]
    assert np.mean(found == y[90:]) > 0.8


def test_labels_of_any_kind_give_the_same_bits(make):
    expected = make().fit(X, Y).encode(X)
    for names in (["x", "y", "z"], [-1, 0, 99], [("a", 1), ("a", 2), ("b", 1)]):
        coder = make().fit(X, [names[v] for v in Y])
        assert coder.classes_.tolist() == names
        np.testing.assert_array_equal(coder.encode(X), expected)


def test_scale_and_offset_of_X_do_not_matter(make):
    """All settings are relative to X, so codes do not depend on its units."""
    expected = make().fit(X, Y).transform(X)
    for scale, offset in ((1e6, 0.0), (1e-6, 0.0), (1.0, 1e6)):
        moved = X * scale + offset
        assert np.mean(make().fit(moved, Y).transform(moved) == expected) > 0.99, (scale, offset)


def test_few_samples_one_feature_and_constant_columns(make):
    few = 6 if make is SMALL["mcbit"] else 3
    make().fit(X[:few], Y[:few]).transform(X)  # one sample per class, or two
    bits = make(**({"n_bits": 1} if make is SMALL["lda"] else {})).fit(X[:, :1], Y).transform(X[:, :1])
    assert set(np.unique(bits)) <= {-1, 1}
    padded = np.hstack([X, np.ones((len(X), 2))])
    assert make().fit(padded, Y).transform(padded).shape[0] == len(X)
    wide = np.random.default_rng(0).standard_normal((12, 40))
    make().fit(wide, Y[:12]).transform(wide)


@pytest.mark.parametrize(
    ("coder", "message"),
    [
        (coders.CCAITQ(reg=-1), "reg=-1"),
        (coders.CCAITQ(n_iter=-1), "n_iter=-1"),
        (coders.COSDISH(n_columns=0), "n_columns=0"),
        (coders.COSDISH(kernel="poly"), "kernel='poly'"),
        (coders.COSDISH(n_rounds=0), "n_rounds=0"),
        (coders.FastHash(depth=11), "depth=11"),
        (coders.FastHash(trim=1.0), "trim=1.0"),
        (coders.FastHash(n_features=0), "n_features=0"),
        (coders.KSH(gamma=0), "gamma=0"),
        (coders.KSH(n_labelled=0), "n_labelled=0"),
        (coders.PiCoDes(C=0), "C=0"),
        (coders.ScoreLSH(C=float("nan")), "C=nan"),
        (coders.SDH(nu=-1), "nu=-1"),
        (coders.SDH(lam=0), "lam=0"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_settings_are_rejected_by_name(coder, message):
    with pytest.raises(ValueError, match=message):
        coder.fit(X, Y)
