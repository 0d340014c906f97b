"""NBNNClassifier against plain numpy, by the rules of scikit-learn, and on bad input."""

import copy

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import (
    check_estimator_cloneable,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)

from cbid import CBID, NBNNClassifier, PatchCBID
from cbid.bags import Bags, position_scale, with_positions
from cbid.classify import class_distances
from cbid.classify import nbnn as nbnn_module
from cbid.classify.class_distances import Correction, distances_without_own
from cbid.classify.patches import UnknownImageError
from cbid.coders import ITQ, LSH
from tests.classify.bags import CLASSES, local_nbnn, make_bags, nbnn

TRAIN, Y = make_bags(1)
TEST, Y_TEST = make_bags(2)
CODER = PatchCBID(n_bits=24).fit(TRAIN, Y)
WAYS = {
    "exact": NBNNClassifier(),
    "kd-tree": NBNNClassifier(search="kd-tree", checks=50),
    "lsh": NBNNClassifier(search="lsh", bin_width=4.0, n_functions=4),
    "pca": NBNNClassifier(search="pca", n_components=4),
    "codes": NBNNClassifier(coder=CODER),
    "codes, plain": NBNNClassifier(coder=CODER, weighted=False),
    "local": NBNNClassifier(local=True),
    "local, codes": NBNNClassifier(local=True, coder=CODER),
    "location": NBNNClassifier(location=0.5),
}


def with_frames(bags, seed=0):
    rng = np.random.default_rng(seed)
    frames = [rng.uniform(0, 100, (len(bag), 3)) for bag in bags]
    return Bags.from_list(bags, frames, [(100, 200)] * len(bags))


def hamming(weights):
    """Weighted Hamming distances between the codes of descriptors."""

    def distance(Q, X):
        return (CODER.transform(Q)[:, None, :] != CODER.transform(X)[None]) @ weights

    return distance


# What it computes


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_exact_nbnn(n_jobs):
    model = NBNNClassifier(n_jobs=n_jobs).fit(TRAIN, Y)
    wanted = nbnn(TRAIN, Y, TEST)
    np.testing.assert_allclose(model.image_to_class_distances(TEST), wanted, rtol=1e-5)
    np.testing.assert_array_equal(model.predict(TEST), np.array(CLASSES)[wanted.argmin(axis=1)])
    np.testing.assert_array_equal(model.decision_function(TEST), -model.image_to_class_distances(TEST))
    assert model.score(TEST, Y_TEST) > 0.9


@pytest.mark.parametrize("weighted", [None, True, False])
def test_nbnn_on_codes(weighted):
    model = NBNNClassifier(coder=CODER, weighted=weighted).fit(TRAIN, Y)
    weights = np.ones(24) if weighted is False else CODER.weights_.astype(np.float64)
    np.testing.assert_allclose(
        model.image_to_class_distances(TEST), nbnn(TRAIN, Y, TEST, hamming(weights)), rtol=1e-6
    )


@pytest.mark.parametrize("coder", [None, CODER], ids=["descriptors", "codes"])
def test_local_nbnn(coder):
    model = NBNNClassifier(local=True, n_neighbors=6, coder=coder).fit(TRAIN, Y)
    distance = [hamming(CODER.weights_.astype(np.float64))] if coder is not None else []
    wanted = local_nbnn(TRAIN, Y, TEST, 6, *distance)
    np.testing.assert_allclose(model.image_to_class_distances(TEST), wanted, rtol=1e-4)
    assert (wanted <= 0).all()


def test_pca_is_exact_nbnn_among_projections():
    X = np.concatenate(TRAIN).astype(np.float64)
    axes = np.linalg.eigh(np.cov(X.T))[1][:, :-5:-1]  # the four leading ones
    model = NBNNClassifier(search="pca", n_components=4).fit(TRAIN, Y)
    wanted = nbnn([bag @ axes for bag in TRAIN], Y, [bag @ axes for bag in TEST])
    np.testing.assert_allclose(model.image_to_class_distances(TEST), wanted, rtol=1e-4)


