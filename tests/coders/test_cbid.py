"""The image-level coder from its public surface."""

import copy
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import cbid.coders.large_margin
from cbid import CBID, codes, load
from cbid.coders import ITQ
from cbid.learning.likeness import is_likeness_bit
from cbid.learning.losses import LOSSES
from cbid.learning.margins import MARGINS
from cbid.paper.unseen import code_distances, unseen_figures, unseen_split

HITS = ["whole", "class", "nearest"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@pytest.fixture(scope="module")
def fitted(digits):
    return CBID(n_bits=24, kernel="linear").fit(*digits)


def nearest_class(coder, X, y, Q):
    """1-NN by plain Hamming distance."""
    return y[np.argmax(coder.transform(Q).astype(int) @ coder.transform(X).astype(int).T, axis=1)]


def test_shapes_and_types_of_the_contract(digits, fitted):
    X, _ = digits
    assert fitted.n_bits_ == 24
    assert fitted.coef_.shape == (24, 64)
    assert fitted.intercept_.shape == fitted.weights_.shape == fitted.objective_.shape == fitted.gap_.shape == (24,)
    bits = fitted.transform(X)
    assert bits.dtype == np.int8
    assert set(np.unique(bits)) == {-1, 1}
    assert fitted.encode(X).shape == (600, 3)
    assert fitted.encode(X).dtype == np.uint8
    np.testing.assert_array_equal(fitted.encode(X), np.packbits(bits > 0, axis=1))
    np.testing.assert_array_equal(codes.unpack(fitted.encode(X), 24), bits)


@pytest.mark.parametrize(
    ("n", "d", "ridge"),
    [(200, 20, (0.8 * 20 / 200) ** 2), (400, 5, 1e-3), (60, 30, 0.03)],
    ids=["rule", "least", "most"],
)
def test_the_ridge_follows_axes_and_samples(n, d, ridge):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) + 0.4 * rng.normal(size=(3, d))[y]
    by_default, told, more = (CBID(n_bits=4, kernel="linear", ridge=r).fit(X, y) for r in (None, ridge, 1e4 * ridge))
    np.testing.assert_array_equal(by_default.coef_, told.coef_)
    assert not np.array_equal(by_default.coef_, more.coef_)


@pytest.mark.parametrize(
    ("given", "ridge"),
    [({"n_anchors": 100, "smoothing": 0}, 1e-3), ({"smoothing": 0}, 0.03), ({"smoothing": 1e-3}, 1e-3)],
    ids=["half of the samples are anchors", "all are", "smoothed"],
)
def test_the_ridge_follows_the_anchors(given, ridge):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    X = rng.normal(size=(200, 20)) + 0.4 * rng.normal(size=(3, 20))[y]
    by_default, told, other = (
        CBID(n_bits=4, kernel="rbf", ridge=r, **given).fit(X, y).coef_ for r in (None, ridge, 1e4 * ridge)
    )
    np.testing.assert_array_equal(by_default, told)
    assert not np.array_equal(by_default, other)


@pytest.mark.parametrize(("kernel", "whitening"), [(None, 0.1), ("rbf", 1e-5)])
def test_whitening_by_default(digits, kernel, whitening):
    by_default, told, more = (
        CBID(n_bits=3, kernel=kernel, n_anchors=100, whitening=share).fit(*digits).coef_
        for share in (None, whitening, 10 * whitening)
    )
    np.testing.assert_array_equal(by_default, told)
    assert not np.array_equal(by_default, more)


def test_hyperplanes_are_in_the_units_of_X(digits, fitted):
    X, _ = digits
    by_hand = X.astype(np.float64) @ fitted.coef_.T + fitted.intercept_
    np.testing.assert_array_equal(np.where(by_hand >= 0, 1, -1), fitted.transform(X))
    np.testing.assert_allclose(fitted.project(X), by_hand, atol=1e-3)
    np.testing.assert_allclose(by_hand.std(axis=0), 1, rtol=1e-3)


