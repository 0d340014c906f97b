"""CBID with several labels per sample, trees of labels, pairs, and triplets with classes."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from cbid import CBID, CodeIndex, load
from cbid.coders.hyperplane import MOST_BITS
from cbid.learning import label_scores
from cbid.learning.features import Anchors
from cbid.learning.label_scores import fit_label_scores

from .blobs import blobs

X, y = blobs(n=120, d=6, k=6, apart=4.0)
GROUPS = {c: "low" if c < 3 else "high" for c in range(6)}


def coder(**changes):
    return CBID(**{"n_bits": 12, "likeness": 0.0, "kernel": "linear", **changes})  # one form for all kinds of labels


def several():
    """Labels 0..5 of the classes, and label 6 for the upper three of them."""
    Y = np.zeros((120, 7), dtype=int)
    Y[np.arange(120), y] = 1
    Y[y >= 3, 6] = 1
    return Y


def precision(c, relevance, k=10):
    B = c.transform(X).astype(float)
    D = -(B * c.weights_) @ B.T
    np.fill_diagonal(D, np.inf)
    return np.take_along_axis(relevance, np.argsort(D, axis=1)[:, :k], axis=1).mean()


def assert_same_code(a, b):
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.weights_, b.weights_)
    np.testing.assert_array_equal(a.encode(X), b.encode(X))


@pytest.mark.parametrize("likeness", [0.0, None])
@pytest.mark.parametrize("form", ["dense", "sparse", "bool", "lists", "sets"])
def test_one_label_each_gives_the_code_of_plain_labels(form, likeness):
    Y = np.eye(6)[y]
    given = {
        "dense": Y,
        "sparse": csr_matrix(Y),
        "bool": Y > 0,
        "lists": [[int(c)] for c in y],
        "sets": [{int(c)} for c in y],
    }[form]
    found, plain = coder(likeness=likeness).fit(X, given), coder(likeness=likeness).fit(X, y)
    assert_same_code(found, plain)
    assert found.classes_.tolist() == plain.classes_.tolist() == list(range(6))


def test_several_labels_in_every_form_give_one_code():
    Y = several()
    dense = coder().fit(X, Y)
    assert_same_code(dense, coder().fit(X, csr_matrix(Y)))
    assert_same_code(dense, coder().fit(X, [set(np.flatnonzero(row).tolist()) for row in Y]))
    assert dense.classes_.tolist() == list(range(7))
    assert (dense.gap_ <= 1e-3 * dense.objective_).all()


def test_samples_that_share_more_labels_are_nearer():
    """Same class before same group before the rest."""
    c = coder(n_bits=24).fit(X, several())
    B = c.transform(X).astype(float)
    D = (c.weights_.sum() - (B * c.weights_) @ B.T) / 2
    same, group = y[:, None] == y, (y[:, None] >= 3) & (y >= 3)
    off = ~np.eye(120, dtype=bool)
    assert D[same & off].mean() < D[group & ~same].mean() < D[~group & ~same].mean()


def test_samples_without_labels_are_unlabelled_and_counted():
    Y = several()
    Y[:5] = 0
    with pytest.warns(UserWarning, match="5 of 120 samples have no label in Y"):
        found = coder().fit(X, Y)
    assert found.n_bits_ == 12
    names = [[] if i < 3 else [int(c)] for i, c in enumerate(y)]
    with pytest.warns(UserWarning, match="3 of 120 samples"):
        one_each = coder().fit(X, names)
    assert_same_code(one_each, coder().fit(X, [None] * 3 + y[3:].tolist()))


def test_a_label_that_everybody_has_and_one_that_nobody_has():
    Y = np.column_stack([several(), np.ones(120, int), np.zeros(120, int)])
    found = coder().fit(X, Y)
    assert found.classes_.tolist() == list(range(8))
    assert precision(found, y[:, None] == y) > 0.9


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (several()[:50], "Y has 50 rows: expected 120"),
        (csr_matrix(several()[:50]), "Y has 50 rows: expected 120"),
        ([["a"], ["a", "b"]], "Y has 2 rows: expected 120"),
        (several()[:, :, None], r"y has shape \(120, 7, 1\): expected a label for each sample, or a matrix"),
        ([np.zeros(1 + i % 2) for i in range(120)], r"labels\[1\] is an array of shape \(2,\)"),
        (2 * several(), r"Y\[0, 0\]=2: expected 0 or 1"),
        (0.5 * several(), r"Y\[0, 0\]=0.5: expected 0 or 1"),
        (np.ones((120, 3)), "Y has the same labels for all samples"),
        ([[i, -i - 1] for i in range(120)], "Y has no label that two samples share"),
    ],
)
def test_bad_label_matrices(Y, message):
    with pytest.raises(ValueError, match=message):
        coder().fit(X, Y)


@pytest.mark.parametrize("changes", [{"margin": "class"}, {"hits": "nearest"}])
def test_settings_that_several_labels_do_not_take(changes):
    ((name, value),) = changes.items()
    with pytest.raises(ValueError, match=f"{name}='{value}': expected"):
        coder(**changes).fit(X, several())


def test_labels_that_bring_nothing_together():
    with pytest.raises(ValueError, match="Y has no label that two samples share"):
        coder().fit(X[:4], [["a", "b"], ["c"], ["d"], ["e"]])


def test_several_labels_with_likeness_and_kernel():
    found = coder(n_bits=40, likeness=None, kernel="rbf", n_anchors=50).fit(X, several())
    assert found.kinds_.sum() > 0
    assert len(found.weights_at(0.7)) == 40


@pytest.mark.parametrize("kernel", ["linear", "laplacian"])
def test_bits_for_several_labels_are_hyperplanes_over_label_scores(kernel):
    """The scores span few directions of the features, and every bit lies in their span."""
    found = coder(kernel=kernel, n_anchors=60).fit(X, several())
    anchors = None if kernel == "linear" else Anchors(found.anchors_, found.gamma_, kernel)
    rng = np.random.default_rng([found.seed_, MOST_BITS + 3])
    scores = fit_label_scores(
        X if anchors is None else anchors(X), csr_matrix(several()), anchors, mean=found.mean_, rng=rng
    )
    inside = scores.basis @ np.linalg.lstsq(scores.basis, found.coef_.T)[0]
    np.testing.assert_allclose(inside, found.coef_.T, atol=1e-6 * np.abs(found.coef_).max())


@pytest.mark.parametrize(("n_anchors", "smoothing"), [(120, 0.1), (119, 0)])
def test_where_scores_say_little_bits_are_over_similarities(monkeypatch, n_anchors, smoothing):
    """They are smoothed if every sample is an anchor."""
    monkeypatch.setattr(label_scores, "_LEAST_EXPLAINED", 1.1)
    settings = {"kernel": "rbf", "n_anchors": n_anchors}
    found = coder(**settings).fit(X, several())
    assert_same_code(found, coder(smoothing=smoothing, **settings).fit(X, several()))
    monkeypatch.setattr(label_scores, "_LEAST_EXPLAINED", 0.4)
    assert not np.array_equal(found.coef_, coder(**settings).fit(X, several()).coef_)


def test_plain_labels_have_no_scores():
    settings = {"kernel": "rbf", "n_anchors": 120}
    assert_same_code(coder(**settings).fit(X, y), coder(smoothing=1e-3, **settings).fit(X, y))


@pytest.mark.parametrize(("n_columns", "n_anchors", "smoothing"), [(2, 120, 1e-3), (2, 119, 0), (100, 120, 0)])
def test_classes_are_smoothed_where_there_are_few_axes_for_the_samples(n_columns, n_anchors, smoothing):
    """And if every sample is an anchor. In 100 dimensions samples are about equally far apart: each is an axis."""
    Z = np.random.default_rng(0).normal(size=(120, n_columns))

    def hyperplanes(**settings):
        return coder(n_bits=6, kernel="rbf", n_anchors=n_anchors, **settings).fit(Z, y).coef_

    np.testing.assert_array_equal(hyperplanes(), hyperplanes(smoothing=smoothing))
    assert not np.array_equal(hyperplanes(), hyperplanes(smoothing=1e-3 - smoothing))


def test_codes_longer_than_the_scores_have_bits_continue():
    """One label of two differs: along its one score there are no more bits than samples."""
    Y = np.stack([np.arange(20) % 2, np.ones(20)], axis=1).astype(int)
    assert coder(n_bits=30).fit(X[:20], Y).n_bits_ == 30


def test_the_kernel_is_chosen_for_label_sets():
    """Four clusters at the corners of a square; the labels of opposite corners are the same."""
    rng = np.random.default_rng(0)
    corner = np.arange(200) % 4
    Q = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])[corner] + 0.1 * rng.normal(size=(200, 2))
    Y = np.stack([corner % 2, 1 - corner % 2, np.ones(200)], axis=1).astype(int)
    Y[::5, 2] = 0
    found = coder(n_bits=4, kernel="auto").fit(Q, Y)
    assert found.kernel_ in ("rbf", "laplacian")
    same = corner[:, None] % 2 == corner % 2
    B = found.transform(Q).astype(float)
    assert (B @ B.T)[same].mean() > (B @ B.T)[~same].mean() + 2


def test_warm_start_resumes_with_several_labels():
    Y = several()
    short = coder(n_bits=6, warm_start=True).fit(X, Y)
    short.n_bits = 12
    short.nu = None
    whole = coder(nu=0.1).fit(X, Y)
    short.fit(X, Y)
    np.testing.assert_array_equal(short.coef_[:6], whole.coef_[:6])
    np.testing.assert_allclose(short.coef_, coder(n_bits=12, nu=short.nu_).fit(X, Y).coef_, atol=1e-5)
    Y[0] = 1 - Y[0]
    with pytest.raises(ValueError, match="changed since the last fit: data"):
        short.fit(X, Y)


@pytest.mark.parametrize("tree", [GROUPS, {"low": [0, 1, 2], "high": [3, 4, 5]}])
def test_tree_codes_answer_the_coarse_question_first(tree):
    found = coder(n_bits=24).fit(X, y, tree=tree)
    assert found.levels_.tolist() == [12, 24]
    coarse = (y[:, None] < 3) == (y < 3)
    prefix = found.truncate(int(found.levels_[0]))
    assert precision(prefix, coarse) > 0.95
    assert precision(found, y[:, None] == y) > 0.9
    assert prefix.levels_.tolist() == [12, 12]


def test_the_index_searches_level_by_level():
    found = coder(n_bits=24).fit(X, y, tree=GROUPS)
    codes = found.encode(X)
    index = CodeIndex(n_bits=24, weights=found.weights_)
    index.add(codes, labels=y)
    near = index.search(codes, k=30, weights=found.level_weights(0))
    assert ((near.labels < 3) == (y[:, None] < 3)).mean() > 0.95
    fine = index.search(codes[:1], k=5, among=near.ids[0])
    assert set(fine.ids[0]) <= set(near.ids[0])
    assert (fine.labels[0] == y[0]).all()
    np.testing.assert_array_equal(found.level_weights(-1), found.weights_)
    with pytest.raises(ValueError, match="level=2: expected an integer from -2 to 1"):
        found.level_weights(2)
    with pytest.raises(ValueError, match="level=0: this coder has no levels"):
        coder().fit(X, y).level_weights(0)


def test_path_labels():
    names = [f"{GROUPS[c]}/{c}" for c in y]
    found = coder(n_bits=24).fit(X, names, tree="/")
    assert found.levels_.tolist() == [12, 24]
    assert_same_code(found, coder(n_bits=24).fit(X, names, tree=found.tree_))


def test_levels_with_one_node_or_without_a_split_share_a_prefix():
    """Level 1 has one node and level 3 splits nothing: both are answered with the next level that asks something."""
    names = [f"all/{GROUPS[c]}/{GROUPS[c]}/{c}" for c in y]
    assert coder(n_bits=24).fit(X, names, tree="/").levels_.tolist() == [12, 12, 12, 24]
    assert coder().fit(X, y, tree=dict.fromkeys(range(6))).levels_.tolist() == [12]


def test_trees_survive_files_and_another_fit(tmp_path):
    found = coder(n_bits=24).fit(X, y, tree=GROUPS)
    found.save(tmp_path / "c.safetensors")
    again = load(tmp_path / "c.safetensors")
    assert again.tree_ == found.tree_
    assert again.levels_.tolist() == found.levels_.tolist()
    assert again.classes_.tolist() == list(range(6))
    longer = found.extend(X, y, n_bits=30)
    assert longer.levels_.tolist() == [12, 30]
    found.fit(X, y)
    assert not hasattr(found, "levels_")
    assert not hasattr(found, "tree_")


@pytest.mark.parametrize(
    ("given", "tree", "message"),
    [
        (y, {0: "a"}, "tree lacks 5 of 6 labels"),
        (y, {0: 1, 1: 0}, "tree has a cycle"),
        (y, {**GROUPS, "low": "all", "high": "none", "all": None}, "unknown parent 'none'"),
        (y, {"a": [0, 1, 2, 3], "b": [3, 4, 5]}, "3 twice"),
        (None, "/", "tree='/': expected labels y"),
        ([None] * 120, "/", "tree='/': expected labels y"),
        (several(), "/", "tree='/': expected None with several labels"),
    ],
)
def test_bad_trees(given, tree, message):
    with pytest.raises(ValueError, match=message):
        coder().fit(X, given, tree=tree)


def test_a_tree_takes_the_shared_margin():
    with pytest.raises(ValueError, match="margin='class': expected 'shared' with a tree"):
        coder(margin="class").fit(X, y, tree=GROUPS)


def pairs(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    left, right = rng.integers(120, size=(2, count))
    return left[left != right], right[left != right]


def test_pairs_from_classes_give_a_code_of_the_classes():
    left, right = pairs()
    found = coder(n_bits=16).fit_pairs(X, left, right, y[left] == y[right])
    assert precision(found, y[:, None] == y) > 0.9
    assert found.classes_.size == 0
    # Order within a pair, order of pairs, and repeated pairs make no difference.
    twice = np.concatenate([left, left]), np.concatenate([right, right])
    swapped = coder(n_bits=16).fit_pairs(X, twice[1][::-1], twice[0][::-1], (y[twice[0]] == y[twice[1]])[::-1])
    assert_same_code(found, swapped)


def test_graded_pairs():
    """Similarity 1 in the class, 0.5 in the group, else 0."""
    left, right = pairs()
    grade = np.where(y[left] == y[right], 1, np.where((y[left] < 3) == (y[right] < 3), 0.5, 0))
    c = coder(n_bits=24).fit_pairs(X, left, right, grade)
    B = c.transform(X).astype(float)
    D = (c.weights_.sum() - (B * c.weights_) @ B.T) / 2
    same, group = y[:, None] == y, (y[:, None] < 3) == (y < 3)
    assert D[same].mean() < D[group & ~same].mean() < D[~group].mean()


@pytest.mark.parametrize(
    ("left", "right", "similarity", "message"),
    [
        ([0, 1], [1, 0], [1, 0], "similarity contradicts itself: samples 0 and 1 have 0 and 1"),
        ([0, 2], [1, 2], [1, 0], "pair 1 is of sample 2 with itself"),
        ([0, 1], [1, 2], [1, 2], r"similarity\[1\]=2: expected a number from 0 to 1"),
        ([0, 1], [1, 2], [1, np.nan], r"similarity\[1\]=nan"),
        ([0, 1], [1, 2], [1, 1], "similarity is 1 for all pairs"),
        ([0, 1], [1, 2], [1], "similarity has shape"),
        ([0, 1], [1, 2], ["a", "b"], "similarity has shape"),
        ([0, 1], [1, 200], [1, 0], "right holds 1..200"),
        ([0, 1], [1], [1, 0], "pairs need as many left, right"),
        ([0, 2], [1, 3], [1, 0], "no row to learn from"),
    ],
)
def test_bad_pairs(left, right, similarity, message):
    with pytest.raises(ValueError, match=message):
        coder().fit_pairs(X, left, right, similarity)


def test_triplets_take_class_weights_when_given_classes():
    rng = np.random.default_rng(0)
    anchors, positives, negatives = rng.integers(120, size=(3, 4000))
    good = (y[anchors] == y[positives]) & (y[anchors] != y[negatives]) & (anchors != positives)
    triplets = anchors[good], positives[good], negatives[good]
    names = np.array(list("abcdef"))[y]
    found = coder(margin="class").fit_triplets(X, *triplets, classes=names)
    assert found.weights_.shape == (12, 6)
    assert found.classes_.tolist() == list("abcdef")
    shared = coder().fit_triplets(X, *triplets)
    assert_same_code(shared, coder().fit_triplets(X, *triplets, classes=names))
    with pytest.raises(ValueError, match="margin='class' needs classes"):
        coder(margin="class").fit_triplets(X, *triplets)
    with pytest.raises(ValueError, match="y has 3 labels"):
        coder(margin="class").fit_triplets(X, *triplets, classes=[1, 2, 1])