def test_location_joins_the_descriptor():
    """x / width and y / height, times location, times the root mean square length of the training descriptors."""
    train, test = with_frames(TRAIN), with_frames(TEST, 1)
    scale = 0.5 * np.sqrt((np.concatenate(TRAIN).astype(np.float64) ** 2).sum(axis=1).mean())

    def joined(bags):
        return [
            np.hstack([bag, scale * bags.frames[a:b, :2] / [200, 100]])
            for bag, a, b in zip(bags, bags.offsets, bags.offsets[1:])
        ]

    model = NBNNClassifier(location=0.5).fit(train, Y)
    np.testing.assert_allclose(model.image_to_class_distances(test), nbnn(joined(train), Y, joined(test)), rtol=1e-5)
    with pytest.raises(ValueError, match="no frames and shapes"):
        model.predict(TEST)


@pytest.mark.parametrize("make", [PatchCBID, ITQ, LSH])
def test_location_is_joined_before_coding_by_every_coder(make):
    """Codes with location are the codes of descriptors that end in the scaled positions."""
    train, test = with_frames(TRAIN), with_frames(TEST, 1)
    scale = position_scale(train, 0.5)
    placed = NBNNClassifier(coder=make(n_bits=8), location=0.5).fit(train, Y)
    joined = NBNNClassifier(coder=make(n_bits=8)).fit(with_positions(train, scale), Y)
    np.testing.assert_array_equal(
        placed.image_to_class_distances(test), joined.image_to_class_distances(with_positions(test, scale))
    )
    assert placed.coder_.n_features_in_ == 10
    assert placed.n_features_in_ == 8


def test_location_of_the_coder_is_the_same():
    train, test = with_frames(TRAIN), with_frames(TEST, 1)
    one = NBNNClassifier(coder=PatchCBID(n_bits=8), location=0.5).fit(train, Y)
    two = NBNNClassifier(coder=PatchCBID(n_bits=8, location=0.5)).fit(train, Y)
    np.testing.assert_array_equal(one.image_to_class_distances(test), two.image_to_class_distances(test))


def test_a_fitted_coder_must_know_the_location():
    with pytest.raises(ValueError, match="10 columns: expected 8"):
        NBNNClassifier(coder=CODER, location=0.5).fit(with_frames(TRAIN), Y)


def test_where_hashing_finds_nothing_the_largest_distance_of_the_image_counts():
    """Two patches; each shares a bucket with one class only, at squared distances 0 and 0.01. So the image is at
    0 + 0.01 from the first class and 0.01 + 0.01 from the second."""
    train = [np.array([[0.0, 0.0]]), np.array([[100.0, 0.1]])]
    model = NBNNClassifier(search="lsh", n_tables=5, n_functions=8, bin_width=5.0).fit(train, ["a", "b"])
    distances = model.image_to_class_distances([np.array([[0.0, 0.0], [100.0, 0.0]])])
    np.testing.assert_allclose(distances, [[0.01, 0.02]], rtol=1e-4)


def test_batches_give_the_same_distances(monkeypatch):
    model = NBNNClassifier().fit(TRAIN, Y)
    whole = model.image_to_class_distances(TEST)
    monkeypatch.setattr(nbnn_module, "_QUERIES", 50)
    np.testing.assert_allclose(model.image_to_class_distances(TEST), whole, rtol=1e-6)
    one_by_one = [model.image_to_class_distances([bag])[0] for bag in TEST]
    np.testing.assert_allclose(one_by_one, whole, rtol=1e-6)


def test_bags_and_lists_are_the_same():
    model = NBNNClassifier().fit(Bags.from_list(TRAIN), Y)
    np.testing.assert_array_equal(model.decision_function(Bags.from_list(TEST)), model.decision_function(TEST))


def test_two_classes_have_one_decision():
    two = Y != "dog"
    model = NBNNClassifier().fit([b for b, keep in zip(TRAIN, two) if keep], Y[two])
    distances = model.image_to_class_distances(TEST)
    np.testing.assert_array_equal(model.decision_function(TEST), distances[:, 0] - distances[:, 1])
    np.testing.assert_array_equal(
        model.predict(TEST), model.classes_[(model.decision_function(TEST) > 0).astype(int)]
    )


# Coders


def test_an_unfitted_coder_is_cloned_and_fitted():
    coder = PatchCBID(n_bits=8)
    model = NBNNClassifier(coder=coder).fit(TRAIN, Y)
    assert model.coder_ is not coder
    assert not hasattr(coder, "weights_")
    np.testing.assert_array_equal(model.coder_.coef_, PatchCBID(n_bits=8).fit(TRAIN, Y).coef_)