def test_learns_what_the_digits_are():
    X, y = load_digits(return_X_y=True)
    coder = CBID(n_bits=32).fit(X[:1200], y[:1200])
    assert np.mean(nearest_class(coder, X[:1200], y[:1200], X[1200:]) == y[1200:]) > 0.9


@pytest.mark.parametrize("hits", HITS)
@pytest.mark.parametrize("margin", MARGINS)
def test_every_margin_lowers_its_objective_and_is_certified(digits, margin, hits):
    X, y = digits[0][:300], digits[1][:300]
    coder = CBID(n_bits=5, kernel="linear", margin=margin, hits=hits, nu=0.01).fit(X, y)
    assert coder.weights_.shape == ((5,) if margin == "shared" else (5, 10))
    assert (coder.weights_ >= 0).all()
    assert (np.diff(coder.objective_) < 1e-3 * coder.objective_[0]).all()
    assert coder.objective_[-1] < coder.objective_[0]
    assert (coder.gap_ >= 0).all()
    assert (coder.gap_ <= coder.tol * coder.objective_).all()


@pytest.mark.parametrize("penalty", ["l1", "linf", 2.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_and_penalty_learns(digits, loss, penalty):
    X, y = digits[0][:200], digits[1][:200]
    coder = CBID(n_bits=4, kernel="linear", loss=loss, penalty=penalty, nu=1e-2).fit(X, y)
    assert coder.n_bits_ == 4
    assert (coder.gap_ <= coder.tol * coder.objective_).all()


SETTINGS = [
    {"sigmoid": "tanh"},
    {"sigmoid": "logistic"},
    {"starts": "spectral"},
    {"starts": "random"},
    {"triplets": "all", "hits": "nearest"},
    {"hits": "class", "misses": "nearest"},
    {"max_rows": 300},
    {"n_climbs": 0},
    {"smoothing": 1e-2},
    {"kernel": "rbf", "n_anchors": 100, "smoothing": 0},
    {"n_components": 5},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_setting_learns(digits, settings):
    coder = CBID(n_bits=5, **{"kernel": "linear", **settings}).fit(digits[0][:300], digits[1][:300])
    assert coder.n_bits_ == 5
    assert coder.objective_[-1] < np.log(2)


def test_the_papers_own_settings(digits):
    X, y = digits[0][:200], digits[1][:200]
    coder = CBID.paper(n_bits=3, n_starts=10).fit(X, y)
    assert (coder.margin, coder.penalty, coder.triplets, coder.hits) == ("paper", "l1", "all", "nearest")
    assert coder.n_bits == 3
    assert (coder.gap_ <= coder.tol * coder.objective_).all()
    other = CBID.paper(n_bits=3, n_starts=20, misses="overall").fit(X, y)
    assert (other.gap_ <= other.tol * other.objective_).all()
    assert not np.array_equal(other.transform(X), coder.transform(X))


@pytest.mark.parametrize("settings", [{}, {"kernel": "rbf", "n_anchors": 50}, {"hits": "class"}])
def test_same_seed_same_bits(digits, settings):
    one, two = (CBID(n_bits=5, random_state=3, **settings).fit(*digits) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.weights_, two.weights_)


def test_threads_do_not_change_the_bits(digits):
    one, two = (CBID(n_bits=4, kernel="linear", hits="nearest", n_jobs=n).fit(*digits) for n in (1, 2))
    assert np.mean(one.transform(digits[0]) == two.transform(digits[0])) > 0.99


def test_prefixes_carry_the_weights_fitted_at_their_length(digits, fitted):
    X, y = digits
    short = fitted.truncate(10)
    alone = CBID(n_bits=10, kernel="linear").fit(X, y)
    assert short.n_bits == short.n_bits_ == 10
    np.testing.assert_array_equal(short.coef_, alone.coef_)
    np.testing.assert_array_equal(short.weights_, alone.weights_)
    np.testing.assert_array_equal(short.transform(X), fitted.transform(X)[:, :10])
    np.testing.assert_array_equal(short.truncate(4).weights_, fitted.truncate(4).weights_)
    assert fitted.n_bits_ == 24
    for n_bits in (0, 25, 3.0):
        with pytest.raises(ValueError, match="n_bits="):
            fitted.truncate(n_bits)


def test_warm_start_resumes_where_it_stopped(digits):
    X, y = digits
    whole = CBID(n_bits=12, kernel="linear").fit(X, y)
    grown = CBID(n_bits=5, kernel="linear", warm_start=True).fit(X, y).set_params(n_bits=12).fit(X, y)
    np.testing.assert_array_equal(grown.transform(X), whole.transform(X))
    np.testing.assert_allclose(grown.objective_, whole.objective_, rtol=1e-5)
    with pytest.raises(ValueError, match=r"from 12 bits; n_bits=4 is fewer"):
        grown.set_params(n_bits=4).fit(X, y)


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"kernel": "rbf", "n_anchors": 40}])
def test_warm_start_refuses_other_data_and_settings(digits, settings):
    X, y = digits
    coder = CBID(n_bits=3, warm_start=True, random_state=None, **settings).fit(X, y)
    before = coder.transform(X)
    for changes in ({"margin": "class"}, {"loss": "exponential"}, {"gamma": 0.5}, {"hits": "nearest"}):
        with pytest.raises(ValueError, match=f"changed since the last fit: {next(iter(changes))}"):
            clone_fitted(coder).set_params(n_bits=4, **changes).fit(X, y)
    for data in ((X + 1, y), (X, (y + 1) % 10), (X[:300], y[:300])):
        with pytest.raises(ValueError, match="changed since the last fit: data"):
            clone_fitted(coder).set_params(n_bits=4).fit(*data)
    np.testing.assert_array_equal(coder.set_params(n_bits=5).fit(X, y).transform(X)[:, :3], before)


