"""C-BID over bags of local descriptors, the patch-level form."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from cbid.bags import Bags, are_bags, check_bags, position_scale, with_positions
from cbid.checks import check_choice, check_integer, check_real
from cbid.coders.large_margin import LargeMarginCoder
from cbid.coders.onnx_file import OnnxGraph
from cbid.labels import check_labels
from cbid.learning.bits import STARTS, BitSearch
from cbid.learning.features import Whitening
from cbid.learning.losses import Loss
from cbid.learning.neighbourhoods import of_unit_size
from cbid.learning.patches import (
    RotatedBits,
    cut_into_bags,
    find_patch_neighbourhoods,
    rows_from_bags,
)
from cbid.learning.ridge import RidgeMap
from cbid.learning.rows import Rows, rows_from_neighbourhoods

__all__ = ["PatchCBID"]

# Leading principal axes that a rotation turns; chosen on validation images, as in benchmarks/patch_study.py.
_AXES = 32


class PatchCBID(LargeMarginCoder):
    """Binary codes of local descriptors, learned from images with labels, for image-to-class distances (NBNN).

    A patch should lie nearer to a patch of its own class, in another image, than to any patch of another class. Bits,
    weights and certificate come from the same learner as those of ``CBID``; one weight vector serves all classes.

    Parameters
    ----------
    n_bits : int, 1 to 65536
        Length of the code. Fewer come out when no further bit improves the objective.
    rows : {"patch", "image", "paper"} or int
        What one comparison (a row) is about: a patch; a whole image, as in the paper; or a bag of so many patches of
        one image, drawn at random. A row's margin is the mean over its patches of the distance to the nearest patch
        of another class less the distance to the nearest of its own; there is one for every other class. "paper" is
        Eq. 2 as printed: one row for an image, the *sum* over its patches, with the nearest patch of all other
        classes together.
    location : float >= 0 or None
        Weight of a patch's place in the image. x over the width and y over the height, times this, times the root
        mean square length of the training descriptors, join the descriptor. Bags must then have frames and shapes.
    n_hits, n_misses : int
        Nearest patches of the own class, in other images, and of each other class, over which distances are averaged.
    max_patches : int
        Most patches that learning looks at, an equal number from each image, drawn at random. Neighbours are sought
        among them.
    max_rows : int
        Most comparisons of a patch with another class; above it a random part of them is used.
    starts : {"rotation", "pencil", "spectral", "random", "paper"}
        Where bits come from. "rotation": they are directions of rotations of the leading ``n_components`` principal
        axes (ITQ), which are partly whitened; the rows choose their order and their weights. Labels of patches are
        noisy, and hyperplanes that are fitted to them follow the noise. The others are those of ``CBID``: hyperplanes
        are fitted to the rows from such starts.
    n_components : int or None
        Principal axes; None is 32 for "rotation", else 256.
    loss, penalty, nu, ridge, sigmoid, n_starts, n_climbs, distinct, tol
        As in ``CBID``, without its kernel form. ridge, sigmoid, n_starts and n_climbs are for fitted hyperplanes.
    warm_start, callback, verbose, n_jobs, random_state
        As in ``CBID``.

    Attributes
    ----------
    n_bits_ : int
    coef_, intercept_ : (n_bits_, d) or (n_bits_, d + 2) with location, (n_bits_,)
        Hyperplanes in the units of the descriptors; the last two columns belong to x and y.
    location_ : float
        What x and y, from 0 to 1, are multiplied by; 0 without location.
    weights_ : (n_bits_,)
    objective_, gap_ : (n_bits_,)
        Primal value and duality gap after each bit.
    classes_ : (n_classes,)

    Notes
    -----
    A class with one image has no hits, since hits come from other images: its patches serve as misses of the other
    classes, and a warning says so. Images without descriptors are passed over with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from cbid import PatchCBID
    >>> rng = np.random.default_rng(0)
    >>> y = [0, 0, 0, 1, 1, 1]
    >>> bags = [rng.normal(label, size=(40, 6)) for label in y]  # six images with 40 descriptors each
    >>> coder = PatchCBID(n_bits=8).fit(bags, y)
    >>> coder.encode(bags[0]).shape, coder.encode(bags).shape
    ((40, 1), (240, 1))
    """

    # The paper's patch form has one weight vector, and hyperplanes over the descriptors themselves, as found.
    margin = "shared"
    kernel = None
    smoothing = 0.0

    # Leading axes count for less than their variance, the others stay small: the nearest patches that decide differ
    # in all directions, descriptors mostly in the leading ones.
    whitening = 0.5

    _STARTS = ("rotation", *STARTS)
    _VALUES = LargeMarginCoder._VALUES | {"location_"}
    _OF_THE_PROBLEM = LargeMarginCoder._OF_THE_PROBLEM | {"rows", "location", "max_patches"}

    def __init__(
        self,
        *,
        n_bits: int = 128,
        rows: str | int = "patch",
        location: float | None = None,
        loss: str | Loss = "logistic",
        penalty: str | float = "linf",
        nu: float | None = None,
        n_hits: int = 1,
        n_misses: int = 1,
        max_patches: int = 30_000,
        max_rows: int = 500_000,
        n_components: int | None = None,
        ridge: float = 1e-3,
        sigmoid: str = "arctan",
        starts: str = "rotation",
        n_starts: int = 12,
        n_climbs: int = 2,
        distinct: float = 0.0,
        tol: float = 1e-3,
        warm_start: bool = False,
        callback: Callable[["PatchCBID"], None] | None = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.rows = rows
        self.location = location
        self.loss = loss
        self.penalty = penalty
        self.nu = nu
        self.n_hits = n_hits
        self.n_misses = n_misses
        self.max_patches = max_patches
        self.max_rows = max_rows
        self.n_components = n_components
        self.ridge = ridge
        self.sigmoid = sigmoid
        self.starts = starts
        self.n_starts = n_starts
        self.n_climbs = n_climbs
        self.distinct = distinct
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def paper(cls, n_bits: int = 128, **changes: Any) -> Self:
        """The paper's own settings: Eq. 2 as printed, l_1, random starts.

        The paper adds the losses of images up where we average them, so its nu divided by the number of images is
        ours; see ``CBID.paper``. Algorithm 1 starts from equal duals, 1 / m. So do we, since zero weights have equal
        duals: the first bit is the same. Hits come from other images, which the paper leaves open.
        """
        settings: dict[str, Any] = {
            "rows": "paper",
            "loss": "logistic",
            "penalty": "l1",
            "nu": 1e-5,
            "n_hits": 1,
            "n_misses": 1,
            "ridge": 0.0,
            "starts": "paper",
            "n_starts": 200,
            "n_climbs": 1,
        }
        return cls(n_bits=n_bits, **{**settings, **changes})

    def _check_params(self) -> None:
        super()._check_params()
        if isinstance(self.rows, str):
            check_choice("rows", self.rows, ("patch", "image", "paper"))
        else:
            check_integer("rows", self.rows, 1)
        if self.location is not None:
            check_real("location", self.location, 0)
        check_integer("max_patches", self.max_patches, 2)

    def fit(self, bags: Bags | Sequence[ArrayLike], y: ArrayLike) -> Self:
        """Learn from the bags of n images, Bags or one (m_i, d) array each, and their labels y (n,)."""
        self._check_params()
        bags = check_bags(bags)
        classes, numbers = check_labels(y, len(bags))
        _check_images(bags, classes, numbers)
        seed = self._seed()
        # Streams of their own: the learner draws from the seed itself.
        draw, cut = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
        sample = bags.sample(max(1, self.max_patches // len(bags)), draw)
        location = position_scale(sample, self.location)
        X, image = with_positions(sample, location).values, sample.owners
        of_patch = numbers[image]

        def rows(rng: np.random.Generator, n_threads: int) -> Rows:
            near = find_patch_neighbourhoods(
                of_unit_size(X),
                of_patch,
                image,
                n_classes=len(classes),
                n_hits=self.n_hits,
                n_misses=self.n_misses,
                max_rows=self.max_rows,
                rng=rng,
                n_threads=n_threads,
                together=self.rows == "paper",
            )
            if self.rows in ("patch", 1):
                return rows_from_neighbourhoods(near, of_patch, triplets="mean", n_classes=len(classes))
            bag = image if isinstance(self.rows, str) else cut_into_bags(image, self.rows, cut)
            return rows_from_bags(near, of_patch, bag, n_classes=len(classes), total=self.rows == "paper")

        self._learn(
            X,
            rows,
            classes,
            np.stack([of_patch, image]),
            seed,
            n_features_in_=bags.values.shape[1],
            location_=location,
        )
        return self

    def _bit_search(
        self, Z: NDArray[np.float32], whitening: Whitening, kernel: str, seed: int, smoothing: RidgeMap | None
    ) -> BitSearch | RotatedBits:
        if self.starts != "rotation":
            return super()._bit_search(Z, whitening, kernel, seed, smoothing)
        return RotatedBits(Z, n_axes=self.n_components or _AXES, seed=seed)

    def _samples(self, X: Any) -> NDArray[np.floating]:
        """Descriptors (m, d), or those of all bags one after the other, joined with their places."""
        if are_bags(X):
            return with_positions(check_bags(X, n_features=self.n_features_in_), self.location_).values
        if self.location_:
            raise ValueError(
                f"location={self.location!r} needs to know where in its image each patch was taken; give Bags with "
                "frames and shapes, not an array of descriptors"
            )
        return super()._samples(X)

    def _onnx_values(self, graph: OnnxGraph, X: str) -> str:
        if self.location_:
            raise ValueError(f"location={self.location!r}: to_onnx expects a coder that was fitted without location")
        return super()._onnx_values(graph, X)

    def _n_columns(self) -> int:
        return int(self.n_features_in_) + (2 if self.location_ else 0)

    def _check_state(self) -> None:
        check_real("location_", self.location_, 0)
        super()._check_state()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags


def _check_images(bags: Bags, classes: NDArray[Any], numbers: NDArray[np.integer]) -> None:
    """Warn of images without descriptors and of classes without hits; raise where nothing is left to learn from."""
    empty = np.flatnonzero(bags.sizes == 0)
    if len(empty):
        warnings.warn(f"images without descriptors are passed over: {_some(empty)}", stacklevel=4)
    images = np.bincount(numbers[bags.sizes > 0], minlength=len(classes))
    if (images > 0).sum() < 2 or (images > 1).sum() == 0:
        raise ValueError(
            f"images with descriptors are, class by class, {dict(zip(classes.tolist(), images.tolist()))}; learning "
            "needs two classes, and two images in one of them"
        )
    alone = classes[images < 2]
    if len(alone):
        warnings.warn(
            f"classes with fewer than two images have no hits, which come from other images: {_some(alone)}; their "
            "patches serve as misses alone",
            stacklevel=4,
        )


def _some(names: NDArray[Any]) -> str:
    return ", ".join(repr(name) for name in names[:5].tolist()) + (", ..." if len(names) > 5 else "")
