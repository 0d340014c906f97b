"""What a learner adds to a rotation of patches when classes have factors: which axes and scale, which weights, and
whether rows can teach the rotation.

    python -m benchmarks.patch_bits [--sets ...] [--draws N] [--seeds N] [--place 0 1] [--bits 32 128] [--only ...]

The images are those of benchmarks/patch_study.py, which are in no test part of the protocol. Each training image
gives 2,500 patches (Caltech-101, five classes) or 700 (Scene-15), each validation image asks with 60. Every try runs
on the same draws, patches and seeds. Stored are the accuracy and the log loss (as in patch_study) without factors of
the classes and with them; the factors are those of `NBNNClassifier(decision="balanced")`.

One line of `results/patch_bits.jsonl` for each try; what it has is not run again.
"""

import argparse
from functools import cached_property

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from benchmarks.patch_study import OLD, SETS, TRAIN, VALIDATION, draw, free_images, scores_of
from benchmarks.patch_study import learned as study_learned
from benchmarks.results import add_line, load_lines
from cbid import NBNNClassifier, PatchCBID
from cbid.bags import position_scale, with_positions
from cbid.classify.class_distances import _FACTOR_RIDGE, class_factors, distances_without_own
from cbid.classify.patch_search import CodeSearch
from cbid.coders import ITQ, LSH
from cbid.descriptors import DenseSIFT
from cbid.learning.likeness import fit_rotation
from cbid.learning.patches import find_patch_neighbourhoods
from cbid.paper.sets import open_set

DATABASE = {"caltech101-five": 2500, "scene15": 700}
QUERIES, SAMPLE, PAIRED = 60, 20_000, 8_000
TURNS, SAMPLES_PER_AXIS = 30, 200