def test_other_coders_learn_from_patches_with_the_labels_of_their_images():
    model = NBNNClassifier(coder=CBID(n_bits=8), max_patches=60).fit(TRAIN, Y)
    assert model.coder_.classes_.tolist() == CLASSES
    assert model.storage_per_image_ == sum(map(len, TRAIN)) / len(TRAIN)  # a byte a patch
    assert model.score(TEST, Y_TEST) > 0.6


def test_weights_of_each_class():
    """The metric of a class is that of the coder's column for it, in whatever order the classes come."""
    coder = CBID(n_bits=8, margin="database").fit(np.concatenate(TRAIN), np.repeat(Y, [len(bag) for bag in TRAIN]))
    coder = copy.copy(coder)
    coder.classes_, coder.weights_ = coder.classes_[::-1].copy(), coder.weights_[:, ::-1].copy()
    model = NBNNClassifier(coder=coder).fit(TRAIN, Y)
    for c, label in enumerate(CLASSES):
        w = coder.weights_[:, coder.classes_.tolist().index(label)].astype(np.float64)
        part = coder.transform(np.concatenate([bag for bag, name in zip(TRAIN, Y) if name == label]))
        wanted = [((coder.transform(bag)[:, None] != part[None]) @ w).min(axis=1).sum() for bag in TEST]
        np.testing.assert_allclose(model.image_to_class_distances(TEST)[:, c], wanted, rtol=1e-6)
    with pytest.raises(ValueError, match="'fish'"):
        model.add_images(TEST[:1], ["fish"])
    with pytest.raises(ValueError, match="local=True"):
        NBNNClassifier(coder=coder, local=True).fit(TRAIN, Y)


def test_frozen_coders_survive_a_clone():
    model = clone(NBNNClassifier(coder=FrozenEstimator(CODER))).fit(TRAIN, Y)
    np.testing.assert_array_equal(
        model.decision_function(TEST), NBNNClassifier(coder=CODER).fit(TRAIN, Y).decision_function(TEST)
    )


# Adding and removing images


@pytest.mark.parametrize("way", WAYS)
def test_images_added_later_count_as_if_fitted_at_once(way):
    if way == "pca":
        pytest.skip("the axes are those of the first images")
    train, test = with_frames(TRAIN), with_frames(TEST, 1)
    if way == "location":
        train.values *= np.float32(3) / np.linalg.norm(train.values, axis=1, keepdims=True)  # its scale is one of all
    whole = clone(WAYS[way]) if way.startswith(("exact", "kd", "lsh", "location")) else copy.copy(WAYS[way])
    whole.fit(train, Y)
    later = copy.copy(WAYS[way]).fit(train.take([0, 1, 4, 5]), Y[[0, 1, 4, 5]], ids=[0, 1, 4, 5])
    later.add_images(train.take([2, 3, 6, 7, 8, 9, 10, 11]), Y[[2, 3, 6, 7, 8, 9, 10, 11]], ids=[2, 3, *range(6, 12)])
    assert later.classes_.tolist() == CLASSES
    np.testing.assert_allclose(later.decision_function(test), whole.decision_function(test), rtol=1e-5)


def test_a_removed_image_is_as_if_never_fitted():
    model = NBNNClassifier().fit(TRAIN, Y, ids=[f"image {i}" for i in range(12)])
    model.remove_image("image 5").remove_image("image 0")
    kept = [i for i in range(12) if i not in (0, 5)]
    wanted = NBNNClassifier().fit([TRAIN[i] for i in kept], Y[kept])
    np.testing.assert_array_equal(model.decision_function(TEST), wanted.decision_function(TEST))
    assert "image 5" not in model.ids_
    with pytest.raises(UnknownImageError, match="image='image 5'"):
        model.remove_image("image 5")


def test_a_class_goes_with_its_last_image_and_comes_back():
    model = NBNNClassifier().fit(TRAIN, Y)
    before = model.decision_function(TEST)
    for i in range(4, 8):
        model.remove_image(i)
    assert model.classes_.tolist() == ["boat", "dog"]
    assert set(model.predict(TEST)) <= {"boat", "dog"}
    model.add_images(TRAIN[4:8], Y[4:8])
    assert model.ids_ == [0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11]
    np.testing.assert_array_equal(model.decision_function(TEST), before)