def clone_fitted(coder):
    return copy.deepcopy(coder)


def test_a_failed_fit_is_no_fit(digits):
    coder = CBID(n_bits=4, penalty="l1", nu=50)
    with pytest.raises(ValueError, match="lower nu"):
        coder.fit(*digits)
    with pytest.raises(NotFittedError):
        coder.transform(digits[0])


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_a_fit_that_ends_without_a_bit_leaves_the_coder_as_it_was(digits, stop, monkeypatch):
    X, y = digits
    coder = CBID(n_bits=4, kernel="linear").fit(X, y)
    before = coder.encode(X)

    def stopped(*args, **kwargs):
        raise stop

    monkeypatch.setattr(cbid.coders.large_margin, "fit_whitening", stopped)
    with pytest.raises(stop):
        coder.fit(X[:, :30], y % 2)
    np.testing.assert_array_equal(coder.encode(X), before)
    with pytest.raises(stop):
        coder.fit_triplets(X[:, :30], [0, 1], [2, 3], [4, 5])
    np.testing.assert_array_equal(coder.encode(X), before)


def test_a_callback_that_fails_leaves_the_coder_as_it_was(digits):
    X, y = digits

    def fail_at_three(coder):
        if coder.n_bits_ == 3:
            raise RuntimeError("disk full")

    coder = CBID(n_bits=4, kernel="linear").fit(X, y)
    before = coder.encode(X)
    with pytest.raises(RuntimeError, match="disk full"):
        coder.set_params(callback=fail_at_three).fit(X[:, :30], y)
    np.testing.assert_array_equal(coder.encode(X), before)


def test_a_refused_warm_start_leaves_the_coder_as_it_was(digits):
    X, y = digits
    coder = CBID(n_bits=4, kernel="linear", warm_start=True).fit(X, y)
    before = coder.encode(X)
    with pytest.raises(ValueError, match="changed since the last fit"):
        coder.fit(X[:, :30], y)
    np.testing.assert_array_equal(coder.encode(X), before)


def test_warnings_name_the_line_that_called_fit(digits):
    with pytest.warns(UserWarning, match="every weight is zero") as told:
        CBID(n_bits=2, nu=20).fit(*digits)
    assert all(warning.filename == __file__ for warning in told)


