"""The choice of the form of class bits, and the whitening that follows the number of samples."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits

from cbid import CBID, load
from cbid.learning.features import effective_ridge
from cbid.learning.form import choose_form


def rings(n, rng):
    """Two classes, one around the other: no hyperplane separates them."""
    y = np.arange(n) % 2
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = 1 + y + 0.1 * rng.normal(size=n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), y


def stripes(n, rng):
    """Four classes by two noisy linear scores, among many columns that say nothing."""
    X = rng.normal(size=(n, 40))
    scores = X[:, :2] + 0.3 * rng.normal(size=(n, 2))
    return X, 2 * (scores[:, 0] > 0) + (scores[:, 1] > 0)


def choose(X, y, **settings):
    return choose_form(X, y, **{"n_anchors": 1000, "gamma": None, "seed": 0, **settings})


def test_the_kernel_is_chosen_where_hyperplanes_fail():
    form = choose(*rings(300, np.random.default_rng(0)))
    assert form.kernel == "rbf"
    assert form.scores["rbf"] > 0.9 > form.scores["linear"]
    assert "rbf" in str(form)


def test_hyperplanes_are_chosen_where_they_are_better():
    form = choose(*stripes(400, np.random.default_rng(0)))
    assert form.kernel == "linear"
    assert form.width is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_choice_depends_on_neither_scale_nor_offset_nor_chance(scale):
    X, y = rings(300, np.random.default_rng(1))
    same, again = choose(X, y), choose(scale * (X + 3), y)
    assert (again.kernel, again.width) == (same.kernel, same.width)


def test_without_labels_or_with_few_there_is_no_trial():
    X, y = rings(300, np.random.default_rng(0))
    for numbers in (np.full(300, -1), np.where(np.arange(300) < 90, y, -1), np.arange(300)):
        form = choose(X, numbers)
        assert (form.kernel, form.scores) == ("linear", None)
        assert "no trial" in str(form)
    assert choose(np.ones_like(X), y).kernel == "linear"


def test_many_classes_and_many_samples():
    """Of 400 classes a part is tried, and of 9,000 samples a fifth."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    many = choose(np.repeat(X, 5, axis=0) + 0.01 * rng.normal(size=(2000, 6)), np.repeat(np.arange(400), 5))
    assert many.scores["rbf"] > many.scores["linear"]
    X, y = rings(9000, rng)
    assert choose(X, np.where(y == 1, 1, 0)).kernel == "rbf"


def test_a_given_width_is_the_one_tried():
    X, y = rings(300, np.random.default_rng(0))
    assert choose(X, y, gamma=2.0).width is None
    coder = CBID(n_bits=4, gamma=2.0).fit(X, y)
    assert (coder.kernel_, coder.gamma_) == ("rbf", 2.0)


def test_a_narrow_kernel_on_every_sample_needs_a_clear_gain(monkeypatch):
    """Width 2 leads by 0.02, then by 0.1; with fewer anchors than samples 0.02 is enough."""
    X, y = rings(300, np.random.default_rng(0))

    def width_of(lead, n_anchors):
        shares = iter([0.5, 0.8, 0.8 + lead] + [0.7] * 5)  # widths 0.5, 1 and 2, then the other splits
        monkeypatch.setattr("cbid.learning.form._accuracy", lambda *args: next(shares))
        return choose(X, y, n_anchors=n_anchors).width

    assert width_of(0.02, 1000) == 1
    assert width_of(0.1, 1000) == 2
    assert width_of(0.02, 100) == 2


def test_label_sets_choose_the_form_that_explains_more_of_their_variance():
    """Ring and half are two labels: the ring needs the kernel. Labels by linear scores do not, and ten anchors are
    too few for them."""
    rng = np.random.default_rng(0)
    X, ring = rings(400, rng)
    sets = csr_matrix(np.stack([ring, 1 - ring, X[:, 0] > 0], axis=1).astype(int))
    form = choose(X, None, sets=sets)
    assert form.kernel != "linear"
    assert form.scores[form.kernel] > 0.7 > form.scores["linear"]
    X, y = stripes(400, rng)
    sets = csr_matrix(np.stack([y >= 2, y % 2, np.ones(400)], axis=1).astype(int))
    form = choose(X, None, sets=sets, n_anchors=10)
    assert (form.kernel, form.width) == ("linear", None)