def test_the_last_image_stays():
    model = NBNNClassifier().fit(TRAIN[3:5], Y[3:5])
    model.remove_image(0)
    with pytest.raises(ValueError, match="image=1"):
        model.remove_image(1)
    assert model.predict(TEST[:1]).tolist() == ["cat"]


def test_labels_of_any_kind():
    labels = [(1, "x"), (1, "y"), (2, "x")]
    y = [labels[CLASSES.index(label)] for label in Y]
    model = NBNNClassifier().fit(TRAIN, y).add_images(TEST[:1], [(0, "z")])
    assert model.classes_.tolist() == [(0, "z"), *labels]
    assert NBNNClassifier().fit(TRAIN, np.repeat([3, 1, 2], 4)).add_images(TEST[:1], [2]).classes_.tolist() == [
        1,
        2,
        3,
    ]


# What it tells of itself


def test_storage_of_an_image():
    patches = sum(map(len, TRAIN)) / len(TRAIN)
    stored = {way: copy.copy(model).fit(with_frames(TRAIN), Y).storage_per_image_ for way, model in WAYS.items()}
    assert stored["exact"] == stored["kd-tree"] == stored["lsh"] == stored["local"] == 32 * patches
    assert stored["pca"] == 16 * patches
    assert stored["codes"] == stored["local, codes"] == 3 * patches
    assert NBNNClassifier().fit(TRAIN, Y).index_bytes_ == 0
    assert NBNNClassifier(search="lsh").fit(TRAIN, Y).index_bytes_ > 25 * 12 * patches * len(TRAIN)


def test_time_of_an_image_and_class():
    for model in (NBNNClassifier(), NBNNClassifier(n_jobs=2), NBNNClassifier(coder=CODER)):
        time = model.fit(TRAIN, Y).evaluation_time(TEST)
        assert time.encode > 0
        assert 0 < time.search < 1
        assert time.total == time.encode + time.search


# The rules of scikit-learn


@pytest.mark.parametrize(
    "check",
    [
        check_estimator_cloneable,
        check_estimator_repr,
        check_get_params_invariance,
        check_no_attributes_set_in_init,
        check_parameters_default_constructible,
        check_set_params,
    ],
)
def test_scikit_learn_rules(check):
    check("NBNNClassifier", NBNNClassifier())