@pytest.mark.parametrize("penalty", ["linf", 2])
def test_weights_that_are_all_zero_are_reported(digits, penalty):
    with pytest.warns(UserWarning, match=r"every weight is zero at the optimum for nu=20"):
        assert not CBID(n_bits=4, penalty=penalty, nu=20).fit(*digits).weights_.any()


def test_an_interrupt_keeps_the_bits_learned_so_far(digits):
    def stop_at_five(coder):
        if coder.n_bits_ == 5:
            raise KeyboardInterrupt

    coder = CBID(n_bits=12, kernel="linear", callback=stop_at_five)
    with pytest.warns(UserWarning, match="interrupted: the coder keeps the 5 bits"):
        coder.fit(*digits)
    assert coder.n_bits_ == 5
    assert coder.transform(digits[0]).shape == (600, 5)


def test_the_callback_sees_a_usable_coder_after_every_bit(digits):
    seen = []
    CBID(n_bits=4, callback=lambda coder: seen.append(coder.transform(digits[0]).shape[1])).fit(*digits)
    assert seen == [1, 2, 3, 4]


def test_progress_is_shown_only_on_request(digits, capsys):
    CBID(n_bits=2).fit(*digits)
    assert capsys.readouterr().err == ""
    CBID(n_bits=2, verbose=1).fit(*digits)
    assert "learning bits" in capsys.readouterr().err


def test_no_bit_is_emitted_twice(digits):
    X, y = digits
    bits = CBID(n_bits=64, kernel="linear", distinct=0.01).fit(X, y).transform(X).astype(int)
    agree = np.abs(bits.T @ bits) / len(X)
    np.fill_diagonal(agree, 0)
    assert agree.max() <= 1 - 2 * 0.01
    assert (np.abs(bits.sum(axis=0)) < len(X)).all()


def test_it_ends_early_when_no_bit_is_left_and_says_so():
    """Four points on a line have three cuts; their complements are copies."""
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    with pytest.warns(UserWarning, match=r"learning ended at \d of n_bits=40: no further distinct bit"):
        coder = CBID(n_bits=40, nu=1e-3).fit(X, y)
    assert 1 <= coder.n_bits_ <= 3


def test_l1_saturates_and_names_the_cure(digits):
    with pytest.warns(UserWarning, match="penalty='linf'"):
        coder = CBID(n_bits=64, kernel="linear", penalty="l1", likeness=0, nu=0.05).fit(*digits)
    assert coder.n_bits_ < 64
    with pytest.raises(ValueError, match="no bit improves the objective at nu=50"):
        CBID(n_bits=4, penalty="l1", likeness=0, nu=50).fit(*digits)


def test_kernel_form_separates_what_no_line_can():
    """Two rings: a hyperplane over similarities to anchors tells them apart, hyperplanes in the plane need many."""
    rng = np.random.default_rng(0)
    angle, y = rng.random(400) * 2 * np.pi, np.arange(400) % 2
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + y)[:, None] + 0.05 * rng.standard_normal((400, 2))
    coder = CBID(n_bits=2, kernel="rbf", n_anchors=60).fit(X[:300], y[:300])
    assert coder.anchors_.shape == (60, 2)
    assert coder.coef_.shape == (2, 60)
    assert np.mean(nearest_class(coder, X[:300], y[:300], X[300:]) == y[300:]) > 0.97
    again = coder.set_params(kernel=None).fit(X, y)
    assert not hasattr(again, "anchors_")