def test_without_several_labels_for_many_samples_there_is_no_trial():
    X, y = rings(300, np.random.default_rng(0))
    sets = np.stack([y, np.ones(300)], axis=1).astype(int)
    sets[90:] = 0
    assert choose(X, None, sets=csr_matrix(sets)).scores is None


def test_label_sets_may_choose_absolute_differences():
    """Labels change abruptly, at steps of each column."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, size=(600, 3))
    step = X.astype(int)
    sets = csr_matrix(np.hstack([step == place for place in range(3)]).astype(int))
    form = choose(X, None, sets=sets)
    assert form.kernel == "laplacian"
    assert form.scores["laplacian"] > form.scores["linear"]
    assert "laplacian (explained variance of the similarity on the trial: linear 0." in str(form)


def test_the_ridge_leaves_half_as_many_axes_as_samples():
    """50 axes of unit variance and 50 samples: each axis may count one half, 1 / (1 + ridge) = 1/2, beyond the limit
    of 0.1. With 100 axes of variance 0.05, 0.05 / (0.05 + ridge) = 1/2 at ridge = 0.05. Few axes need the least."""
    assert effective_ridge(np.ones(50), 50) == pytest.approx(0.1)
    assert effective_ridge(np.full(100, 0.05), 100) == pytest.approx(0.05, rel=1e-3)
    assert effective_ridge(np.ones(20), 1000) == 1e-5


def test_the_coder_reports_the_form_and_keeps_it(tmp_path, capsys):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400].astype(np.float32), y[:400]
    coder = CBID(n_bits=6, likeness=0, verbose=1).fit(X, y)
    assert coder.kernel_ == "rbf"
    assert coder.anchors_.shape == (400, 64)
    assert "form of class bits: rbf" in capsys.readouterr().err
    explicit = CBID(n_bits=6, likeness=0, kernel="rbf", gamma=coder.gamma_).fit(X, y)
    np.testing.assert_array_equal(explicit.encode(X), coder.encode(X))
    coder.save(tmp_path / "m")
    assert load(tmp_path / "m").kernel_ == "rbf"
    assert coder.truncate(3).kernel_ == "rbf"
    # A warm start keeps the form.
    grown = CBID(n_bits=3, likeness=0, warm_start=True).fit(X, y).set_params(n_bits=6).fit(X, y)
    np.testing.assert_array_equal(grown.encode(X), coder.encode(X))
    assert not hasattr(coder.set_params(kernel="linear").fit(X, y), "anchors_")


@pytest.mark.parametrize("kernel", [None, "linear"])
def test_none_means_linear(kernel):
    X, y = rings(200, np.random.default_rng(0))
    coder = CBID(n_bits=3, kernel=kernel).fit(X, y)
    assert coder.kernel_ == "linear"
    assert coder.coef_.shape == (3, 2)
    assert CBID.paper(3).kernel == "linear"


def test_all_samples_as_anchors_do_not_overfit():
    """Noisy blobs in many dimensions, every sample an anchor: the former ridge of 1e-4 fits the noise."""
    rng = np.random.default_rng(0)
    y = np.arange(800) % 8
    X = rng.normal(size=(800, 200)) * np.linspace(1.5, 0.3, 200) + 0.25 * rng.normal(size=(8, 200))[y]
    X, y, Q, yq = X[:300], y[:300], X[300:], y[300:]

    def accuracy(**settings):
        coder = CBID(n_bits=24, likeness=0, kernel="rbf", **settings).fit(X, y)
        return np.mean(y[np.argmax(coder.transform(Q).astype(int) @ coder.transform(X).astype(int).T, axis=1)] == yq)

    assert accuracy() > accuracy(whitening=1e-4) + 0.05