def test_unfitted():
    model = NBNNClassifier()
    for method in ("predict", "decision_function", "image_to_class_distances", "evaluation_time"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(TEST)
    for name in ("storage_per_image_", "ids_", "coder_", "index_bytes_"):
        with pytest.raises(NotFittedError):
            getattr(model, name)
    with pytest.raises(NotFittedError):
        model.add_images(TEST, Y_TEST)
    with pytest.raises(NotFittedError):
        model.save("nowhere")


def test_cross_validation():
    assert cross_val_score(NBNNClassifier(), Bags.from_list(TRAIN), Y, cv=2).mean() > 0.8


def test_the_same_seed_gives_the_same_answers():
    for way in ("kd-tree", "lsh"):
        a, b = (clone(WAYS[way]).set_params(checks=3).fit(TRAIN, Y).decision_function(TEST) for _ in range(2))
        np.testing.assert_array_equal(a, b)


def test_predicting_leaves_the_model_as_it_is():
    for model in WAYS.values():
        model = copy.copy(model).fit(with_frames(TRAIN), Y)
        before = dict(vars(model))
        model.predict(with_frames(TEST))
        assert vars(model) == before


# Bad input


def test_an_image_without_descriptors():
    none = np.empty((0, 8))
    with pytest.warns(UserWarning, match="without descriptors.* image 1"):
        model = NBNNClassifier().fit([TRAIN[0], none, *TRAIN[2:]], Y)
    assert 1 not in model.ids_
    with pytest.raises(ValueError, match="image 2 has no descriptor"):
        model.predict([TEST[0], TEST[1], none])
    with (
        pytest.raises(ValueError, match="no image of class 'boat' has a descriptor"),
        pytest.warns(UserWarning, match="image 0, image 1, image 2, image 3"),
    ):
        NBNNClassifier().fit([none] * 4 + TRAIN[4:], Y)
    with pytest.warns(UserWarning, match="without descriptors.* image 0"):
        model.add_images([none, TEST[0]], ["fish", "cat"], ids=["none", "one"])
    assert model.classes_.tolist() == CLASSES
    assert "one" in model.ids_
    assert "none" not in model.ids_
    with pytest.warns(UserWarning, match="without descriptors.* image 0"):
        assert model.add_images([none], ["fish"]).classes_.tolist() == CLASSES


@pytest.mark.parametrize("way", WAYS)
def test_images_with_one_descriptor_and_classes_with_one_image(way):
    train = with_frames([TRAIN[0][:1], TRAIN[4][:1], TRAIN[8][:1], TRAIN[1]])
    model = NBNNClassifier(search="pca", n_components=2) if way == "pca" else copy.copy(WAYS[way])
    model.fit(train, ["boat", "cat", "dog", "boat"])
    assert set(model.predict(with_frames([bag[:1] for bag in TEST]))) <= set(CLASSES)


def test_one_row_of_descriptors_for_a_whole_class_on_local_nbnn():
    """Fewer patches than requested neighbours."""
    model = NBNNClassifier(local=True, n_neighbors=50).fit([TRAIN[0][:2], TRAIN[4][:1]], ["a", "b"])
    assert model.predict([TRAIN[0][:2]]).tolist() == ["a"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_reported(value):
    bad = TRAIN[2].copy()
    bad[3, 0] = value
    with pytest.raises(ValueError, match="image 2 has a descriptor with NaN or infinity: row 3"):
        NBNNClassifier().fit([*TRAIN[:2], bad, *TRAIN[3:]], Y)
    model = NBNNClassifier().fit(TRAIN, Y)
    with pytest.raises(ValueError, match="image 1 has a descriptor"):
        model.predict([TEST[0], bad])
    with pytest.raises(ValueError, match="image 0 has a descriptor"):
        model.add_images([bad], ["boat"])


def test_bags_of_other_widths_are_reported():
    with pytest.raises(ValueError, match=r"bag 1 has shape \(20, 7\)"):
        NBNNClassifier().fit([TRAIN[0], np.zeros((20, 7)), *TRAIN[2:]], Y)
    model = NBNNClassifier().fit(TRAIN, Y)
    for call in (lambda: model.predict([np.zeros((5, 7))]), lambda: model.add_images([np.zeros((5, 7))], ["boat"])):
        with pytest.raises(ValueError, match="7 columns"):
            call()
    assert NBNNClassifier().fit(TRAIN, Y).fit([bag[:, :5] for bag in TRAIN], Y).n_features_in_ == 5


def test_labels_never_seen_count_as_wrong():
    model = NBNNClassifier().fit(TRAIN, Y)
    assert model.score(TEST, ["fish"] * len(TEST)) == 0


def test_one_image_must_come_in_a_list():
    model = NBNNClassifier().fit(TRAIN, Y)
    with pytest.raises(ValueError, match="bags is a ndarray"):
        model.predict(TEST[0])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (Y[:5], "5 labels: expected 12"),
        (["a"] * 12, "one class"),
        (None, "y=None"),
        ([np.nan] * 12, "NaN"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    with pytest.raises(ValueError, match=message):
        NBNNClassifier().fit(TRAIN, labels)


def test_ids_that_do_not_fit():
    for ids, message in (
        ([0] * 12, "ids holds 0"),
        ([1], "ids has 1 entries"),
        ([*range(11), 2.5], r"ids holds 2\.5"),
        ([*range(11), True], "ids holds True"),
    ):
        with pytest.raises(ValueError, match=message):
            NBNNClassifier().fit(TRAIN, Y, ids=ids)
    model = NBNNClassifier().fit(TRAIN, Y)
    with pytest.raises(ValueError, match="ids holds 3"):
        model.add_images(TEST[:1], ["fish"], ids=np.array([3]))
    assert model.classes_.tolist() == CLASSES  # nothing was changed
    with pytest.raises(ValueError, match="2 labels: expected 1"):
        model.add_images(TEST[:1], ["cat", "dog"])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"search": "fast"}, "search='fast'"),
        ({"local": 2}, "local=2"),
        ({"weighted": "yes"}, "weighted='yes'"),
        ({"weighted": True}, "weighted=True"),
        ({"checks": 0}, "checks=0"),
        ({"n_neighbors": 1.5}, r"n_neighbors=1\.5"),
        ({"bin_width": 0}, "bin_width=0"),
        ({"location": -1}, "location=-1"),
        ({"coder": "itq"}, "coder='itq'"),
        ({"coder": CODER, "search": "lsh"}, "search='lsh'"),
        ({"coder": PatchCBID(location=0.5), "location": 1}, r"location=1: .* coder has location=0\.5"),
        ({"search": "pca", "n_components": 9}, "n_components=9"),
    ],
)
def test_wrong_parameters_are_rejected(params, message):
    with pytest.raises(ValueError, match=message):
        NBNNClassifier(**params).fit(TRAIN, Y)