def test_ready_made_triplets(digits):
    X, y = digits
    rng = np.random.default_rng(0)
    anchors, positives, negatives = rng.integers(0, 600, (3, 40_000))
    good = (y[anchors] == y[positives]) & (y[anchors] != y[negatives]) & (anchors != positives)
    coder = CBID(n_bits=16).fit_triplets(X, anchors[good], positives[good], negatives[good])
    assert coder.n_bits_ == 16
    assert np.mean(nearest_class(coder, X[:400], y[:400], X[400:]) == y[400:]) > 0.8
    for bad, message in (
        ({"anchors": [0, 1]}, "as many anchors"),
        ({"positives": [600]}, "positives holds 600..600; X has rows 0..599"),
        ({"negatives": [0.5]}, "negatives has shape"),
    ):
        given = {"anchors": [0], "positives": [1], "negatives": [2], **bad}
        with pytest.raises(ValueError, match=message):
            CBID().fit_triplets(X, **given)
    with pytest.raises(ValueError, match="margin='class' needs classes"):
        CBID(margin="class").fit_triplets(X, [0], [1], [2])


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.long)])  # processes import everything
def test_inside_scikit_learn(digits, n_jobs):
    X, y = digits
    X, y = X[:300], y[:300]
    search = GridSearchCV(
        make_pipeline(CBID(n_bits=8, kernel="linear"), LogisticRegression()),
        {"cbid__nu": [0.1, 0.5]},
        cv=2,
        n_jobs=n_jobs,
    ).fit(X, y)
    assert search.best_score_ > 0.5
    assert clone(CBID(n_bits=8, nu=0.3)).nu == 0.3
    frame = CBID(n_bits=3).set_output(transform="pandas").fit_transform(X, y)
    assert list(frame.columns) == ["cbid0", "cbid1", "cbid2"]
    coders = Parallel(n_jobs=2, backend="threading")(delayed(CBID(n_bits=3).fit)(X, y) for _ in range(2))
    # The number of BLAS threads belongs to the whole process, so fits side by side may round differently.
    np.testing.assert_allclose(coders[0].objective_, coders[1].objective_, rtol=0.02)


def test_float32_and_float64_agree(digits, fitted):
    X, _ = digits
    assert fitted.project(X).dtype == np.float32
    assert fitted.project(X.astype(np.float64)).dtype == np.float64
    np.testing.assert_array_equal(fitted.encode(X), fitted.encode(X.astype(np.float64)))


