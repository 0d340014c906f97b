"""Naive Bayes nearest neighbour (NBNN): classify images by the nearest training patches of their patches."""

import os
import time
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from cbid.bags import Bags
from cbid.checks import as_random_state, unchanged_on_error
from cbid.classify.class_distances import Decision, chosen_decision, class_distances, fit_decision, sum_by_image
from cbid.classify.patches import Images, PatchRows, PatchStore, drop_empty, named_bags
from cbid.labels import check_labels, encode_labels, image_labels
from cbid.params import check_params, choice, estimator, flag, integer, jobs, param, positive, real

_QUERIES = 1 << 15  # patches searched at a time


class EvaluationTime(NamedTuple):
    """Seconds for each image and class: to compute the rows (codes) of its patches, and to search."""

    encode: float
    search: float

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.encode + self.search


@estimator
class NBNNClassifier(ClassifierMixin, BaseEstimator):
    """Predict the class whose training patches are nearest to the patches of an image (Boiman et al., 2008).

    The distance from an image to a class is the sum over its patches of the distance to the nearest training patch of
    that class: squared Euclidean between descriptors, weighted Hamming between codes.

    Parameters
    ----------
    coder : estimator with ``encode``, optional
        Patches are stored and compared as its codes: ``PatchCBID``, which is fitted on bags, or any other coder of
        the package, which is fitted on a sample of the patches, each with the label of its image. A fitted coder is
        used unchanged; one that is not is cloned and fitted. Without a coder the descriptors are stored as float32.
    search : {"exact", "kd-tree", "lsh", "pca"}, default="exact"
        How the nearest patch of a class is found. "exact": by all distances, the only way for codes. "kd-tree": best
        bin first, at most ``checks`` comparisons over ``n_trees`` trees. "lsh": among the patches that share a bucket
        with the query in one of ``n_tables`` tables of ``n_functions`` p-stable functions with bins of ``bin_width``;
        a class without such a patch gets the largest distance found for the image.
        "pca": exact, on projections to ``n_components`` principal axes of 32 bits each.
    local : bool, default=False
        Local NBNN (McCann and Lowe, 2012): one structure for all classes. Only the classes among the ``n_neighbors``
        nearest patches count, with their distance minus that of the next patch.
    decision : {"auto", "nearest", "balanced", "corrected", "kernel"}, default="auto"
        How distances decide. "nearest": the class at the least distance. "balanced": distances are first multiplied
        by a factor for each class, because a class whose patches lie close together attracts the images of all
        others. "corrected": by a factor, and shifted by a number (Behmo et al., 2010), without a ridge that holds
        them back. "kernel": the distances to all classes are the features of a linear SVM (Tuytelaars et al., 2011).
        The latter three are fitted on the distances of training images to all others, for which each class needs two.
        "auto" is "balanced" for codes, unless a class has one image or ``local`` is set, and else "nearest".
    weighted : bool or None, default=None
        Whether codes are compared by the ``weights_`` of the coder. None: if it has them.
    location : float >= 0 or None, default=None
        Weight of the position of a patch: x / width and y / height, times this, times the root mean square length of
        the training descriptors, are appended to the descriptor, before it is coded. It is the same for every coder;
        ``PatchCBID(location=...)`` does it inside the coder.
    max_patches : int, default=100_000
        Most patches for fitting the principal axes, or a coder that does not take bags; an equal number from each
        image.
    descriptor : local descriptor, optional
        With a descriptor, images may be arrays or paths wherever bags are expected.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn: None is one, -1 all processors.
    random_state : int, RandomState or None, default=0
        Seed of the sample of patches, the kd-trees and the hash functions.

    Attributes
    ----------
    classes_ : (n_classes,)
    n_features_in_ : int
        Values of a descriptor.
    coder_ : the fitted coder, or None
    decision_ : str, the decision in use: what "auto" has chosen
    ids_ : list, the ids of the stored images
    storage_per_image_ : float
        Mean bytes of the rows of a training image, in memory and in a file.
    index_bytes_ : int
        Bytes of the search structures in memory, without the rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = ["dark", "dark", "light", "light"]
    >>> bags = [rng.normal(label == "light", size=(30, 8)) for label in y]  # 30 descriptors of 8 values each
    >>> model = NBNNClassifier().fit(bags, y)
    >>> model.predict([rng.normal(1, size=(20, 8))])
    array(['light'], dtype='<U5')
    >>> model.storage_per_image_  # 30 x 8 floats of four bytes
    960.0
    """

    coder: Any = None
    search: str = param("exact", choice("exact", "kd-tree", "lsh", "pca"))
    local: bool = param(False, flag)
    n_neighbors: int = param(10, integer(1))
    decision: str = param("auto", choice("auto", "nearest", "balanced", "corrected", "kernel"))
    weighted: bool | None = param(None, choice(None, False, True))
    location: float | None = param(None, real(0))
    n_components: int = param(16, integer(1))
    checks: int = param(500, integer(1))
    n_trees: int = param(1, integer(1))
    n_tables: int = param(25, integer(1))
    n_functions: int = param(20, integer(1))
    bin_width: float = param(0.25, positive)
    max_patches: int = param(100_000, integer(1))
    descriptor: Any = None
    n_jobs: int | None = param(None, jobs)
    random_state: Any = 0

    def _check_params(self) -> None:
        check_params(self)
        if self.descriptor is not None and not hasattr(self.descriptor, "transform"):
            raise ValueError(f"descriptor={self.descriptor!r}: expected a local descriptor (DenseSIFT()), or None")
        if self.coder is None:
            if self.weighted:
                raise ValueError("weighted=True: expected a coder with weights; coder is None")
            return
        if not (hasattr(self.coder, "fit") and hasattr(self.coder, "encode")):
            raise ValueError(f"coder={self.coder!r}: expected an estimator with encode, or None")
        if self.search != "exact":
            raise ValueError(f"search={self.search!r}: expected 'exact' with a coder; the others are for descriptors")
        if self.location and getattr(self.coder, "location", None):
            raise ValueError(
                f"location={self.location!r}: expected None if the coder has location={self.coder.location!r}"
            )

    # ---- Training images ----

    @unchanged_on_error
    def fit(self, X: Images, y: ArrayLike, ids: Sequence[Hashable] | None = None) -> Self:
        """Store the patches of n images: Bags or one (m_i, d) array each, with labels y (n,).

        ``ids`` of the images are integers or strings, for ``remove_image``; by default 0 to n - 1.
        """
        self._check_params()
        bags, names = self._bags(X, any_width=True)
        classes, numbers = check_labels(y, len(bags))
        store = PatchStore()
        ids = store.new_ids(ids, len(bags))
        bags, numbers, ids = drop_empty(bags, numbers, ids, names)
        if len(np.unique(numbers)) < len(classes):
            empty = np.setdiff1d(np.arange(len(classes)), numbers)
            raise ValueError(
                f"no image of class {classes.tolist()[empty[0]]!r} has a descriptor; expected at least one"
            )
        self.classes_, self.n_features_in_ = classes, bags.values.shape[1]
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        with self._limited_threads():
            self._rows = PatchRows.fit(
                bags,
                self.classes_[numbers],
                location=self.location,
                n_components=self.n_components if self.search == "pca" else None,
                coder=self.coder,
                max_patches=self.max_patches,
                rng=np.random.default_rng(seed),
            )
            rows = self._rows(bags)
        self._seed, self._store = seed, store
        for c in range(len(classes)):
            store.insert_class(c)
        self._add(bags, rows, numbers, ids)
        return self

    @unchanged_on_error
    def add_images(self, X: Images, y: ArrayLike, ids: Sequence[Hashable] | None = None) -> Self:
        """Store more images. Coder and projection do not change; a new label adds a class."""
        check_is_fitted(self)
        bags, names = self._bags(X)
        labels, numbers = image_labels(y, len(bags))
        bags, numbers, ids = drop_empty(bags, numbers, self._store.new_ids(ids, len(bags)), names)
        if not ids:
            return self
        with self._limited_threads():
            rows = self._rows(bags)
        known = self.classes_.tolist()
        given = [labels.tolist()[c] for c in np.unique(numbers)]
        classes = encode_labels([*known, *given])[0]
        self._store = self._store.copy()
        for at, label in enumerate(classes.tolist()):
            if label not in known:
                self._store.insert_class(at)
        number_of = {label: at for at, label in enumerate(classes.tolist())}
        self.classes_ = classes
        self._add(bags, rows, np.array([number_of.get(label, -1) for label in labels.tolist()])[numbers], ids)
        return self

    @unchanged_on_error
    def remove_image(self, image: Hashable) -> Self:
        """Remove the image with this id, and a class with its last image."""
        check_is_fitted(self)
        if not isinstance(image, Hashable):
            raise TypeError(f"image={image!r}: expected the id of one image, an integer or a string")
        if self._store.n_images == 1 and image in self._store:
            raise ValueError(f"image={image!r} is the last image; a classifier needs at least one")
        self._store = self._store.copy()
        c = self._store.remove(image)
        if not self._store.ids[c]:
            self._store.drop_class(c)
            self.classes_ = np.delete(self.classes_, c)
        self._build()
        return self

    # ---- Queries ----

    def image_to_class_distances(self, X: Images) -> NDArray[np.float64]:
        """Return distances (n, n_classes) from images, Bags or one (m_i, d) array each, to the classes.

        In local NBNN the background distance is subtracted, and they are zero or negative.
        """
        check_is_fitted(self)
        return self._distances(*self._bags(X))[0]

    def decision_function(self, X: Images) -> NDArray[np.float64]:
        """Return minus the image-to-class distances (n, n_classes); the predicted class has the largest value.

        With two classes, as in scikit-learn, (n,): how much nearer the second class is than the first. If
        ``decision_`` is not "nearest", its scores of the mean over the patches.
        """
        check_is_fitted(self)
        scores = self._scores(*self._bags(X))
        return scores[:, 0] - scores[:, 1] if len(self.classes_) == 2 else -scores

    def predict(self, X: Images) -> NDArray[Any]:
        """Return the nearest class (n,) of each image; ties go to the first in ``classes_``."""
        check_is_fitted(self)
        return self.classes_[self._scores(*self._bags(X)).argmin(axis=1)]

    def predict_paths(self, source: str | os.PathLike[str] | Sequence[Any]) -> list[tuple[str, Any]]:
        """Return name and class of each image of a folder, an image file, or a sequence of paths.

        Needs a descriptor.
        """
        check_is_fitted(self)
        if self.descriptor is None:
            raise ValueError("descriptor=None: expected the descriptor of the bags, to describe images")
        if isinstance(source, (str, os.PathLike)):
            from cbid.data import ImageFolder

            source = ImageFolder(source, labelled=False) if os.path.isdir(source) else [source]
        bags, names = self._bags(source)
        return list(zip(names, self.classes_[self._scores(bags, names).argmin(axis=1)].tolist()))

    def evaluation_time(self, X: Images) -> EvaluationTime:
        """Return the seconds per image and class to classify these images, as thread time if ``n_jobs`` is one.

        Describing the images and building the structures are not counted.
        """
        check_is_fitted(self)
        bags, names = self._bags(X)
        encode, search = self._distances(bags, names)[1:]
        pairs = len(bags) * len(self.classes_)
        return EvaluationTime(encode / pairs, search / pairs)

    @property
    def coder_(self) -> Any:
        """The fitted coder, or None."""
        check_is_fitted(self)
        return self._rows.coder

    @property
    def decision_(self) -> str:
        """The decision in use."""
        check_is_fitted(self)
        return chosen_decision(self._store, self.get_params(deep=False))

    @property
    def ids_(self) -> list[Hashable]:
        """The ids of the stored images."""
        check_is_fitted(self)
        return [image for ids in self._store.ids for image in ids]

    @property
    def storage_per_image_(self) -> float:
        """Mean bytes of the rows of a training image."""
        check_is_fitted(self)
        return self._store.nbytes / self._store.n_images

    @property
    def index_bytes_(self) -> int:
        """Bytes of the search structures."""
        check_is_fitted(self)
        return self._class_distances.nbytes

    # ---- Files ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the classifier to a safetensors file, atomically; ``load`` rebuilds the search structures."""
        from cbid.classify.nbnn_file import save_nbnn

        check_is_fitted(self)
        save_nbnn(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a classifier that ``save`` wrote."""
        from cbid.classify.nbnn_file import load_nbnn

        return load_nbnn(cls, path)

    def _bags(self, X: Images, *, any_width: bool = False) -> tuple[Bags, list[str]]:
        return named_bags(X, self.descriptor, None if any_width else self.n_features_in_, self.n_jobs)

    def _add(self, bags: Bags, rows: NDArray[Any], numbers: NDArray[np.integer], ids: list[Hashable]) -> None:
        for c in np.unique(numbers).tolist():
            members = np.flatnonzero(numbers == c)
            parts = [rows[bags.offsets[i] : bags.offsets[i + 1]] for i in members]
            self._store.add(c, parts, [ids[i] for i in members])
        self._build()

    def _build(self, decision: Decision | None = None) -> None:
        """Build the search structures over the stored rows, and fit the decision if none is given."""
        params, coder = self.get_params(deep=False), self._rows.coder
        with self._limited_threads():
            self._decision = decision or fit_decision(
                self._store, self.classes_, params, coder, self._seed, effective_n_jobs(self.n_jobs)
            )
        self._class_distances = class_distances(self._store.parts, self.classes_, params, coder, self._seed)

    def _scores(self, bags: Bags, names: list[str]) -> NDArray[np.float64]:
        """Return scores (n, n_classes), the least for the predicted class."""
        distances = self._distances(bags, names)[0]
        return distances if self._decision is None else self._decision(distances / bags.sizes[:, None])

    def _distances(self, bags: Bags, names: list[str]) -> tuple[NDArray[np.float64], float, float]:
        """Return image-to-class distances (n, n_classes), and the seconds of encoding and searching."""
        empty = np.flatnonzero(bags.sizes == 0)
        if len(empty):
            raise ValueError(f"{names[empty[0]]} has no descriptor; expected at least one")
        n_threads = effective_n_jobs(self.n_jobs)
        clock = time.thread_time if n_threads == 1 else time.perf_counter
        out = np.empty((len(bags), len(self.classes_)))
        encode = search = 0.0
        with self._limited_threads():
            for images in _batches(bags, _QUERIES):
                part = bags.take(images)
                started = clock()
                rows = self._rows(part)
                encoded = clock()
                distances = self._class_distances(rows, n_threads)
                out[images] = sum_by_image(distances, part.offsets)
                encode, search = encode + encoded - started, search + clock() - encoded
        return out, encode, search

    def _limited_threads(self) -> Any:
        return threadpool_limits(effective_n_jobs(self.n_jobs), user_api="blas")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_class_distances")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def _batches(bags: Bags, most: int) -> list[NDArray[np.int64]]:
    """Return the numbers of consecutive images in batches of about ``most`` patches."""
    batch = bags.offsets[:-1] // most
    return np.split(np.arange(len(bags)), np.flatnonzero(np.diff(batch)) + 1)