def test_weights_that_a_coder_does_not_have():
    class Plain(PatchCBID):
        weights_ = None

    coder = Plain(n_bits=4).fit(TRAIN, Y)
    del coder.weights_
    with pytest.raises(ValueError, match="Plain has no weights_"):
        NBNNClassifier(coder=coder, weighted=True).fit(TRAIN, Y)
    assert NBNNClassifier(coder=coder).fit(TRAIN, Y).predict(TEST).shape == (12,)


# Labels of further images


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([np.nan], "y contains NaN"),
        (5, "1d array"),
        (None, "y=None"),
        (["cat", "dog"], "y has 2 labels: expected 1"),
    ],
)
def test_labels_of_further_images_are_checked(y, message):
    model = NBNNClassifier().fit(TRAIN, Y)
    with pytest.raises(ValueError, match=message):
        model.add_images(TEST[:1], y)
    assert model.classes_.tolist() == CLASSES


def test_new_classes_are_possible_without_weights():
    coder = CBID(n_bits=6, margin="class")
    model = NBNNClassifier(coder=coder, weighted=False).fit(TRAIN, Y).add_images(TEST[:1], ["ant"])
    assert model.classes_.tolist() == ["ant", *CLASSES]
    assert model.predict(TEST[:1]).tolist() == ["ant"]
    model = NBNNClassifier(coder=coder).fit(TRAIN, Y)
    with pytest.raises(ValueError, match="'ant'"):
        model.add_images(TEST[:1], ["ant"])
    for image in range(4):
        model.remove_image(image)
    assert model.classes_.tolist() == CLASSES[1:]
    assert model.add_images(TEST[:1], CLASSES[:1]).classes_.tolist() == CLASSES  # which has weights


# Numbers far from zero


@pytest.mark.parametrize("way", ["exact", "kd-tree", "pca", "local"])
def test_an_offset_of_all_descriptors_changes_nothing(way):
    """float32 keeps three or four digits behind this offset."""
    train, test = ([np.float32(1000) + bag for bag in bags] for bags in (TRAIN, TEST))
    moved = clone(WAYS[way]).fit(train, Y).image_to_class_distances(test)
    back = [[bag - np.float32(1000) for bag in bags] for bags in (train, test)]
    wanted = clone(WAYS[way]).fit(back[0], Y).image_to_class_distances(back[1])
    np.testing.assert_allclose(moved, wanted, rtol=1e-4)


@pytest.mark.parametrize("way", ["exact", "kd-tree", "pca", "local"])
def test_the_largest_descriptors_that_are_accepted(way):
    scale = np.float32(1e17)
    small = clone(WAYS[way]).fit(TRAIN, Y).predict(TEST)
    large = clone(WAYS[way]).fit([scale * bag for bag in TRAIN], Y).predict([scale * bag for bag in TEST])
    np.testing.assert_array_equal(large, small)
    with pytest.raises(ValueError, match="image 0 has a descriptor of length"):
        clone(WAYS[way]).fit([100 * scale * bag for bag in TRAIN], Y)


# Errors that leave it as it was


def test_a_failed_fit_leaves_the_classifier_as_it_was():
    coder = CBID(n_bits=6, margin="class").fit(np.concatenate(TRAIN), np.repeat(Y, [len(bag) for bag in TRAIN]))
    model = NBNNClassifier(coder=coder).fit(TRAIN, Y)
    before = model.predict(TEST)
    with pytest.raises(ValueError, match="unknown"):
        model.fit([bag[:, ::-1] for bag in TRAIN], [label + "!" for label in Y])
    np.testing.assert_array_equal(model.predict(TEST), before)
    model = NBNNClassifier(search="pca", n_components=4).fit(TRAIN, Y)
    before = model.predict(TEST)
    with pytest.raises(ValueError, match="n_components"):
        model.fit([bag[:, :3] for bag in TRAIN], [label + "!" for label in Y])
    np.testing.assert_array_equal(model.predict(TEST), before)


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_failed_change_leaves_the_classifier_as_it_was(change, monkeypatch):
    model = NBNNClassifier().fit(TRAIN, Y)
    before, ids = model.image_to_class_distances(TEST), model.ids_

    def full(*args):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(nbnn_module, "class_distances", full)
        with pytest.raises(MemoryError):
            model.add_images(TEST[:1], ["ant"]) if change == "add" else model.remove_image(0)
    assert model.ids_ == ids
    assert model.classes_.tolist() == CLASSES
    np.testing.assert_array_equal(model.image_to_class_distances(TEST), before)


