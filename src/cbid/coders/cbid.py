"""C-BID: large-margin learning of compact binary codes, the image-level form."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_bool, check_choice, check_integer, check_real, check_share
from cbid.coders.large_margin import MOST_BITS, LargeMarginCoder
from cbid.coders.targets import check_classes, check_indices_of, check_pairs, read_labels
from cbid.labels import check_labels
from cbid.learning.graded import TREE_UNIT, rows_from_label_sets, rows_from_pairs
from cbid.learning.losses import Loss
from cbid.learning.margins import MARGINS
from cbid.learning.neighbourhoods import find_neighbourhoods, of_unit_size
from cbid.learning.rows import Rows, rows_from_classes, rows_from_neighbourhoods, rows_from_triplets
from cbid.learning.spreading import spread_labels

__all__ = ["CBID"]


class CBID(LargeMarginCoder):
    """Binary codes and Hamming weights that know the class of a sample and what it looks like.

    Bits h(x) = sign(beta.x + b) come one at a time by column generation; after each, all non-negative weights are
    fitted again to a certified duality gap. Bits of class keep a sample nearer to its own class than to any other.
    Bits of likeness keep near samples near, also those of classes that were not learned.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code, 1 to 65536. Fewer come out when no further bit improves the objective.
    likeness : float from 0 to 1, or None, default=None
        0 learns the classes alone, 1 likeness alone, where labels only shape the axes; between them both, with more
        bits of likeness the larger it is. None means 0.5: the first 16 bits are spent on the classes; of 128 bits 57
        if there are ten classes, 114 if there are a hundred. Above 0 it needs ``margin="shared"``; with other
        margins, ``loss="hinge"`` or a loss of your own, None means 0.
    kernel : {"auto", "linear", "rbf", "laplacian"} or None, default="auto"
        Class bits are hyperplanes in X ("linear", or None), or over similarities to ``n_anchors`` training samples a
        with width ``gamma``: exp(-gamma ||x - a||^2) ("rbf") or exp(-gamma ||x - a||_1) ("laplacian"). "auto" chooses
        the form and the width on a trial inside the training samples ("laplacian" only with several labels per
        sample); with fewer than 100 samples, or without labels, it is linear. With more than 32 classes, "auto" also
        learns the first 16 class bits (with a tree: the first 16 after those of its coarse levels, and these) over
        the shares of the classes in a sample (linear discriminant analysis), unless that names the classes much
        worse. With several labels per sample, class bits are hyperplanes over ridge regressions of the similarity by
        labels, if these explain at least 0.4 of its variance. Bits of likeness are hyperplanes in X.
    verbose : int, default=0
        1 shows a progress bar.
    random_state : int, RandomState or None, default=0
        The same seed gives the same bits.

    margin : {"shared", "class", "paper", "database"}, default="shared"
        Whose weights measure a distance: one vector for all; the query's class; the paper's Eq. 3 (difference of the
        two classes' weights); the class of the stored item.
    loss : {"logistic", "exponential", "squared_hinge", "hinge"} or object, default="logistic"
        Convex loss of the margin; an object with ``value``, ``derivative`` and ``conjugate`` is a loss of your own.
    penalty : {"linf", "l1"}, float > 1 or object, default="linf"
        Norm of the weights; a number p is the l_p norm. "linf" has one level for each kind of bits. An object with
        ``value``, ``gradient``, ``dual`` and ``steepest`` is a norm of your own (see ``cbid.learning.penalties``).
    nu : float > 0 or None, default=None
        Weight of the penalty against the mean loss. None: 0.1, divided by n_bits^(1/p) under an l_p norm.
    hits : {"whole", "class", "nearest"}, default="whole"
    misses : {None, "class", "nearest", "overall"}, default=None
        What a sample is compared with: the whole of its own and of each other class; ``n_hits`` and ``n_misses``
        members drawn at random; or the nearest ones. Whole classes are the fastest by far and pull a class together;
        "nearest" keeps several modes of a class apart. ``misses=None`` follows ``hits``. "overall": the ``n_misses``
        nearest of all other classes together, compared on behalf of each of these classes.
    n_hits, n_misses : int, default=5
        How many members, if they are drawn or nearest.
    triplets : {"mean", "all"}, default="mean"
        One comparison per sample and other class, on mean distances; or one for every hit and miss.
    missing_label : object, default=None
        A label that marks samples without one, in addition to None, NaN and masked entries.
    spread_labels : bool, default=True
        Samples without a label get one that spreads from neighbour to neighbour, unless that finds hidden labels
        worse than the nearest labelled sample does. False: they take part in likeness alone.
    max_rows : int, default=2000000
        Most comparisons of a sample with a class that are kept; above it a random part of them is used.

    n_anchors : int, default=2000
    gamma : float > 0 or None, default=None
        The kernel's anchors and width. None: the inverse of the total variance of X ("laplacian": of the total
        mean absolute deviation); ``kernel="auto"`` also tries half and twice that.
    n_components : int or None, default=None
        Leading principal axes in which class bits are searched. None: 256, and all of them in the kernel form.
    whitening : float >= 0 or None, default=None
        Class bits are searched over principal axes divided by their deviations. Before that, this share of the
        typical variance is added to the variance of each, so axes of little more than noise stay small. None: 0.1;
        in the kernel form the least, from 1e-5 to 0.1, that leaves half as many axes as samples.
    ridge : float >= 0 or None, default=None
        Penalty on the squared length of beta, over those axes, during the search for a bit. None: (0.8 axes /
        samples)^2, but at least 1e-3 and at most 0.03; in the kernel form 0.03 with all samples as anchors and no
        smoothing, otherwise 1e-3.
    smoothing : float >= 0 or None, default=None
        Ridge of the regression of a bit's values on the similarities (linear form: on X, scaled to samples of unit
        mean squared length) whose hyperplane replaces the one found. 0: that one stays. None: 0, except in the
        kernel form with all samples as anchors; there 0.1 with several labels per sample, and with classes 1e-3 if
        ``whitening`` is None and its rule chose the least.
    sigmoid : {"arctan", "logistic", "tanh"}, default="arctan"
        Stand-in for the sign during the search.
    starts : {"pencil", "spectral", "random", "paper"}, default="pencil"
        Where the search for a bit starts: leading eigenvectors of the pairs' scatter against the total scatter, or of
        the pairs' scatter alone, or random directions, all at their best threshold; or, as in the paper, the best of
        many random hyperplanes.
    n_starts : int, default=12
    n_climbs : int, default=1
        How many starts are tried, and how many of the best are improved by L-BFGS.
    distinct : float in [0, 0.5), default=0
        Least share of training samples in which two bits must differ. Copies are always rejected.
    tol : float, default=1e-3
        Relative duality gap to which the weights are fitted.
    warm_start : bool, default=False
        Keep the bits of the last fit, on the same data, and add to them up to ``n_bits``.
    callback : callable or None, default=None
        Called with the coder after every bit; it may save it, or raise ``KeyboardInterrupt`` to stop.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn.

    Attributes
    ----------
    n_bits_ : int
    coef_, intercept_ : (n_bits_, d), (n_bits_,)
        Hyperplanes in the units of X, scaled so that the training samples' projections have unit deviation. Kernel
        form: over the similarities to ``anchors_``, followed by the columns of X if there are bits of likeness. With
        ``class_coef_``, the last columns are the shares of the classes.
    kernel_ : {"linear", "rbf", "laplacian"}
        The form of the class bits. Unless "linear", ``anchors_`` (m, d) and ``gamma_`` are anchors and width.
    class_coef_, class_intercept_, class_mean_ : (k, d), (k,), (d,)
        More than 32 classes only: the shares of the k classes that were learned first are the softmax of
        (x - class_mean_) . class_coef_ + class_intercept_.
    weights_ : (n_bits_,) or (n_bits_, n_classes)
    likeness_ : float
        The share of likeness that ``weights_`` were fitted for.
    kinds_ : (n_bits_,)
        1 for bits of likeness, 0 for bits of class; missing if all are bits of class.
    trial_error_ : float or None
        The share of held-out samples whose class a trial named wrongly: the fewer, the fewer class bits. None: too
        few samples for a trial. Missing without classes, and with a tree or several labels per sample.
    objective_, gap_ : (n_bits_,)
        Primal value and duality gap after each bit.
    classes_ : (n_classes,)
        The labels that at least one training sample has.
    levels_ : (n_levels,)
        Trees only: how many leading bits serve each level, from the coarsest to the classes.
    tree_ : LabelTree
        Trees only: the tree of the labels.

    See Also
    --------
    cbid.PatchCBID : The patch-level form, for bags of local descriptors.
    cbid.coders.ITQ : Codes without labels.
    cbid.CodeIndex : Exact search under the weights.

    References
    ----------
    S. Paisitkriangkrai, C. Shen, A. van den Hengel, "Large-margin learning of compact binary image encodings".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from cbid import CBID
    >>> X, y = load_digits(return_X_y=True)
    >>> coder = CBID(n_bits=16).fit(X, y)
    >>> coder.transform(X).shape, coder.encode(X).shape
    ((1797, 16), (1797, 2))
    """

    def __init__(
        self,
        *,
        n_bits: int = 64,
        margin: str = "shared",
        loss: str | Loss = "logistic",
        penalty: Any = "linf",
        nu: float | None = None,
        n_hits: int = 5,
        n_misses: int = 5,
        hits: str = "whole",
        misses: str | None = None,
        triplets: str = "mean",
        likeness: float | None = None,
        missing_label: Any = None,
        spread_labels: bool = True,
        kernel: str | None = "auto",
        n_anchors: int = 2000,
        gamma: float | None = None,
        n_components: int | None = None,
        whitening: float | None = None,
        ridge: float | None = None,
        smoothing: float | None = None,
        sigmoid: str = "arctan",
        starts: str = "pencil",
        n_starts: int = 12,
        n_climbs: int = 1,
        distinct: float = 0.0,
        max_rows: int = 2_000_000,
        tol: float = 1e-3,
        warm_start: bool = False,
        callback: Callable[["CBID"], None] | None = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.margin = margin
        self.loss = loss
        self.penalty = penalty
        self.nu = nu
        self.n_hits = n_hits
        self.n_misses = n_misses
        self.hits = hits
        self.misses = misses
        self.triplets = triplets
        self.likeness = likeness
        self.missing_label = missing_label
        self.spread_labels = spread_labels
        self.kernel = kernel
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.n_components = n_components
        self.whitening = whitening
        self.ridge = ridge
        self.smoothing = smoothing
        self.sigmoid = sigmoid
        self.starts = starts
        self.n_starts = n_starts
        self.n_climbs = n_climbs
        self.distinct = distinct
        self.max_rows = max_rows
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """The paper's own settings: Eq. 3, l_1, 25 triplets of nearest neighbours, random starts.

        docs/method.md, section 11, lists what differs from the text. Most of all: the paper adds the losses up where
        we average them, so nu is in other units; and random hyperplanes are drawn over at most 256 whitened principal
        axes, where the paper draws them over X.
        """
        settings: dict[str, Any] = {
            "margin": "paper",
            "loss": "logistic",
            "penalty": "l1",
            "nu": 1e-5,
            "n_hits": 5,
            "n_misses": 5,
            "hits": "nearest",
            "triplets": "all",
            "likeness": 0.0,
            "spread_labels": False,
            "kernel": "linear",
            "whitening": 1e-2,
            "ridge": 0.0,
            "starts": "paper",
            "n_starts": 200,
            "n_climbs": 1,
        }
        return cls(n_bits=n_bits, **{**settings, **changes})

    _OF_THE_PROBLEM = LargeMarginCoder._OF_THE_PROBLEM | {
        "margin",
        "hits",
        "misses",
        "triplets",
        "likeness",
        "missing_label",
        "kernel",
        "n_anchors",
        "gamma",
    }

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("margin", self.margin, MARGINS)
        check_choice("hits", self.hits, ("whole", "class", "nearest"))
        check_choice("misses", self.misses, (None, "class", "nearest", "overall"))
        check_choice("triplets", self.triplets, ("mean", "all"))
        if self.hits == "whole" and (self.misses is not None or self.triplets == "all"):
            raise ValueError(
                f"hits='whole' compares with whole classes; it takes misses=None and triplets='mean', not "
                f"misses={self.misses!r} and triplets={self.triplets!r}"
            )
        if self.likeness is not None:
            check_share("likeness", self.likeness)
        check_bool("spread_labels", self.spread_labels)
        check_choice("kernel", self.kernel, (None, "auto", "linear", "rbf", "laplacian"))
        check_integer("n_anchors", self.n_anchors, 1)
        if self.gamma is not None:
            check_real("gamma", self.gamma, 0, open_below=True)

    def check_params(self) -> None:
        """Raise a ValueError for settings that are wrong for any data. ``fit`` begins with this check."""
        self._check_params()

    def fit(self, X: ArrayLike, y: Any = None, *, tree: Any = None) -> Self:
        """Learn from vectors X (n, d) and labels y.

        Parameters
        ----------
        X : array (n, d)
        y : sequence of n labels, matrix (n, labels) of 0 and 1, sequence of n lists or sets of labels, or None
            Numbers, strings or any hashables. None, NaN, masked entries and ``missing_label`` mark samples without a
            label: see ``spread_labels``. Without y, likeness is all that is learned. A matrix, dense or
            sparse, or lists or sets give several labels per sample: the more of them two samples share, the nearer
            they should be.
        tree : str, mapping or None, default=None
            The tree of the labels: a separator for path labels ("/" for "animal/dog"), a mapping child -> parent, or
            a nested dict. The higher the lowest common ancestor of two classes, the larger the margin between them.
            The first bits tell the coarse groups apart: see ``levels_``.

        Returns
        -------
        self
        """
        return self._learn(**self._prepared(X, y, tree))

    def extend(self, X: ArrayLike, y: Any = None, *, n_bits: int) -> Self:
        """Append bits for new classes or more data; the bits so far stay as they are, byte for byte.

        Parameters
        ----------
        X, y
            Old and new samples together, as for ``fit``.
        n_bits : int
            Length of the code in all.

        Returns
        -------
        self
            With weights refitted for the whole code. Stored codes remain prefixes of the new ones: until they are
            encoded again, compare all on ``truncate(old length)``.
        """
        check_is_fitted(self)
        check_integer("n_bits", n_bits, self.n_bits_ + 1, MOST_BITS)
        if np.ndim(X) == 2 and np.shape(X)[1] != self.n_features_in_:
            raise ValueError(f"X has {np.shape(X)[1]} features: expected {self.n_features_in_}, as in the last fit")
        self.n_bits = n_bits
        prepared = self._prepared(X, y)
        if self.margin != "shared" and not np.array_equal(prepared["classes"], self.classes_):
            raise ValueError(
                f"y has the classes {prepared['classes'].tolist()}: with margin={self.margin!r}, where weights "
                f"belong to classes, expected {self.classes_.tolist()}, those of the last fit"
            )
        return self._learn(**prepared, extend=True)

    def _prepared(self, X: ArrayLike, y: Any, tree: Any = None) -> dict[str, Any]:
        """Return the arguments of ``_learn`` for samples and their labels."""
        self._check_params()
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        labels = read_labels(y, len(samples), self.missing_label, tree)
        seed = self._seed()
        if self.spread_labels and labels.sets is None and self.likeness != 1:
            rng = np.random.default_rng([seed, MOST_BITS + 2])
            threads = effective_n_jobs(self.n_jobs)
            labels = replace(labels, numbers=spread_labels(samples, labels.numbers, rng, n_threads=threads))
        labelled = np.flatnonzero(labels.numbers >= 0)
        numbers, sets = labels.numbers[labelled], labels.sets
        given = [labels.numbers]
        if sets is not None:
            self._check_shared("several labels per sample")
            if self.hits != "whole":
                raise ValueError(f"hits={self.hits!r}: expected 'whole' with several labels per sample")
            given += [sets.indptr, sets.indices]
        elif len(labelled):
            check_classes(labels.classes, numbers)
        if labels.shared is not None:
            self._check_shared("a tree")
            given.append((labels.shared * 1e6).astype(np.int64).ravel())

        def rows(rng: np.random.Generator, n_threads: int) -> Rows:
            if sets is not None:
                return rows_from_label_sets(sets[labelled], max_rows=self.max_rows, rng=rng)
            return self._class_rows(samples[labelled], numbers, labels.shared, rng, n_threads)

        return {
            "X": samples,
            "make_rows": rows if len(labelled) else None,
            "classes": labels.classes,
            "given": np.concatenate(given),
            "seed": seed,
            "labels": labels.numbers,
            "sets": sets,
            "tree": labels if labels.tree is not None else None,
        }

    def _class_rows(
        self,
        X: NDArray[Any],
        y: NDArray[np.integer],
        shared: NDArray[np.float64] | None,
        rng: np.random.Generator,
        n_threads: int,
    ) -> Rows:
        """Rows about samples of classes 0..k-1; ``shared`` (k, k) lowers the margins between related classes."""
        n_classes = int(y.max()) + 1
        if self.hits == "whole":
            rows = rows_from_classes(y, n_classes=n_classes, max_rows=self.max_rows, rng=rng)
        else:
            near = find_neighbourhoods(
                of_unit_size(X),
                y,
                n_hits=self.n_hits,
                n_misses=self.n_misses,
                hits=self.hits,
                misses=self.misses or self.hits,
                max_rows=self.max_rows,
                rng=rng,
                n_threads=n_threads,
            )
            rows = rows_from_neighbourhoods(near, y, triplets=self.triplets, n_classes=n_classes)
        return rows if shared is None else replace(rows, required=-TREE_UNIT * shared[rows.own, rows.other])

    def _check_shared(self, reason: str) -> None:
        if self.margin != "shared":
            raise ValueError(f"margin={self.margin!r}: expected 'shared' with {reason}")

    def fit_triplets(
        self,
        X: ArrayLike,
        anchors: ArrayLike,
        positives: ArrayLike,
        negatives: ArrayLike,
        *,
        classes: Any = None,
    ) -> Self:
        """Learn from ready-made triplets of row numbers of X: anchor, one to be near it, one to be further off.

        ``classes`` (n,) are labels of the samples, for a margin other than "shared": the weights of a class then
        measure the distances, as in ``fit``.
        """
        self._check_params()
        if self.margin != "shared" and classes is None:
            raise ValueError(f"margin={self.margin!r} needs classes: give fit_triplets classes=, or margin='shared'")
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        triplets = check_indices_of(
            len(samples), "triplets", anchors=anchors, positives=positives, negatives=negatives
        )
        names, numbers = (np.empty(0), None) if classes is None else check_labels(classes, len(samples))
        given = [*triplets] if numbers is None else [*triplets, numbers]
        return self._learn(
            samples,
            lambda rng, n_threads: rows_from_triplets(len(samples), *triplets, classes=numbers),
            classes=names,
            given=np.concatenate(given),
            seed=self._seed(),
        )

    def fit_pairs(self, X: ArrayLike, left: ArrayLike, right: ArrayLike, similarity: ArrayLike) -> Self:
        """Learn from pairs of samples of known similarity.

        Parameters
        ----------
        X : array (n, d)
        left, right : arrays (m,) of row numbers of X
            The two samples of each pair, in any order.
        similarity : array (m,)
            True or 1 for similar samples, False or 0 for others; or a grade from 0 to 1. Pairs of one sample are
            compared with each other: the more similar the nearer, by a margin that follows the difference.

        Returns
        -------
        self
        """
        self._check_params()
        self._check_shared("fit_pairs")
        samples: Any = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        low, high, grades = check_pairs(len(samples), left, right, similarity)

        def rows(rng: np.random.Generator, n_threads: int) -> Rows:
            return rows_from_pairs(len(samples), low, high, grades, max_rows=self.max_rows, rng=rng)

        return self._learn(
            samples,
            rows,
            classes=np.empty(0),  # pairs know none
            given=np.concatenate([low, high, (grades * 1e9).astype(np.int64)]),
            seed=self._seed(),
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
