"""Neighbours of patches and rows over bags, against plain loops over patches, triplets and images."""

import numpy as np
import pytest

from cbid.learning.graph import PairGraph, worth
from cbid.learning.margins import MARGINS
from cbid.learning.patches import cut_into_bags, find_patch_neighbourhoods, rows_from_bags
from cbid.learning.rows import rows_from_neighbourhoods, rows_from_triplets

from .problems import columns_with_bits, random_bits, textbook_distance, textbook_margins

SIZES = [9, 4, 7, 1, 6, 8, 5, 6]  # patches of each image
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1])


def patches(seed=0, d=4):
    """Overlapping classes: X (n, d), the class and the image of every patch."""
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(len(SIZES)), SIZES)
    y = LABELS[image]
    X = rng.standard_normal((len(image), d)) + rng.standard_normal((3, d))[y]
    return X.astype(np.float32), y, image


def found(X, y, image, n_hits=1, n_misses=1, max_rows=10**6, seed=0, n_classes=3):
    rng = np.random.default_rng(seed)
    return find_patch_neighbourhoods(
        X, y, image, n_classes=n_classes, n_hits=n_hits, n_misses=n_misses, max_rows=max_rows, rng=rng
    )


def nearest(X, i, candidates, count):
    distances = ((X[candidates].astype(np.float64) - X[i]) ** 2).sum(axis=1)
    return candidates[np.argsort(distances, kind="stable")[:count]]


def as_lists(X, y, image, bag, n_hits, n_misses):
    """For every bag and other class, its patches as (patch, hits, misses), by a loop over all patches."""
    everyone = np.arange(len(y))
    rows = {}
    for i in everyone:
        hits = nearest(X, i, everyone[(y == y[i]) & (image != image[i])], n_hits)
        for r in set(y.tolist()) - {y[i]}:
            rows.setdefault((bag[i], r), []).append((i, hits, nearest(X, i, everyone[y == r], n_misses)))
    return [(y[patches[0][0]], key[1], patches) for key, patches in sorted(rows.items())]


@pytest.mark.parametrize(("n_hits", "n_misses"), [(1, 1), (2, 3)])
def test_neighbours_equal_a_loop_and_hits_leave_out_the_own_image(n_hits, n_misses):
    X, y, image = patches()
    near = found(X, y, image, n_hits, n_misses)
    everyone = np.arange(len(y))
    for i in everyone:
        expected = nearest(X, i, everyone[(y == y[i]) & (image != image[i])], n_hits)
        assert near.hits[i].tolist() == expected.tolist()
        assert (image[near.hits[i]] != image[i]).all()
    assert len(near.anchors) == 2 * len(y)
    for i, r, misses in zip(near.anchors, near.others, near.misses):
        assert r != y[i]
        assert misses.tolist() == nearest(X, i, everyone[y == r], n_misses).tolist()


def test_copies_in_the_own_image_are_no_hits():
    """Each image holds the same patch three times; the nearest hit is the other image's, however far."""
    X = np.float32([[0], [0], [0], [5], [5], [5], [1], [1], [1], [9], [9], [9]])
    y, image = np.repeat([0, 1], 6), np.repeat([0, 1, 2, 3], 3)
    near = found(X, y, image, n_classes=2)
    assert near.hits[:3, 0].tolist() == [3, 3, 3]
    assert near.hits[9:, 0].tolist() == [6, 6, 6]


def test_a_class_with_one_image_serves_as_misses_alone():
    X, y, image = patches()
    image = np.where(y == 2, 2, image)
    near = found(X, y, image)
    assert (y[near.anchors] != 2).all()
    assert (near.hits[y == 2] == -1).all()
    assert (y[near.misses[near.others == 2]] == 2).all()


def test_a_class_without_patches_is_no_other_class():
    X, y, image = patches()
    near = found(X, y * 2, image, n_classes=5)
    assert set(near.others.tolist()) == {0, 2, 4}