def test_nothing_warns_on_ordinary_data(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CBID(n_bits=16).fit(*digits)


@pytest.fixture(scope="module")
def mixed(digits):
    return CBID(n_bits=48, kernel="linear", likeness=0.5).fit(*digits)


def test_class_bits_alone_are_todays_code(digits):
    X, y = digits
    coder = CBID(n_bits=12, likeness=0).fit(X, y)
    assert coder.likeness_ == 0
    assert not hasattr(coder, "kinds_")
    with pytest.raises(ValueError, match=r"likeness=0\.5"):
        coder.weights_at(0.5)


def test_prefixes_of_a_long_fit_are_the_bits_of_a_short_one(digits, mixed):
    X, y = digits
    short = CBID(n_bits=30, kernel="linear", likeness=0.5).fit(X, y)
    np.testing.assert_array_equal(mixed.transform(X)[:, :30], short.transform(X))
    np.testing.assert_allclose(mixed.truncate(30).weights_, short.weights_, rtol=0.1, atol=1e-3)
    np.testing.assert_array_equal(short.kinds_, mixed.kinds_[:30])


def test_class_bits_of_a_mixed_code_are_those_of_the_classes_alone(digits, mixed):
    X, y = digits
    alone = CBID(n_bits=int((mixed.kinds_ == 0).sum()), kernel="linear", likeness=0).fit(X, y)
    np.testing.assert_array_equal(mixed.transform(X)[:, mixed.kinds_ == 0], alone.transform(X))


def test_easy_classes_get_fewer_class_bits_even_after_a_warm_start(digits, mixed, tmp_path):
    X, y = digits
    easy = CBID(n_bits=64, likeness=0.5, warm_start=True).fit(X, y)
    assert easy.kernel_ == "rbf"
    assert easy.trial_error_ < mixed.trial_error_ < 0.17  # the trial names classes worse in the linear form
    assert (easy.kinds_ == 0).sum() < 0.8 * sum(not is_likeness_bit(s, 0.5, 10) for s in range(64))
    easy.save(tmp_path / "coder")
    again = load(tmp_path / "coder").set_params(n_bits=80).fit(X, y)
    whole = CBID(n_bits=80, likeness=0.5).fit(X, y)
    np.testing.assert_array_equal(again.kinds_, whole.kinds_)
    np.testing.assert_array_equal(again.encode(X), whole.encode(X))


def test_likeness_alone_follows_the_original_distances(digits):
    """Without labels, near samples get near codes: Spearman's correlation with the distances is high."""
    X, _ = digits
    coder = CBID(n_bits=64).fit(X)
    assert coder.likeness_ == 1
    assert coder.kinds_.all()
    bits = coder.transform(X[:200]).astype(float)
    original = np.linalg.norm(X[:200, None].astype(float) - X[None, :200], axis=2)
    upper = np.triu_indices(200, 1)
    rank = spearmanr((64 - bits @ bits.T)[upper], original[upper]).statistic
    assert rank > 0.75


def test_the_dial_goes_from_class_to_likeness(mixed, tmp_path):
    np.testing.assert_array_equal(mixed.weights_at(mixed.likeness_), mixed.weights_)
    share = [mixed.weights_at(a)[mixed.kinds_ == 1].sum() / mixed.weights_at(a).sum() for a in (0, 0.5, 1)]
    assert share[0] < share[1] < share[2]
    middle = (mixed.weights_at(0.25) + mixed.weights_at(0.5)) / 2
    np.testing.assert_allclose(mixed.weights_at(0.375), middle)
    mixed.save(tmp_path / "m")
    again = load(tmp_path / "m")
    for a in (0, 0.3, 1):
        np.testing.assert_array_equal(again.weights_at(a), mixed.weights_at(a))
    cut = mixed.truncate(20)
    assert cut.weights_at(1).shape == (20,)
    for wrong in (-0.1, 1.1, None, "class"):
        with pytest.raises(ValueError, match="likeness"):
            mixed.weights_at(wrong)


def test_the_ends_of_the_dial_reach_codes_of_half_the_length(tmp_path):
    """Seven digits are learned. Mean average precision on these, neighbour recall on the other three."""
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    split = unseen_split(y, 3, 60, seed=0)

    def figures(coder, weights):
        bits = coder.transform(X).astype(float)
        found = unseen_figures(X, y, split, lambda a, b: code_distances(bits[a], bits[b], weights))
        return found["seen_map"], found["neighbours"]

    settings, learned = {"kernel": "rbf"}, (X[split.train], y[split.train])
    coder = CBID(n_bits=64, likeness=0.5, **settings).fit(*learned)
    coder.save(tmp_path / "m")
    path = np.array([figures(coder, coder.weights_at(a)) for a in (0, 0.25, 0.5, 0.75, 1)])
    again = load(tmp_path / "m")
    np.testing.assert_array_equal([figures(again, again.weights_at(a)) for a in (0, 1)], path[[0, -1]])
    classes = CBID(n_bits=32, likeness=0, **settings).fit(*learned)
    assert path[0, 0] > figures(classes, classes.weights_)[0] - 0.01
    assert path[-1, 1] > figures(ITQ(n_bits=32).fit(X[split.train]), np.ones(32))[1]
    assert np.diff(path[:, 0]).max() < 0.003
    assert np.diff(path[:, 1]).min() > -0.003


def test_samples_without_labels_take_part_in_likeness(digits):
    X, y = digits
    few = np.where(np.arange(len(y)) % 4 == 0, y, -1)
    coder = CBID(n_bits=12, kernel="linear", likeness=0.75, missing_label=-1).fit(X, few)
    np.testing.assert_array_equal(coder.classes_, np.unique(y))
    as_none = CBID(n_bits=12, kernel="linear", likeness=0.75).fit(X, [None if v < 0 else int(v) for v in few])
    np.testing.assert_array_equal(as_none.transform(X), coder.transform(X))
    masked = CBID(n_bits=12, kernel="linear", likeness=0.75).fit(X, np.ma.array(y, mask=few < 0))
    np.testing.assert_array_equal(masked.transform(X), coder.transform(X))
    as_nan = CBID(n_bits=12, kernel="linear", likeness=0.75).fit(X, np.where(few < 0, np.nan, few))
    np.testing.assert_array_equal(as_nan.transform(X), coder.transform(X))


def test_kernel_form_with_likeness_sees_both(digits, tmp_path):
    X, y = digits
    coder = CBID(n_bits=24, likeness=0.75, kernel="rbf", n_anchors=50).fit(X, y)
    assert coder.coef_.shape == (24, 50 + X.shape[1])
    assert not coder.coef_[coder.kinds_ == 1, :50].any()
    assert not coder.coef_[coder.kinds_ == 0, 50:].any()
    coder.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").encode(X), coder.encode(X))
    grown = CBID(n_bits=12, likeness=0.75, kernel="rbf", n_anchors=50, warm_start=True).fit(X, y)
    np.testing.assert_array_equal(grown.set_params(n_bits=24).fit(X, y).transform(X), coder.transform(X))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"likeness": 1.5}, "likeness"),
        ({"likeness": -0.1}, "likeness"),
        ({"likeness": "half"}, "likeness"),
        ({"likeness": 0.5, "margin": "class"}, "likeness"),
        ({"likeness": 0.5, "loss": "hinge"}, "likeness"),
    ],
)
def test_likeness_that_cannot_be(digits, settings, name):
    with pytest.raises(ValueError, match=name):
        CBID(n_bits=4, **settings).fit(*digits)


