"""The patch-level coder from its public surface."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cbid import PatchCBID, load
from cbid.bags import Bags
from cbid.coders import ModelFileError
from cbid.learning.losses import LOSSES
from cbid.learning.patches import (
    cut_into_bags,
    find_patch_neighbourhoods,
)

ROWS = ["patch", "image", 5]
D = 12


def made(n_images=4, k=3, size=60, seed=0, unlike=1.0):
    """Images of k classes: every patch is one of a few words of its class, moved by noise, at a random place."""
    rng = np.random.default_rng(seed)
    words = rng.standard_normal((k, 4, D)) * unlike
    y = np.repeat(np.arange(k), n_images)
    values = [words[label, rng.integers(4, size=size)] + 0.7 * rng.standard_normal((size, D)) for label in y]
    frames = [np.column_stack([rng.integers(40, size=size), rng.integers(30, size=size), [8] * size]) for _ in y]
    return Bags.from_list(values, frames, [(30, 40)] * len(y)), y


@pytest.fixture(scope="module")
def images():
    return made()


@pytest.fixture(scope="module")
def fitted(images):
    return PatchCBID(n_bits=24).fit(*images)


def image_to_class(coder, bags, y, queries):
    """NBNN by loops: for each image, the class whose nearest patches, summed, are nearest."""
    stored, y_of_patch = coder.transform(bags).astype(int), y[bags.owners]
    found = []
    for bag in queries:
        agree = coder.transform(bag).astype(int) @ stored.T
        found.append(np.argmax([agree[:, y_of_patch == r].max(axis=1).sum() for r in range(y.max() + 1)]))
    return np.array(found)


def test_shapes_and_types_of_the_contract(images, fitted):
    bags, _ = images
    assert fitted.n_bits_ == 24
    assert fitted.n_features_in_ == D
    assert fitted.coef_.shape == (24, D)
    assert fitted.intercept_.shape == fitted.weights_.shape == fitted.objective_.shape == fitted.gap_.shape == (24,)
    assert fitted.classes_.tolist() == [0, 1, 2]
    bits = fitted.transform(bags)
    assert bits.dtype == np.int8
    assert bits.shape == (len(bags.values), 24)
    assert fitted.encode(bags).dtype == np.uint8
    np.testing.assert_array_equal(fitted.encode(bags), np.packbits(bits > 0, axis=1))
    np.testing.assert_array_equal(bits, np.where(fitted.project(bags) >= 0, 1, -1))


def test_bags_lists_and_arrays_give_the_same_codes(images, fitted):
    bags, _ = images
    expected = fitted.encode(bags)
    np.testing.assert_array_equal(fitted.encode(bags.values), expected)
    np.testing.assert_array_equal(fitted.encode(list(bags)), expected)
    np.testing.assert_array_equal(np.concatenate([fitted.encode(bag) for bag in bags]), expected)
    np.testing.assert_array_equal(fitted.encode(bags.values.tolist()), expected)


def test_hyperplanes_are_in_the_units_of_the_descriptors(images, fitted):
    bags, _ = images
    by_hand = bags.values.astype(np.float64) @ fitted.coef_.T + fitted.intercept_
    np.testing.assert_allclose(fitted.project(bags), by_hand, atol=1e-4)
    np.testing.assert_allclose(by_hand.std(axis=0), 1, rtol=1e-3)


@pytest.mark.parametrize("rows", ROWS)
def test_learns_which_class_an_image_is_of(rows):
    bags, y = made(seed=1, n_images=5)
    train, test = np.arange(15)[np.arange(15) % 5 < 3], np.arange(15)[np.arange(15) % 5 >= 3]
    coder = PatchCBID(n_bits=32, rows=rows).fit(bags.take(train), y[train])
    found = image_to_class(coder, bags.take(train), y[train], bags.take(test))
    assert np.mean(found == y[test]) == 1


@pytest.mark.parametrize("rows", ROWS)
def test_the_objective_is_that_of_the_rows(images, rows):
    """P = mean log(1 + exp(-rho)) + nu max w, with every margin taken patch by patch from the final codes."""
    bags, y = images
    coder = PatchCBID(n_bits=6, rows=rows, nu=0.01, n_hits=2, n_misses=2).fit(bags, y)
    bits, image = coder.transform(bags).astype(float), bags.owners
    of_patch, X = y[image], bags.values
    margins = {}
    bag = {"patch": np.arange(len(X)), "image": image}.get(rows)
    if bag is None:
        bag = cut_into_bags(image, rows, np.random.default_rng([coder.seed_, 2]))
    for i in range(len(X)):
        far = ((X - X[i]) ** 2).sum(axis=1)

        def distance(chosen, i=i, far=far):
            nearest = np.flatnonzero(chosen)[np.argsort(far[chosen])[:2]]
            return np.abs(bits[i] - bits[nearest]).mean(axis=0) @ coder.weights_

        near = distance((of_patch == of_patch[i]) & (image != image[i]))
        for r in {0, 1, 2} - {of_patch[i]}:
            margins.setdefault((bag[i], r), []).append(distance(of_patch == r) - near)
    rho = np.array([np.mean(of_row) for of_row in margins.values()])
    expected = np.mean(np.log1p(np.exp(-rho))) + 0.01 * coder.weights_.max()
    assert coder.objective_[-1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("rows", ROWS)
def test_the_objective_falls_and_is_certified(images, rows):
    coder = PatchCBID(n_bits=12, rows=rows).fit(*images)
    assert (coder.weights_ >= 0).all()
    assert (np.diff(coder.objective_) < 1e-3 * coder.objective_[0]).all()
    assert (coder.gap_ >= 0).all()
    assert (coder.gap_ <= coder.tol * coder.objective_).all()


@pytest.mark.parametrize("penalty", ["l1", "linf", 2.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_and_penalty_learns(loss, penalty):
    coder = PatchCBID(n_bits=4, loss=loss, penalty=penalty, nu=1e-2, max_patches=240).fit(*made())
    assert coder.n_bits_ == 4
    assert (coder.gap_ <= coder.tol * coder.objective_).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"sigmoid": "tanh"},
        {"starts": "spectral"},
        {"starts": "random", "n_climbs": 0},
        {"n_components": 5},
        {"max_rows": 300},
        {"max_patches": 100},
        {"n_hits": 3, "n_misses": 2},
        {"location": 0.5},
    ],
    ids=str,
)
def test_every_setting_learns(images, settings):
    coder = PatchCBID(n_bits=5, **settings).fit(*images)
    assert coder.n_bits_ == 5
    assert coder.objective_[-1] < np.log(2)


@pytest.mark.parametrize("settings", [{}, {"rows": 5}, {"rows": "image", "max_rows": 200}, {"max_patches": 120}])
def test_same_seed_same_bits(images, settings):
    one, two = (PatchCBID(n_bits=6, random_state=3, **settings).fit(*images) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.weights_, two.weights_)


def test_another_seed_draws_other_patches(images):
    one, two = (PatchCBID(n_bits=3, random_state=s, max_patches=120).fit(*images) for s in (0, 1))
    assert np.abs(one.mean_ - two.mean_).max() > 1e-3


def test_the_budget_is_kept():
    """12 images and 130 patches: 10 of each are looked at, so that the mean is a mean over 120."""
    bags, y = made()
    seen = []
    coder = PatchCBID(n_bits=1, max_patches=130)
    learn = coder._learn
    coder._learn = lambda X, *rest, **about: (seen.append(X), learn(X, *rest, **about))[1]
    coder.fit(bags, y)
    assert seen[0].shape == (120, D)
    assert {tuple(row) for row in seen[0].tolist()} <= {tuple(row) for row in bags.values.tolist()}


def test_prefixes_carry_the_weights_fitted_at_their_length(images, fitted):
    bags, y = images
    short, alone = fitted.truncate(10), PatchCBID(n_bits=10).fit(bags, y)
    np.testing.assert_array_equal(short.coef_, alone.coef_)
    np.testing.assert_array_equal(short.weights_, alone.weights_)
    np.testing.assert_array_equal(short.transform(bags), fitted.transform(bags)[:, :10])


@pytest.mark.parametrize("settings", [{}, {"location": 0.5, "rows": 4}])
def test_save_and_load(images, tmp_path, settings):
    bags, y = images
    names = np.array(["bus", "cat", "dog"])
    coder = PatchCBID(n_bits=7, **settings).fit(bags, names[y])
    coder.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert type(again) is PatchCBID
    assert again.get_params() == coder.get_params()
    assert again.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(again.encode(bags), coder.encode(bags))
    np.testing.assert_array_equal(again.truncate(3).weights_, coder.truncate(3).weights_)


def test_a_file_whose_parts_do_not_fit_is_refused(images, tmp_path):
    coder = PatchCBID(n_bits=3, location=0.5).fit(*images)
    for name, value in (("location_", 0.0), ("location_", -1.0), ("location_", "far"), ("n_features_in_", D + 2)):
        bad = copy.copy(coder)
        setattr(bad, name, value)
        bad.save(tmp_path / "m")
        with pytest.raises(ModelFileError, match="complete PatchCBID"):
            load(tmp_path / "m")


def test_warm_start_resumes_where_it_stopped(images):
    bags, y = images
    whole = PatchCBID(n_bits=9, max_patches=240).fit(bags, y)
    grown = PatchCBID(n_bits=4, max_patches=240, warm_start=True, random_state=np.random.RandomState(0)).fit(bags, y)
    same = grown.seed_
    grown.set_params(n_bits=9).fit(bags, y)
    assert grown.seed_ == same == whole.seed_
    np.testing.assert_array_equal(grown.transform(bags), whole.transform(bags))
    for changes in ({"rows": "image"}, {"location": 0.5}, {"max_patches": 241}, {"n_hits": 2}):
        with pytest.raises(ValueError, match=f"changed since the last fit: .*{next(iter(changes))}"):
            copy.deepcopy(grown).set_params(**changes).fit(bags, y)
    with pytest.raises(ValueError, match="changed since the last fit: data"):
        grown.fit(bags, (y + 1) % 3)


# Bits of rotations


def test_default_bits_are_directions_of_rotations_of_whitened_axes(images):
    """12 bits over 12 columns: the first rotation. In whitened coordinates the directions are orthogonal."""
    bags, y = images
    coder = PatchCBID(n_bits=24).fit(bags, y)
    X = bags.values.astype(np.float64)
    variance, axes = np.linalg.eigh(np.cov(X.T, bias=True))
    scale = np.sqrt(variance + 0.5 * variance @ variance / variance.sum())
    B = coder.coef_ @ axes * scale  # hyperplanes over (x - mean) @ axes / scale
    B /= np.linalg.norm(B, axis=1)[:, None]
    for start in (0, 12):
        np.testing.assert_allclose(B[start : start + 12] @ B[start : start + 12].T, np.eye(12), atol=0.02)
    np.testing.assert_allclose(coder.intercept_, -coder.coef_ @ X.mean(axis=0), atol=1e-5)


def test_n_components_is_the_number_of_rotated_axes(images):
    bags, y = images
    coder = PatchCBID(n_bits=8, n_components=3).fit(bags, y)
    assert np.linalg.matrix_rank(coder.coef_, tol=1e-6) == 3


def test_fitted_hyperplanes_are_possible(images):
    bags, y = images
    fitted = PatchCBID(n_bits=8, starts="pencil").fit(bags, y)
    rotated = PatchCBID(n_bits=8).fit(bags, y)
    assert fitted.objective_[-1] < rotated.objective_[-1]  # they follow the rows
    with pytest.raises(ValueError, match=r"starts='rotated'.*'rotation', 'pencil'"):
        PatchCBID(starts="rotated").fit(bags, y)


# The paper's settings


def test_paper_settings_fit_equation_2(images):
    """The objective is the mean logistic loss of the summed margins plus nu ||w||_1, by loops over the bits."""
    bags, y = images
    coder = PatchCBID.paper(n_bits=4, nu=1e-2, n_starts=20).fit(bags, y)
    assert (coder.rows, coder.penalty, coder.starts, PatchCBID.paper(8).n_bits) == ("paper", "l1", "paper", 8)
    of_patch = y[bags.owners]
    near = find_patch_neighbourhoods(
        bags.values, of_patch, bags.owners, n_classes=3, n_hits=1, n_misses=1, max_rows=10**6,
        rng=np.random.default_rng(0), together=True,
    )  # fmt: skip
    B = coder.transform(bags).astype(float)
    a = np.abs(B - B[near.misses[:, 0]]) - np.abs(B - B[near.hits[:, 0]])
    rho = np.array([a[bags.owners == i].sum(axis=0) for i in range(len(bags))]) @ coder.weights_
    expected = np.mean(np.logaddexp(0, -rho)) + 1e-2 * coder.weights_.sum()
    assert coder.objective_[-1] == pytest.approx(expected, rel=1e-4)
    assert (coder.gap_ <= coder.tol * coder.objective_).all()


def test_paper_settings_are_saved(images, tmp_path):
    coder = PatchCBID.paper(n_bits=2, n_starts=10).fit(*images)
    coder.save(tmp_path / "m")
    assert load(tmp_path / "m").get_params() == coder.get_params()


# Location


def test_location_joins_the_place_to_the_descriptor(images):
    bags, y = images
    coder = PatchCBID(n_bits=8, location=0.5).fit(bags, y)
    assert coder.n_features_in_ == D
    assert coder.coef_.shape == (8, D + 2)
    length = np.sqrt(np.mean(np.sum(bags.values.astype(np.float64) ** 2, axis=1)))
    assert coder.location_ == pytest.approx(0.5 * length, rel=1e-6)
    place = coder.location_ * bags.frames[:, :2] / [40, 30]
    by_hand = np.hstack([bags.values, place]) @ coder.coef_.T + coder.intercept_
    np.testing.assert_allclose(coder.project(bags), by_hand, atol=1e-4)
    assert PatchCBID(n_bits=2).fit(bags, y).location_ == 0


def test_location_separates_what_descriptors_cannot():
    """Both classes have the same descriptors; one has them on the left, the other on the right."""
    rng = np.random.default_rng(0)
    y = np.array([0, 0, 0, 1, 1, 1])
    frames = [
        np.column_stack([rng.integers(50, size=40) + 50 * label, rng.integers(60, size=40), [8] * 40]) for label in y
    ]
    bags = Bags.from_list([rng.standard_normal((40, 4)) for _ in y], frames, [(60, 100)] * 6)
    coder = PatchCBID(n_bits=4, location=2.0).fit(bags, y)
    x = coder.coef_[0, -2] * coder.location_
    assert abs(x) > 2 * np.abs(coder.coef_[0, :4]).max()


def test_location_needs_bags_that_know_it(images):
    bags, y = images
    bare = Bags(bags.values, bags.offsets)
    with pytest.raises(ValueError, match="bags have no frames and shapes"):
        PatchCBID(n_bits=2, location=1).fit(bare, y)
    coder = PatchCBID(n_bits=2, location=1).fit(bags, y)
    with pytest.raises(ValueError, match="bags have no frames and shapes"):
        coder.encode(bare)
    with pytest.raises(ValueError, match=r"location=1 needs to know where .* give Bags"):
        coder.encode(bags.values)
    with pytest.raises(ValueError, match=r"location=1 needs to know where"):
        coder.encode(np.hstack([bags.values, bags.frames[:, :2]]))


# scikit-learn's rules; its common checks ask for two-dimensional X, which bags are not


def test_parameters():
    coder = PatchCBID(n_bits=8, rows=7, location=0.25)
    assert clone(coder).get_params() == coder.get_params()
    assert coder.set_params(nu=0.5, rows="image").get_params()["rows"] == "image"
    assert repr(coder) == "PatchCBID(location=0.25, n_bits=8, nu=0.5, rows='image')"
    with pytest.raises(TypeError):
        PatchCBID(64)
    with pytest.raises(ValueError, match="Invalid parameter 'kernel'"):
        coder.set_params(kernel="rbf")
    tags = coder.__sklearn_tags__()
    assert not tags.input_tags.two_d_array
    assert tags.target_tags.required


def test_fit_changes_no_parameter_and_no_input(images):
    bags, y = images
    values, labels = bags.values.copy(), y.copy()
    coder = PatchCBID(n_bits=2)
    before = coder.get_params()
    assert coder.fit(bags, y) is coder
    assert coder.get_params() == before
    np.testing.assert_array_equal(bags.values, values)
    np.testing.assert_array_equal(y, labels)


def test_before_fit():
    for method in ("encode", "transform", "project"):
        with pytest.raises(NotFittedError):
            getattr(PatchCBID(), method)(np.zeros((2, D)))
    with pytest.raises(NotFittedError):
        PatchCBID().truncate(2)


def test_names_and_frames(images):
    bags, y = images
    coder = PatchCBID(n_bits=3).fit(bags, y)
    assert coder.get_feature_names_out().tolist() == ["patchcbid0", "patchcbid1", "patchcbid2"]
    frame = coder.set_output(transform="pandas").transform(bags)
    assert frame.shape == (len(bags.values), 3)
    assert PatchCBID(n_bits=3).fit_transform(bags, y).shape == (len(bags.values), 3)


def test_a_second_fit_forgets_the_first(images):
    bags, y = images
    coder = PatchCBID(n_bits=4, location=0.5).fit(bags, y)
    coder.set_params(location=None).fit(Bags(bags.values[:, :6], bags.offsets), y)
    assert coder.coef_.shape == (4, 6)
    np.testing.assert_array_equal(coder.coef_, PatchCBID(n_bits=4).fit([b[:, :6] for b in bags], y).coef_)


# Bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rows": "images"}, "rows='images'.* 'patch', 'image', 'paper'"),
        ({"rows": 0}, "rows=0.* at least 1"),
        ({"rows": 2.0}, "rows=2.0"),
        ({"rows": None}, "rows=None"),
        ({"location": -1}, "location=-1"),
        ({"location": float("nan")}, "location=nan"),
        ({"max_patches": 1}, "max_patches=1"),
        ({"max_rows": 0}, "max_rows=0"),
        ({"n_hits": 0}, "n_hits=0"),
        ({"n_misses": 0}, "n_misses=0"),
        ({"n_bits": 0}, "n_bits=0"),
        ({"loss": "huber"}, "loss='huber'"),
        ({"ridge": -1}, "ridge=-1"),
    ],
)
def test_wrong_parameters_are_named(images, params, message):
    with pytest.raises(ValueError, match=message):
        PatchCBID(**{"n_bits": 2, **params}).fit(*images)


def test_images_without_descriptors_are_passed_over():
    bags, y = made()
    some = [bag if i not in (1, 9) else bag[:0] for i, bag in enumerate(bags)]
    with pytest.warns(UserWarning, match="images without descriptors are passed over: 1, 9"):
        coder = PatchCBID(n_bits=4).fit(some, y)
    rest = [i for i in range(12) if i not in (1, 9)]
    assert coder.n_bits_ == 4
    np.testing.assert_array_equal(coder.coef_, PatchCBID(n_bits=4).fit(bags.take(rest), y[rest]).coef_)
    assert coder.encode(some).shape == (600, 1)
    assert coder.encode([np.zeros((0, D))]).shape == (0, 1)
    assert coder.transform([np.zeros((0, D))]).shape == (0, 4)


def test_images_with_one_descriptor():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    bags = [rng.standard_normal((1, 5)) + 2 * label for label in y]
    coder = PatchCBID(n_bits=4, rows="image").fit(bags, y)
    assert coder.encode(bags).shape == (40, 1)


def test_a_class_with_one_image():
    bags, y = made()
    y = np.where(np.arange(12) == 11, 3, y)
    with pytest.warns(UserWarning, match="fewer than two images have no hits, .*: 3; their patches serve as misses"):
        coder = PatchCBID(n_bits=4).fit(bags, y)
    assert coder.classes_.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"class by class, \{0: 1, 1: 1, 2: 1\}; learning needs two"):
        PatchCBID().fit(bags.take([0, 4, 8]), [0, 1, 2])


def test_a_class_with_no_descriptors_at_all():
    bags, y = made()
    some = [bag if label else bag[:0] for bag, label in zip(bags, y)]
    with (
        pytest.warns(UserWarning, match="images without descriptors are passed over: 0, 1, 2, 3"),
        pytest.warns(UserWarning, match="have no hits, which come from other images: 0;"),
    ):
        coder = PatchCBID(n_bits=4).fit(some, y)
    assert coder.classes_.tolist() == [0, 1, 2]


def test_values_that_are_not_finite_name_the_image(images):
    bags, y = images
    values = bags.values.copy()
    values[bags.offsets[5] + 2, 1] = np.nan
    bad = Bags(values, bags.offsets)
    with pytest.raises(ValueError, match="image 5 has a descriptor with NaN or infinity: row 2 of its bag"):
        PatchCBID().fit(bad, y)
    with pytest.raises(ValueError, match="image 5 has a descriptor with NaN"):
        PatchCBID(n_bits=2).fit(bags, y).encode(bad)


def test_widths_lengths_and_labels(images):
    bags, y = images
    with pytest.raises(ValueError, match=r"bag 1 has shape \(3, 5\)"):
        PatchCBID().fit([np.zeros((3, 4)), np.zeros((3, 5))], [0, 1])
    with pytest.raises(ValueError, match=r"bags is a ndarray of shape \(720, 12\)"):
        PatchCBID().fit(bags.values, y)
    with pytest.raises(ValueError, match="y has 11 labels: expected 12"):
        PatchCBID().fit(bags, y[:-1])
    with pytest.raises(ValueError, match="y=None"):
        PatchCBID().fit(bags, None)
    with pytest.raises(ValueError, match=r"one class .*7"):
        PatchCBID().fit(bags, np.full(12, 7))
    with pytest.raises(ValueError, match="NaN"):
        PatchCBID().fit(bags, np.where(y == 0, np.nan, y))
    coder = PatchCBID(n_bits=2).fit(bags, y)
    with pytest.raises(ValueError, match="5 columns: expected 12"):
        coder.encode([np.zeros((3, 5))])
    with pytest.raises(ValueError, match="X has 5 features, but PatchCBID is expecting 12"):
        coder.encode(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="Reshape your data"):
        coder.encode(np.zeros(12))


def test_labels_of_any_kind(images):
    bags, y = images
    for names in (["a", "b", "c"], [("a", 1), ("b", 2), ("c", 3)], [1, "1", "a"]):
        coder = PatchCBID(n_bits=2).fit(bags, [names[v] for v in y])
        assert set(coder.classes_.tolist()) == set(names)


def test_equal_descriptors_have_nothing_to_learn():
    with pytest.raises(ValueError, match="no column that varies"):
        PatchCBID().fit([np.ones((4, 3))] * 4, [0, 0, 1, 1])


def test_scale_makes_no_difference(images):
    bags, y = images
    plain = PatchCBID(n_bits=6, location=0.5).fit(bags, y)
    scaled = PatchCBID(n_bits=6, location=0.5).fit(Bags(bags.values * 512, bags.offsets, bags.frames, bags.shapes), y)
    np.testing.assert_allclose(scaled.objective_, plain.objective_, rtol=0.05)


def test_nothing_warns_on_ordinary_data(images):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PatchCBID(n_bits=16).fit(*images)


def test_neighbours_are_those_of_the_joined_descriptors(images):
    """With a location far heavier than the descriptors, neighbours are neighbours in place."""
    bags, y = images
    coder = PatchCBID(n_bits=1, location=1e4, nu=1e-4, starts="pencil").fit(bags, y)
    place = bags.frames[:, :2] / [40, 30]
    near = find_patch_neighbourhoods(
        place.astype(np.float32),
        y[bags.owners],
        bags.owners,
        n_classes=3,
        n_hits=1,
        n_misses=1,
        max_rows=10**6,
        rng=np.random.default_rng(0),
    )
    bits = coder.transform(bags)[:, 0].astype(float)
    far = np.abs(bits[near.anchors] - bits[near.misses[:, 0]])
    close = np.abs(bits[near.anchors] - bits[near.hits[near.anchors, 0]])
    expected = np.mean(np.log1p(np.exp(-coder.weights_[0] * (far - close)))) + coder.nu_ * coder.weights_[0]
    assert coder.objective_[0] == pytest.approx(expected, rel=0.02)