def test_fewer_rows_are_a_seeded_part_of_all():
    X, y, image = patches()
    every = found(X, y, image)
    some, again, other = (found(X, y, image, max_rows=30, seed=s) for s in (1, 1, 2))
    assert len(some.anchors) == 30
    np.testing.assert_array_equal(some.anchors, again.anchors)
    assert some.anchors.tolist() != other.anchors.tolist()
    pairs = {(i, r): m.tolist() for i, r, m in zip(every.anchors, every.others, every.misses)}
    assert all(pairs[i, r] == m.tolist() for i, r, m in zip(some.anchors, some.others, some.misses))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_bags_are_cut_inside_images(size):
    _, _, image = patches()
    bag = cut_into_bags(image, size, np.random.default_rng(0))
    for b in np.unique(bag):
        assert len(set(image[bag == b])) == 1
    for i, count in enumerate(SIZES):
        sizes = np.bincount(np.unique(bag[image == i], return_inverse=True)[1])
        assert sorted(sizes, reverse=True) == [size] * (count // size) + [count % size] * (count % size > 0)


BAGS = {"image": lambda image: image, "three": lambda image: cut_into_bags(image, 3, np.random.default_rng(1))}


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("bags", BAGS)
def test_margins_of_bags_equal_the_mean_over_their_patches(bags, margin):
    """rho of (bag, r) is the mean over the bag's patches of rho of (patch, r), both by the textbook."""
    X, y, image = patches(seed=1)
    bag = BAGS[bags](image)
    rows = rows_from_bags(found(X, y, image, 2, 3), y, bag, n_classes=3)
    expected = as_lists(X, y, image, bag, 2, 3)
    assert list(zip(rows.own, rows.other)) == [(own, other) for own, other, _ in expected]
    H = random_bits(len(y), 4)
    columns = columns_with_bits(rows, margin, H)
    W = np.random.default_rng(2).random((4, columns.n_weights))
    means = [
        np.mean(textbook_margins(H, W, [(i, hits, misses, own, other) for i, hits, misses in members], margin))
        for own, other, members in expected
    ]
    np.testing.assert_allclose(columns.margins(W), means, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(columns.margins(W, precise=True), means, rtol=1e-6, atol=1e-6)


def test_rows_of_images_are_averages_of_rows_of_patches():
    X, y, image = patches(seed=3)
    near = found(X, y, image)
    per_image = rows_from_bags(near, y, image, n_classes=3)
    per_patch = rows_from_neighbourhoods(near, y, triplets="mean", n_classes=3)
    H, W = random_bits(len(y), 5), np.random.default_rng(4).random((5, 1))
    rho = columns_with_bits(per_patch, "shared", H).margins(W, precise=True)
    expected = [
        rho[(image[near.anchors] == i) & (near.others == r)].mean()
        for i in range(len(SIZES))
        for r in range(3)
        if r != LABELS[i]
    ]
    found_margins = columns_with_bits(per_image, "shared", H).margins(W, precise=True)
    np.testing.assert_allclose(found_margins, expected, rtol=1e-6, atol=1e-7)


def test_bags_of_one_patch_are_patches():
    X, y, image = patches(seed=5)
    near = found(X, y, image, 2, 2)
    single = rows_from_bags(near, y, np.arange(len(y)), n_classes=3)
    plain = rows_from_neighbourhoods(near, y, triplets="mean", n_classes=3)
    H, W = random_bits(len(y), 3), np.ones((3, 1))
    one, two = (columns_with_bits(rows, "shared", H).margins(W) for rows in (single, plain))
    np.testing.assert_allclose(one, two[np.lexsort((near.others, near.anchors))], atol=1e-6)


def test_thinned_rows_average_the_same_patches_on_both_sides():
    X, y, image = patches(seed=6)
    near = found(X, y, image, max_rows=40)
    rows = rows_from_bags(near, y, image, n_classes=3)
    h = random_bits(len(y), 1)[0]
    (far,), (close,) = (columns_with_bits(rows, "shared", h[None])._groups[g].store._D.T for g in (0, 1))
    for q, (own, other) in enumerate(zip(rows.own, rows.other)):
        mine = [
            (i, m)
            for i, r, m in zip(near.anchors, near.others, near.misses)
            if r == other and y[i] == own and q == rows_number(rows, image[i], other, near, image)
        ]
        assert far[q] == pytest.approx(np.mean([textbook_distance(h, i, m) for i, m in mine]))
        assert close[q] == pytest.approx(np.mean([textbook_distance(h, i, near.hits[i]) for i, _ in mine]))


def rows_number(rows, i, r, near, image):
    """The place of (image i, class r) among the rows, which are in that order."""
    return sorted(set(zip(image[near.anchors].tolist(), near.others.tolist()))).index((i, r))


@pytest.mark.parametrize("bags", BAGS)
def test_laplacian_of_bags_equals_the_sum_over_rows(bags):
    """Pi(h) = (1/R) sum_q u_q a_q by the signed graph and by the rows' own coefficients."""
    X, y, image = patches(seed=7)
    rows = rows_from_bags(found(X, y, image, 2, 2), y, BAGS[bags](image), n_classes=3)
    H = random_bits(len(y), 6, seed=8)
    columns = columns_with_bits(rows, "shared", H)
    u = np.random.default_rng(9).random(len(rows))
    graph = PairGraph([rows.misses, rows.hits], len(y)).weighted(*next(columns.side_weights(u)))
    expected = columns.dense().T @ u / len(rows)
    np.testing.assert_allclose([worth(graph, h) for h in H], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(columns.correlations(u, precise=True)[:, 0], expected, rtol=1e-6, atol=1e-7)
    L = np.column_stack([graph.laplacian_times(e) for e in np.eye(len(y), dtype=np.float32)])
    np.testing.assert_allclose(L, L.T, atol=1e-6)
    np.testing.assert_allclose(L.sum(axis=0), 0, atol=1e-6)


def test_laplacian_of_patches_equals_the_sum_over_triplets():
    """With one hit and one miss a row per (patch, class) is a triplet."""
    X, y, image = patches(seed=10)
    near = found(X, y, image)
    rows = rows_from_neighbourhoods(near, y, triplets="mean", n_classes=3)
    triplets = rows_from_triplets(len(y), near.anchors, near.hits[near.anchors, 0], near.misses[:, 0])
    H = random_bits(len(y), 6, seed=11)
    u = np.random.default_rng(12).random(len(rows))
    by_hand = [
        np.mean(
            [u[q] * (abs(h[i] - h[m]) - abs(h[i] - h[near.hits[i, 0]])) for q, (i, m) in enumerate(rows_of(near))]
        )
        for h in H
    ]
    for made in (rows, triplets):
        columns = columns_with_bits(made, "shared", H)
        graph = PairGraph([made.misses, made.hits], len(y)).weighted(*next(columns.side_weights(u)))
        np.testing.assert_allclose([worth(graph, h) for h in H], by_hand, rtol=1e-4, atol=1e-6)


def rows_of(near):
    return zip(near.anchors, near.misses[:, 0])