def test_copies_of_a_point_with_different_labels(digits):
    X, y = digits
    twice, labels = np.vstack([X, X]), np.concatenate([y, (y + 1) % 10])
    coder = CBID(n_bits=16, kernel="linear", likeness=0.75).fit(twice, labels)
    assert coder.n_bits_ == 16


@pytest.mark.parametrize(
    "settings", [{"kernel": "linear"}, {"kernel": "rbf", "n_anchors": 60}, {"kernel": "linear", "likeness": 0}]
)
def test_extension_keeps_old_bits_and_learns_new_classes(digits, settings, tmp_path):
    X, y = digits
    old = y < 6
    coder = CBID(n_bits=24, **settings).fit(X[old], y[old])
    before = coder.encode(X)
    coder.extend(X, y, n_bits=48)
    assert coder.n_bits_ == 48
    np.testing.assert_array_equal(coder.encode(X)[:, :3], before)
    np.testing.assert_array_equal(coder.classes_, np.unique(y))
    coder.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").encode(X), coder.encode(X))
    # The appended bits tell the new classes apart better than the old ones did.
    new = ~old
    grown, short = (
        cross_val_score(LogisticRegression(), coder.transform(X)[new][:, :t], y[new]).mean() for t in (48, 24)
    )
    assert grown > short


def test_extension_that_cannot_be(digits):
    X, y = digits
    coder = CBID(n_bits=8).fit(X, y)
    before = coder.encode(X)
    for n_bits in (8, 4, 0, 9.5):
        with pytest.raises(ValueError, match=f"n_bits={n_bits}: expected an integer from 9"):
            coder.extend(X, y, n_bits=n_bits)
    with pytest.raises(ValueError, match="63 features"):
        coder.extend(X[:, 1:], y, n_bits=16)
    np.testing.assert_array_equal(coder.encode(X), before)
    assert coder.n_bits == 8
    with pytest.raises(NotFittedError):
        CBID().extend(X, y, n_bits=16)


@pytest.fixture(scope="module")
def many_classes():
    """40 classes in 20 dimensions: X, y, new samples and their classes."""
    rng = np.random.default_rng(0)
    centres, y = 2.2 * rng.normal(size=(40, 20)), np.arange(800) % 40
    X = (centres[y] + 2 * rng.normal(size=(800, 20))).astype(np.float32)
    return X[:400], y[:400], X[400:], y[400:]