def test_n_jobs_zero_is_rejected():
    with pytest.raises(ValueError, match="n_jobs=0"):
        NBNNClassifier(n_jobs=0).fit(TRAIN, Y)


@pytest.mark.parametrize("seed", ["a", np.random.default_rng(0)], ids=str)
def test_wrong_seeds_are_rejected(seed):
    with pytest.raises(ValueError, match=r"random_state="):
        NBNNClassifier(random_state=seed).fit(TRAIN, Y)


def test_wrong_descriptors_and_ids_are_rejected():
    bags, y = make_bags(3, n_per_class=2)
    with pytest.raises(ValueError, match="descriptor='sift'"):
        NBNNClassifier(descriptor="sift").fit(bags, y)
    with pytest.raises(TypeError, match=r"image=\['a'\]"):
        NBNNClassifier().fit(bags, y).remove_image(["a"])


# Decisions: a correction for each class, and the NBNN kernel

DECISIONS = ("balanced", "corrected", "kernel")
COMPARED = {"descriptors": {}, "codes": {"coder": CODER}, "local": {"local": True}, "pca": WAYS["pca"].get_params()}


def without_own(train, y, j):
    """Distances of image j of each class to all images but image j of each class."""
    rank = np.array([np.sum(y[:i] == y[i]) for i in range(len(y))])
    kept = rank != j
    asking = [bag for bag, r in zip(train, rank) if r == j]
    found = nbnn([bag for bag, k in zip(train, kept) if k], y[kept], asking)
    return found / np.array([len(bag) for bag in asking])[:, None]


def test_training_images_are_compared_with_other_images():
    model = NBNNClassifier(decision="corrected").fit(TRAIN, Y)
    args = (model._store, model.classes_, model.get_params(deep=False), None, 0, 1)
    D, numbers = distances_without_own(*args)
    np.testing.assert_array_equal(numbers, [0, 1, 2] * 4)
    np.testing.assert_allclose(D, np.concatenate([without_own(TRAIN, Y, j) for j in range(4)]), rtol=1e-4)


def test_correction_is_the_optimum_of_its_linear_program():
    """The mean hinge loss of the margins, against a general solver from several starts."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    D = rng.uniform(2, 4, (30, 3)) - 0.8 * (np.arange(3) == y[:, None])

    def loss(x):
        S = np.maximum(x[:3], 0) * D + x[3:]
        margins = S - S[np.arange(30), y][:, None]
        return np.maximum(0, 1 - margins)[np.arange(3) != y[:, None]].mean()

    found = Correction.fit(D, y)
    assert (found.factor >= 0).all()
    ours = loss(np.concatenate([found.factor, found.shift]))
    theirs = min(minimize(loss, rng.normal(size=6), method="Powell", options={"maxiter": 5000}).fun for _ in range(5))
    assert ours <= theirs + 1e-6
    np.testing.assert_allclose(found(D), found.factor * D + found.shift)


def unbalanced(seed, sizes, n):
    """Two classes that differ a little, with ``sizes`` patches an image."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n)
    return [rng.normal(0.6 * label, size=(sizes[label], 6)) for label in y], y


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("settings", [{}, {"coder": LSH(n_bits=64)}], ids=["descriptors", "codes"])
def test_decisions_correct_for_unbalanced_classes(decision, settings):
    """Images of the first class have ten times as many patches, so that every image is nearer to it."""
    (train, y), (test, truth) = unbalanced(0, (400, 40), 10), unbalanced(1, (60, 60), 15)
    plain = NBNNClassifier(decision="nearest", **settings).fit(train, y).score(test, truth)
    better = NBNNClassifier(decision=decision, **settings).fit(train, y).score(test, truth)
    assert plain < 0.7
    assert better >= 0.85


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("way", COMPARED)
def test_decisions_serve_every_search(decision, way, tmp_path):
    model = NBNNClassifier(**{**COMPARED[way], "decision": decision}).fit(TRAIN, Y)
    assert model.score(TEST, Y_TEST) > 0.9
    scores = model.decision_function(TEST)
    np.testing.assert_array_equal(model.predict(TEST), model.classes_[scores.argmax(axis=1)])
    plain = NBNNClassifier(**COMPARED[way]).fit(TRAIN, Y)
    np.testing.assert_array_equal(model.image_to_class_distances(TEST), plain.image_to_class_distances(TEST))
    if way != "local":
        model.save(tmp_path / "m")
        np.testing.assert_array_equal(NBNNClassifier.load(tmp_path / "m").decision_function(TEST), scores)


