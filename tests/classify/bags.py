"""Small bags of patches, and NBNN on them in plain numpy."""

import numpy as np

CLASSES = ["boat", "cat", "dog"]


def make_bags(seed, n_per_class=4, n_patches=(20, 40), d=8):
    """Bags, one (m, d) array an image, and their labels: patches around a few places of each class."""
    rng = np.random.default_rng(seed)
    places = np.random.default_rng(0).normal(size=(3, 5, d)) * 2
    y = np.repeat(CLASSES, n_per_class)
    bags = []
    for label in y:
        m = rng.integers(*n_patches)
        at = places[CLASSES.index(label)][rng.integers(5, size=m)]
        bags.append((at + rng.normal(size=(m, d))).astype(np.float32))
    return bags, y


def squared_distances(Q, X):
    return ((Q[:, None, :].astype(np.float64) - X[None].astype(np.float64)) ** 2).sum(axis=2)


def nbnn(train, y, test, distance=squared_distances):
    """Image-to-class distances (n, n_classes): sums over patches of the distance to the nearest patch of a class."""
    parts = [np.concatenate([bag for bag, label in zip(train, y) if label == c]) for c in np.unique(y)]
    return np.array([[distance(bag, part).min(axis=1).sum() for part in parts] for bag in test])


def local_nbnn(train, y, test, k, distance=squared_distances):
    """The same for local NBNN, as McCann and Lowe's Algorithm 2 reads."""
    X = np.concatenate(train)
    classes = np.unique(y)
    of = np.repeat(y, [len(bag) for bag in train])
    totals = np.zeros((len(test), len(classes)))
    for i, bag in enumerate(test):
        for row in distance(bag, X):
            nearest = np.argsort(row, kind="stable")[: k + 1]
            beyond = row[nearest[-1]]
            for c in np.unique(of[nearest[:-1]]):
                closest = min(row[p] for p in nearest[:-1] if of[p] == c)
                totals[i, np.flatnonzero(classes == c)[0]] += closest - beyond
    return totals