def test_first_bits_of_many_classes_are_over_the_shares_of_the_classes(many_classes):
    """Bits 0 to 15 see the shares alone, later ones do not see them; they name more of the classes."""
    X, y, Xt, yt = many_classes
    coder = CBID(n_bits=20, likeness=0.0, n_jobs=1).fit(X, y)
    over_shares = coder.coef_[:, -40:].any(axis=1)
    np.testing.assert_array_equal(over_shares, np.arange(20) < 16)
    assert not coder.coef_[:16, :-40].any()
    plain = CBID(n_bits=16, likeness=0.0, kernel=coder.kernel_, n_jobs=1).fit(X, y)
    assert not hasattr(plain, "class_coef_")
    accuracy = [
        KNeighborsClassifier(5, metric="hamming").fit(c.transform(X)[:, :16], y).score(c.transform(Xt)[:, :16], yt)
        for c in (coder, plain)
    ]
    assert accuracy[0] > accuracy[1] + 0.02


def test_with_a_tree_coarse_bits_and_the_first_ones_after_them_are_over_shares(many_classes, tmp_path):
    """16 bits for 4 groups, 16 for the classes; then others. The prefix names groups; files keep the codes."""
    X, y, Xt, yt = many_classes
    groups = {int(c): f"group {c % 4}" for c in range(40)}
    coder = CBID(n_bits=40, likeness=0.0, n_jobs=1).fit(X, y, tree=groups)
    assert coder.levels_.tolist() == [16, 40]
    np.testing.assert_array_equal(coder.coef_[:, -40:].any(axis=1), np.arange(40) < 32)
    of_groups = KNeighborsClassifier(5, metric="hamming").fit(coder.transform(X)[:, :16], y % 4)
    assert of_groups.score(coder.transform(Xt)[:, :16], yt % 4) > 0.9
    coder.save(tmp_path / "tree")
    np.testing.assert_array_equal(load(tmp_path / "tree").encode(Xt), coder.encode(Xt))
    codes = coder.encode(Xt)
    np.testing.assert_array_equal(coder.extend(X, y, n_bits=48).encode(Xt)[:, :5], codes)


def test_few_classes_have_no_shares(many_classes):
    X, y, *_ = many_classes
    few = y < 30
    assert not hasattr(CBID(n_bits=4, n_jobs=1).fit(X[few], y[few]), "class_coef_")


@pytest.mark.parametrize("likeness", [0.0, 0.5])
def test_codes_over_shares_are_cut_stored_and_continued(many_classes, tmp_path, likeness):
    X, y, Xt, _ = many_classes
    whole = CBID(n_bits=40, likeness=likeness, n_jobs=1).fit(X, y)
    short = CBID(n_bits=8, likeness=likeness, n_jobs=1, warm_start=True).fit(X, y)
    np.testing.assert_array_equal(short.transform(Xt), whole.transform(Xt)[:, :8])
    np.testing.assert_array_equal(short.transform(Xt), whole.truncate(8).transform(Xt))
    short.n_bits = 40
    np.testing.assert_array_equal(short.fit(X, y).transform(Xt), whole.transform(Xt))
    whole.save(tmp_path / "coder")
    loaded = load(tmp_path / "coder")
    np.testing.assert_array_equal(loaded.project(Xt), whole.project(Xt))
    np.testing.assert_array_equal(loaded.encode(Xt), whole.encode(Xt))
    before = whole.encode(Xt)
    longer = whole.extend(np.concatenate([X, Xt]), np.concatenate([y, np.full(len(Xt), 99)]), n_bits=48)
    np.testing.assert_array_equal(longer.encode(Xt)[:, :5], before)


def test_a_file_whose_shares_do_not_fit_its_classes_is_refused(many_classes, tmp_path):
    X, y, *_ = many_classes
    coder = CBID(n_bits=4, likeness=0.0, n_jobs=1).fit(X, y)
    coder.classes_ = coder.classes_[:-1]
    coder.save(tmp_path / "classes")
    with pytest.raises(ValueError, match="class_coef_ has 40 rows for 39 classes"):
        load(tmp_path / "classes")
    coder.class_coef_ = coder.class_coef_[:-1]
    coder.save(tmp_path / "rows")
    with pytest.raises(ValueError, match=r"class_intercept_|mean_"):
        load(tmp_path / "rows")
