"""The methods of the table of patch classifiers, with what the paper has for each (its Table 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from cbid import NBNNClassifier, PatchCBID
from cbid.bags import Bags
from cbid.coders import ITQ, LSH
from cbid.pooling import AdditiveKernelMap, BagOfWords

__all__ = ["METHODS", "PLACE_METHODS", "Method", "Published", "learn_cbid", "storage_of"]

MOST_BITS = 128
PLACE = 1.0  # weight of the place; chosen by benchmarks/patch_study.py, like the defaults of PatchCBID
Make = Callable[[int, Any], Any]  # from the seed and the fitted C-BID of 128 bits to an estimator over bags


@dataclass(frozen=True)
class Published:
    """Accuracy and deviation in percent, kilobytes an image, seconds for an image and a class."""

    caltech: tuple[float, float]
    scene: tuple[float, float]
    storage: float
    seconds: float | None


@dataclass(frozen=True)
class Method:
    title: str
    published: Published | None
    make: Make


def bag_of_words(seed: int, cbid: Any) -> Any:
    """600 words in 2 x 2 and 4 x 4 cells, 20 in all, and three features for each count: 36,000 an image."""
    words = BagOfWords(n_words=600, pyramid=(2, 4), level_weights=None, random_state=seed)
    return make_pipeline(words, AdditiveKernelMap(sample_steps=2), LinearSVC(C=10, random_state=seed))


def nbnn(**settings: Any) -> Make:
    return lambda seed, cbid: NBNNClassifier(**settings, random_state=seed)


def coded(coder: Any, **settings: Any) -> Make:
    return lambda seed, cbid: NBNNClassifier(coder=coder(random_state=seed, **settings), random_state=seed)


def cut(n_bits: int) -> Make:
    return lambda seed, cbid: NBNNClassifier(coder=cbid.truncate(n_bits), random_state=seed)


def learned_without_place(seed: int, cbid: Any) -> NBNNClassifier:
    return NBNNClassifier(coder=PatchCBID(n_bits=MOST_BITS, random_state=seed), random_state=seed)


def itq_with_place(seed: int, cbid: Any) -> NBNNClassifier:
    return NBNNClassifier(coder=ITQ(n_bits=MOST_BITS, random_state=seed), location=PLACE, random_state=seed)


METHODS = {
    "bow": Method("bag of words, kernel map, SVM", Published((86.88, 2.2), (55.73, 2.4), 141.0, None), bag_of_words),
    "exact": Method("NBNN, exact", Published((84.96, 4.0), (54.72, 2.6), 5000.0, 78.8), nbnn()),
    "bbf": Method(
        "NBNN, best bin first",
        Published((84.64, 3.9), (53.97, 2.1), 5000.0, 1.55),
        nbnn(search="kd-tree", checks=500),
    ),
    "lsh": Method("NBNN, LSH", Published((84.80, 3.0), (40.21, 4.7), 5000.0, 3.83), nbnn(search="lsh")),
    "pca256": Method(
        "NBNN, PCA, 256 bits", Published((74.72, 3.6), (46.24, 2.1), 312.5, 5.50), nbnn(search="pca", n_components=8)
    ),
    "pca512": Method(
        "NBNN, PCA, 512 bits", Published((83.04, 4.9), (54.67, 1.8), 625.0, 8.62), nbnn(search="pca", n_components=16)
    ),
    "cbid16": Method("C-BID, 16 bits", Published((73.12, 7.0), (30.03, 1.9), 19.5, 0.15), cut(16)),
    "cbid32": Method("C-BID, 32 bits", Published((80.96, 4.8), (54.51, 1.8), 39.1, 0.24), cut(32)),
    "cbid128": Method("C-BID, 128 bits", Published((86.24, 4.2), (57.28, 2.8), 156.3, 1.11), cut(128)),
    "itq128": Method("ITQ, 128 bits", None, coded(ITQ, n_bits=128)),
    "lsh128": Method("random hyperplanes, 128 bits", None, coded(LSH, n_bits=128)),
    "local128": Method(
        "local NBNN, C-BID, 128 bits", None, lambda seed, cbid: NBNNClassifier(coder=cbid, local=True)
    ),
}

# What place does: C-BID has it in the table, the others do without.
PLACE_METHODS = {
    "unplaced128": Method("C-BID, 128 bits, place left out", None, learned_without_place),
    "placed": Method("NBNN, exact, with place", None, nbnn(location=PLACE)),
    "itq128placed": Method("ITQ, 128 bits, with place", None, itq_with_place),
}


def learn_cbid(bags: Bags, labels: NDArray[Any], seed: int) -> PatchCBID:
    """The coder whose prefixes are those of all lengths."""
    return PatchCBID(n_bits=MOST_BITS, location=PLACE, random_state=seed).fit(bags, labels)


def storage_of(name: str, model: Any) -> float:
    """Bytes kept for an image."""
    if name == "bow":
        return 4.0 * model[-1].coef_.shape[1]
    return float(model.storage_per_image_)