class Part:
    """Images of one draw, with what the tries of one seed share."""

    def __init__(self, name, number, place):
        self.name, self.number, self.place = name, number, place
        database, y, queries, labels = draw(name, number, database=DATABASE[name], queries=QUERIES)
        scale = position_scale(database, place)
        self.database, self.y = with_positions(database, scale), y
        self.queries, self.own = with_positions(queries, scale), np.searchsorted(np.unique(y), labels)

    def start(self, seed):
        """Draw the samples again."""
        self.seed = seed
        self.__dict__.pop("axes", None)
        self.__dict__.pop("scatters", None)

    def sample(self, size, stream, images=None):
        bags, y = images or (self.database, self.y)
        part = bags.sample(max(1, size // len(bags)), np.random.default_rng([self.seed, stream]))
        return part.values, np.unique(y, return_inverse=True)[1][part.owners], part.owners

    @cached_property
    def others(self):
        """Bags of further images, which are neither stored nor asked with, and their labels."""
        data = open_set(self.name)
        orders = free_images(data, self.number)
        rows = np.concatenate([order[TRAIN + VALIDATION :][:OTHER_IMAGES] for order in orders])
        bags = DenseSIFT().transform(data.images[rows]).sample(OTHER_PATCHES, np.random.default_rng(self.number))
        return with_positions(bags, position_scale(self.database, self.place)), data.labels[rows]

    @cached_property
    def axes(self):
        """Mean, principal axes (columns) and variances."""
        X = self.sample(SAMPLE, 0)[0]
        mean = X.mean(axis=0, dtype=np.float64)
        variances, axes = eigh(np.cov((X - mean).T.astype(np.float64)))
        return X, mean, axes[:, ::-1], np.maximum(variances[::-1], 1e-12)

    @cached_property
    def scatters(self):
        """Mean outer products of the differences between a patch and its nearest hit, and its nearest misses."""
        X, of_class, image = self.sample(PAIRED, 1)
        X = X.astype(np.float32)
        near = find_patch_neighbourhoods(
            X, of_class, image, n_classes=of_class.max() + 1, n_hits=1, n_misses=1, max_rows=10**9,
            rng=np.random.default_rng(0),
        )  # fmt: skip
        hits = (X - X[near.hits[:, 0]]).astype(np.float64)
        misses = (X[near.anchors] - X[near.misses[:, 0]]).astype(np.float64)
        return hits.T @ hits / len(hits), misses.T @ misses / len(misses)


def power(S, p):
    values, axes = eigh(S)
    return (axes * np.maximum(values, 1e-3 * values.mean()) ** p) @ axes.T


def as_they_are(part, n_axes, _):
    return part.axes[2][:, :n_axes]


def whitened(part, n_axes, floor):
    """Each axis by its deviation, which a share of the mean variance holds down."""
    _, _, axes, variances = part.axes
    return axes[:, :n_axes] * (variances[:n_axes] + floor * variances[:n_axes].mean()) ** -0.5


def by_hits(part, n_axes, p):
    """Leading axes, whitened in part by the differences between patches and their hits."""
    axes = part.axes[2][:, :n_axes]
    return axes @ power(axes.T @ part.scatters[0] @ axes, -p / 2)


def by_hits_first(part, n_axes, p):
    """All axes are whitened in part by the differences to hits; then the leading ones are taken."""
    _, _, axes, variances = part.axes
    T = power(part.scatters[0], -p / 2)
    found = eigh(T @ (axes * variances) @ axes.T @ T)[1]
    return T @ found[:, ::-1][:, :n_axes]


def by_ratio(part, n_axes, gain):
    """As by_hits, and directions in which misses differ more than hits are stretched, by the ratio to this power."""
    axes = part.axes[2][:, :n_axes]
    hits, misses = (axes.T @ S @ axes for S in part.scatters)
    white = power(hits, -0.5)
    ratios, found = eigh(white @ misses @ white)
    return axes @ white @ (found * (ratios / ratios.mean()) ** gain) @ found.T @ power(hits, 0.25)


def rotated(transform, n_axes=None, value=None, *, then=None):
    """Bits that are directions of rotations of transformed axes; ``then``: the axes of all but the first rotation."""

    def make(part, n_bits):
        X, mean = part.axes[:2]
        found = []
        while sum(A.shape[1] for A in found) < n_bits:
            A = transform(part, (found and then) or n_axes or n_bits, value)
            V = (X - mean) @ A
            V = V[: SAMPLES_PER_AXIS * A.shape[1]]
            rng = np.random.default_rng([part.seed, len(found)])
            found.append(A @ fit_rotation(V, A.shape[1], n_iter=TURNS, rng=rng))
        directions = np.concatenate(found, axis=1)[:, :n_bits]
        return LSH(n_bits=n_bits).fit(X[:100])._set_hyperplanes(directions, 0.0, mean)

    return make


# ---- rotations that rows teach ----

ROUNDS, SAMPLED, ANCHORS, AGREE = 12, 8_000, 3_000, 10
OTHER_IMAGES, OTHER_PATCHES = 50, 500  # of each class that a rotation is taught by, and of each of these


def taught(*, gain=1.0, loss="sigmoid", near="code", fresh=True, others=False):
    """Rotations of 32 axes, partly whitened, that start as those of ITQ and turn towards the margins of rows.

    Each round draws patches (``fresh``) or uses the same, and finds hits and misses by the code so far, the present
    rotation included (``near="code"``), or by the descriptors. A row's weight u is that of its ``loss``; "agreement":
    the share of the own class among the nearest patches; "correct": 1 if the hit is nearer, else 0 (an oracle);
    "image": the softmax of the distances of the patch's image to all classes. ``others``: rows are those of further
    images. The rotation then minimises
    ||B + gain G - V R||^2, with the bits B and the derivative G of the weighted sum of margins with respect to them.
    It stays orthogonal, so bits stay balanced and decorrelated; a gain of 0 is ITQ.
    """

    def make(part, n_bits):
        X, mean = part.axes[:2]
        A = whitened(part, 32, 0.5)
        found = np.empty((len(A), 0))
        while found.shape[1] < n_bits:
            number = found.shape[1] // 32
            rng = np.random.default_rng([part.seed, number])
            V = (X[rng.choice(len(X), SAMPLES_PER_AXIS * 32, replace=False)] - mean) @ A
            R = fit_rotation(V, 32, n_iter=TURNS, rng=rng)
            M = 0.0
            for turn in range(ROUNDS if gain else 0):
                stream = 10 + number * ROUNDS + turn if fresh else 10
                sample = part.sample(SAMPLED, stream, part.others if others else None)
                M = 0.6 * M + step(sample, found, A, R, mean, gain, loss, near, rng)
                U, _, Wt = np.linalg.svd(M.T)
                R = Wt.T @ U.T
            found = np.concatenate([found, A @ R], axis=1)
        return LSH(n_bits=n_bits).fit(X[:100])._set_hyperplanes(found[:, :n_bits], 0.0, mean)

    return make


def step(sample, found, A, R, mean, gain, loss, near, rng):
    """V' (B + gain G) of one round."""
    X, of_class, image = sample
    V = (X - mean) @ A
    new = np.where(V @ R >= 0, np.float32(1), np.float32(-1))
    B = np.concatenate([np.where((X - mean) @ found >= 0, np.float32(1), np.float32(-1)), new], axis=1)
    anchors = np.sort(rng.choice(len(X), min(ANCHORS, len(X)), replace=False))
    S = B[anchors] @ B.T
    S[image[anchors][:, None] == image] = -np.inf
    by = S if near == "code" else (X[anchors] @ X.T - 0.5 * np.einsum("ij,ij->i", X, X)).astype(np.float32)
    by[image[anchors][:, None] == image] = -np.inf
    classes = np.arange(of_class.max() + 1)
    nearest = np.stack([np.flatnonzero(of_class == c)[by[:, of_class == c].argmax(axis=1)] for c in classes], axis=1)
    likeness = np.take_along_axis(S, nearest, axis=1)  # (anchors, classes)
    own = of_class[anchors]
    rows = np.arange(len(anchors))
    margins = likeness[rows, own][:, None] - likeness
    U = row_weights(margins, loss, own, image[anchors], lambda: agreement(by, of_class, own))
    U[rows, own] = 0
    G = np.zeros_like(new, dtype=np.float64)
    hit = nearest[rows, own]
    for c in classes:
        u = U[:, c, None]
        G[anchors] += u * (new[hit] - new[nearest[:, c]])
        np.add.at(G, hit, u * new[anchors])
        np.add.at(G, nearest[:, c], -u * new[anchors])
    G *= np.sqrt(new.size / (G * G).sum())
    return V.T @ (new + gain * G)


def row_weights(margins, loss, own, image, agreeing):
    """Weights (anchors, classes) of the rows with these margins; those of the own class have no meaning."""
    x = margins / margins[margins != 0].std()
    p = 1 / (1 + np.exp(x))
    if loss == "logistic":
        return p
    if loss == "sigmoid":  # the derivative of 1 / (1 + exp x), small on both sides: it gives up what is far wrong
        return p * (1 - p)
    if loss == "correct":
        return (margins > 0).astype(np.float64)
    if loss == "agreement":
        return np.repeat(agreeing()[:, None], margins.shape[1], axis=1)
    if loss == "image":
        number = np.unique(image, return_inverse=True)[1]
        D = np.stack([np.bincount(number, column) for column in margins.T], axis=1) / np.bincount(number)[:, None]
        D /= D.std()
        scale = min(np.geomspace(0.1, 20, 20), key=lambda s: np.mean(logsumexp(-s * D, axis=1)))
        return np.exp(-scale * D - logsumexp(-scale * D, axis=1, keepdims=True))[number]
    return np.ones_like(x)


def agreement(by, of_class, own):
    """The share of the own class among the nearest patches of other images."""
    nearest = np.argpartition(by, -AGREE, axis=1)[:, -AGREE:]
    return np.mean(of_class[nearest] == own[:, None], axis=1)


def itq(part, n_bits):
    return ITQ(n_bits=n_bits, random_state=part.seed).fit(part.sample(100_000, 2)[0])


def learned(**changes):
    def make(part, n_bits):
        coder = PatchCBID(n_bits=n_bits, random_state=part.seed, **changes)
        return coder.fit(part.database, part.y)

    return make


def fitted(**changes):
    """Hyperplanes fitted to the rows, to all or to some (``keep``), from 10,000 patches."""

    def make(part, n_bits):
        # The study's coder has 128 bits; shorter ones are its prefixes.
        coder = study_learned({**OLD, "max_patches": 10_000, **changes}, part.seed, part.database, part.y)
        return coder.truncate(n_bits)

    return make


# ---- weights from images ----


def differences(parts, codes, offsets, n_bits):
    """The share of an image's patches that differ from the nearest of each class, by bit: (n, classes, bits)."""
    bits = np.unpackbits(codes, axis=1)[:, :n_bits]
    found = []
    for rows in parts:
        nearest = rows[CodeSearch(rows, n_bits=n_bits, weights=None).query(codes, 1, 1)[1][:, 0]]
        differ = bits != np.unpackbits(nearest, axis=1)[:, :n_bits]
        found.append(np.add.reduceat(differ, offsets[:-1], axis=0, dtype=np.float64) / np.diff(offsets)[:, None])
    return np.stack(found, axis=1)


def fit_image_weights(F, y, *, by_class, ridge):
    """Return weights (classes, bits) from the differences F of training images of classes y.

    They are factors of classes and, in addition, weights of bits, the same for all classes or for each; a ridge holds
    these near zero. The loss is that of ``class_factors``.
    """
    n, k, t = F.shape
    D = F.sum(axis=2)
    unit = D.mean()
    deviation = (D - D.mean(axis=1, keepdims=True)).std() / unit
    shape = (k, t) if by_class else (1, t)
    rows = np.arange(n)

    def loss(x):
        scale, p, q = np.exp(x[0]), x[1 : 1 + k], x[1 + k :].reshape(shape)
        W = 1 / deviation + p[:, None] + q
        S = -scale * np.einsum("nkt,kt->nk", F / unit, W)
        total = logsumexp(S, axis=1)
        E = np.exp(S - total[:, None])
        E[rows, y] -= 1
        G = -scale * np.einsum("nk,nkt->kt", E / n, F / unit)
        Gq = (G if by_class else G.sum(axis=0, keepdims=True)) + 2 * ridge * q / t
        value = np.mean(total - S[rows, y]) + _FACTOR_RIDGE * p @ p + ridge * (q * q).sum() / t
        gradient = np.concatenate([[(E * S).sum() / n], G.sum(axis=1) + 2 * _FACTOR_RIDGE * p, Gq.ravel()])
        return value, gradient

    start = np.zeros(1 + k + shape[0] * t)
    bounds = [(-5, 5)] + [(None, None)] * (len(start) - 1)
    x = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    return np.maximum(1 + deviation * (x[1 : 1 + k, None] + x[1 + k :].reshape(shape)), 0)


def with_image_weights(ridges):
    """ITQ, whose bits get weights from the distances of training images to the classes, without their own patches."""

    def run(part, n_bits):
        coder = itq(part, n_bits)
        numbers = np.unique(part.y, return_inverse=True)[1]
        codes, asked = coder.encode(part.database.values), coder.encode(part.queries.values)
        of_row, image = numbers[part.database.owners], part.database.owners
        round_of = np.concatenate([np.arange(n) for n in np.bincount(numbers)])  # images come class by class
        F, y = [], []
        rng = np.random.default_rng(part.seed)
        for j in range(round_of.max() + 1):
            images = np.flatnonzero(round_of == j)
            kept = round_of[image] != j
            parts = [codes[kept & (of_row == c)] for c in range(numbers.max() + 1)]
            bags = part.database.take(images).sample(100, rng)
            F.append(differences(parts, coder.encode(bags.values), bags.offsets, n_bits))
            y.append(numbers[images])
        F, y = np.concatenate(F), np.concatenate(y)
        parts = [codes[of_row == c] for c in range(numbers.max() + 1)]
        Q = differences(parts, asked, part.queries.offsets, n_bits)
        factors = class_factors(F.sum(axis=2), y)
        found = {"factors alone": scores_of(np.einsum("nkt,k->nk", Q, factors), part.own)}
        for by_class in (False, True):
            for ridge in ridges:
                W = fit_image_weights(F, y, by_class=by_class, ridge=ridge)
                title = f"weights of bits{' by class' if by_class else ''}, ridge {ridge}"
                found[title] = scores_of(np.einsum("nkt,kt->nk", Q, W), part.own)
        return found

    return run


def asymmetric(part, n_bits):
    """ITQ where queries are tanh(2 z / mean |z|) instead of signs."""
    coder = itq(part, n_bits)
    unit = np.abs(coder.project(part.axes[0])).mean(axis=0)
    of_row = np.unique(part.y, return_inverse=True)[1][part.database.owners]
    H = coder.transform(part.database.values).astype(np.float32)

    def distances(X):
        q = np.tanh(2 * coder.project(X) / unit).astype(np.float32)
        return np.stack([(n_bits - q @ H[of_row == c].T).min(axis=1) for c in range(of_row.max() + 1)], axis=1)

    sums = np.add.reduceat(distances(part.queries.values), part.queries.offsets[:-1], axis=0, dtype=np.float64)
    return {"nearest": scores_of(sums, part.own)}


def exact(part, n_bits):
    """NBNN on descriptors."""
    return scores(part, None, None)


EXACT = "exact NBNN, 512 bytes a patch"
CODERS = {
    "ITQ": itq,
    "rotation of as many axes as bits": rotated(as_they_are),
    "32 axes, partly whitened": rotated(whitened, 32, 0.5),
    "64 axes, as they are": rotated(as_they_are, 64),
    "64 axes, partly whitened": rotated(whitened, 64, 0.5),
    "32 axes, half whitened by hits": rotated(by_hits, 32, 0.5),
    "64 axes, half whitened by hits": rotated(by_hits, 64, 0.5),
    "64 axes, whitened by hits": rotated(by_hits, 64, 1.0),
    "64 axes of patches half whitened by hits": rotated(by_hits_first, 64, 0.5),
    "32 axes of patches half whitened by hits": rotated(by_hits_first, 32, 0.5),
    "32 axes, then 64, partly whitened": rotated(whitened, 32, 0.5, then=64),
    "32 axes, then 64, half whitened by hits": rotated(by_hits, 32, 0.5, then=64),
    "64 axes, half whitened by hits, ratio^4": rotated(by_ratio, 64, 4),
    "32 axes, half whitened by hits, ratio^4": rotated(by_ratio, 32, 4),
    "C-BID": learned(),
    "C-BID, plain Hamming distance": learned(),
    "C-BID, 30,000 patches to learn from": learned(max_patches=30_000),
    "C-BID, 30,000 patches, plain Hamming distance": learned(max_patches=30_000),
    "hyperplanes fitted to the rows": fitted(),
    "hyperplanes fitted to reliable rows": fitted(keep="reliable"),
}
TAUGHT = {
    "ITQ of 32 axes, partly whitened: not taught": taught(gain=0),
    "taught": taught(),
    "taught, a third of the gain": taught(gain=0.3),
    "taught, three times the gain": taught(gain=3.0),
    "taught, the same patches in each round": taught(fresh=False),
    "taught, neighbours by the descriptors": taught(near="descriptors"),
    "taught, logistic loss": taught(loss="logistic"),
    "taught, all rows weigh the same": taught(loss="none"),
    "taught, rows weigh by agreement": taught(loss="agreement"),
    "taught, correct rows alone (oracle)": taught(loss="correct"),
    "taught, rows weigh by their image": taught(loss="image"),
    "taught by other images": taught(others=True),
    "taught by other images, three times the gain": taught(others=True, gain=3.0),
}
CODERS |= TAUGHT
OTHERS = {
    "ITQ, weights from images": with_image_weights((0.3, 0.03, 0.003)),
    "ITQ, asymmetric queries": asymmetric,
    EXACT: exact,
}


def scores(part, coder, weighted):
    """Accuracy and log loss without and with factors of the classes, and the log loss of the training images."""
    model = NBNNClassifier(coder=coder, decision="nearest", weighted=weighted).fit(part.database, part.y)
    D = model.image_to_class_distances(part.queries) / part.queries.sizes[:, None]
    # The classifier's own factors, without a second search.
    params = model.get_params(deep=False)
    own, y = distances_without_own(model._store, model.classes_, params, coder, 0, 1)
    factors = class_factors(own, y)
    return {"nearest": scores_of(D, part.own), "factors": scores_of(D * factors, part.own),
            "training": scores_of(own * factors, y)}  # fmt: skip


def run(tries, keys):
    """Run the tries of one draw."""
    part = Part(*tries[0][:3]) if tries else None
    for about in tries:
        seed, n_bits, what = about[3:]
        if getattr(part, "seed", None) != seed:
            part.start(seed)
        if what in CODERS:
            found = scores(part, CODERS[what](part, n_bits), False if "plain" in what else None)
        else:
            found = OTHERS[what](part, n_bits)
        add_line("patch_bits", {**dict(zip(keys, about)), "found": found})
        print(*about, {k: np.round(v, 3).tolist() for k, v in found.items()}, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--draws", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--place", nargs="+", type=int, default=[0])
    parser.add_argument("--bits", nargs="+", type=int, default=[128, 32])
    parser.add_argument("--only", nargs="+", default=[*CODERS, *OTHERS], choices=[*CODERS, *OTHERS])
    given = parser.parse_args()
    keys = ("set", "draw", "place", "seed", "bits", "what")
    done = {tuple(line[key] for key in keys) for line in load_lines("patch_bits")}
    with threadpool_limits(1):
        for place in given.place:
            for name in given.sets:
                for number in given.draws:
                    tries = [
                        (name, number, place, seed, n_bits, what)
                        for seed in range(given.seeds)
                        for n_bits in given.bits
                        for what in given.only
                        if n_bits >= 64 or not what.startswith("64")
                    ]
                    run([one for one in tries if one not in done], keys)


if __name__ == "__main__":
    main()