def test_decisions_follow_added_and_removed_images():
    more, labels = make_bags(3, n_per_class=2)
    model = NBNNClassifier(decision="corrected").fit(TRAIN, Y).add_images(more, labels, ids=list("uvwxyz"))
    whole = NBNNClassifier(decision="corrected").fit([*TRAIN, *more], [*Y, *labels])
    np.testing.assert_allclose(model.decision_function(TEST), whole.decision_function(TEST))
    for name in "uvwxyz":
        model.remove_image(name)
    once = NBNNClassifier(decision="corrected").fit(TRAIN, Y)
    np.testing.assert_allclose(model.decision_function(TEST), once.decision_function(TEST))


def test_classes_of_different_numbers_of_images():
    kept = [0, 1, 2, 3, 4, 5, 8, 9, 10]  # four, two and three images
    model = NBNNClassifier(decision="corrected").fit([TRAIN[i] for i in kept], Y[kept])
    assert model.score(TEST, Y_TEST) > 0.9


def test_decisions_need_two_images_of_each_class():
    with pytest.raises(ValueError, match=r"decision='kernel': .* two images of each class.*'boat' has 1"):
        NBNNClassifier(decision="kernel").fit(TRAIN[3:], Y[3:])
    with pytest.raises(ValueError, match="decision='best'"):
        NBNNClassifier(decision="best").fit(TRAIN, Y)


def test_at_most_ten_rounds_leave_images_out(monkeypatch):
    """Two rounds: of four images, round j leaves images j and j + 2 of a class out, of two images image j."""
    monkeypatch.setattr(class_distances, "_ROUNDS", 2)
    kept = [i for i in range(12) if i not in (1, 4)]  # the second class has two images
    train, y = [TRAIN[i] for i in kept], Y[kept]
    model = NBNNClassifier(decision="balanced").fit(train, y)
    D, numbers = distances_without_own(model._store, model.classes_, model.get_params(deep=False), None, 0, 1)
    rank = np.array([np.sum(y[:i] == y[i]) for i in range(len(y))])
    expected, classes = [], []
    for j in range(2):
        out = rank % 2 == j
        asking = [i for label in CLASSES for i in np.flatnonzero(out & (y == label))]
        found = nbnn([train[i] for i in np.flatnonzero(~out)], y[~out], [train[i] for i in asking])
        expected.append(found / np.array([len(train[i]) for i in asking])[:, None])
        classes += [CLASSES.index(y[i]) for i in asking]
    assert numbers.tolist() == classes
    np.testing.assert_allclose(D, np.concatenate(expected), rtol=1e-4)


def test_codes_are_balanced_unless_a_class_has_one_image():
    model = NBNNClassifier(coder=CODER).fit(TRAIN, Y)
    same = NBNNClassifier(coder=CODER, decision="balanced").fit(TRAIN, Y)
    assert model.decision_ == "balanced"
    np.testing.assert_array_equal(model.decision_function(TEST), same.decision_function(TEST))
    sizes = np.array([len(bag) for bag in TEST])[:, None]
    factors = -model.decision_function(TEST) * sizes / model.image_to_class_distances(TEST)
    np.testing.assert_allclose(factors, np.tile(factors[0], (len(TEST), 1)))
    assert factors[0].mean() == pytest.approx(1)
    assert NBNNClassifier().fit(TRAIN, Y).decision_ == "nearest"
    assert NBNNClassifier(coder=CODER, local=True).fit(TRAIN, Y).decision_ == "nearest"
    alone = NBNNClassifier(coder=CODER).fit(TRAIN[3:], Y[3:])
    assert alone.decision_ == "nearest"
    np.testing.assert_array_equal(alone.decision_function(TEST), -alone.image_to_class_distances(TEST))
