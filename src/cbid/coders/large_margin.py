"""What the image-level and the patch-level coder share: from rows to bits, weights and a fitted coder."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from cbid.checks import (
    as_random_state,
    check_bool,
    check_choice,
    check_integer,
    check_n_jobs,
    check_real,
    check_share,
    check_verbose,
)
from cbid.coders.hyperplane import MOST_BITS, HyperplaneCoder
from cbid.coders.learned import (
    DIAL,
    Learned,
    Shares,
    at_length,
    cut_dial,
    dial_lengths,
    has_dial,
    kept_lengths,
    public_weights,
)
from cbid.coders.mixins import check_arrays, check_indices
from cbid.coders.targets import Labels, level_ends
from cbid.learning.bits import SIGMOIDS, STARTS, Bit, BitSearch, TakenBits
from cbid.learning.column_generation import ClassRows, LikenessRows, Search, Setting, generate_bits
from cbid.learning.features import Anchors, ClassShares, Whitening, fit_anchors, fit_class_shares, fit_whitening
from cbid.learning.form import Form, choose_form
from cbid.learning.graph import Graph
from cbid.learning.label_scores import fit_label_scores
from cbid.learning.likeness import (
    LikenessSearch,
    difficulty,
    fit_likeness_axes,
    is_likeness_bit,
    likeness_rows,
    n_first_class_bits,
)
from cbid.learning.losses import make_loss
from cbid.learning.patches import RotatedBits
from cbid.learning.penalties import make_penalty
from cbid.learning.ridge import RidgeMap
from cbid.learning.rows import Rows, rows_of_drawn_pairs
from cbid.learning.scaling import centre
from cbid.learning.sides import WholeClassSides
from cbid.learning.weights import Problem, fit_weights
from cbid.progress import bit_progress, say
from cbid.storage.digests import new_digest
from cbid.storage.models import params_to_json

__all__ = ["MOST_BITS", "LargeMarginCoder", "LearningInterrupted", "WarmStartError"]

# Chosen on validation parts of the training sets; benchmarks/defaults_study.py compares nu with its neighbours.
_NU = 0.1
_LINEAR_COMPONENTS = 256
_LINEAR_WHITENING = 0.1  # the kernel's follows the number of samples
# Many directions for few samples need a larger ridge: (0.8 d / n)^2 within these limits; the kernel form the least,
# unless each sample is an anchor and a bit can follow every one of them.
_LEAST_RIDGE, _MOST_RIDGE = 1e-3, 0.03
_OWN_ANCHORS_RIDGE = 0.03
# Bits of the kernel form, if every sample is an anchor: any bit fits the training samples then, and its regression is
# the smoothest way to fit it. With classes, only where there are few axes for the samples.
_SMOOTHING, _SETS_SMOOTHING = 1e-3, 0.1
# With more classes than this, weights beside likeness are fitted to the means of classes. And the first bits are over
# the shares of the classes, if linear scores name at least this part of the classes that scores over similarities do.
_MANY_CLASSES, _LEAST_LINEAR = 32, 0.8
_SHARE_COMPONENTS = 512
# Below this many values a product is over before a second BLAS thread has started.
_VALUES_PER_THREAD = 2_000_000

# Rows of likeness ask for the margin _LIKENESS_UNIT (difference of the distances, in units of their mean) under
# weights that add up to about _LIKENESS_UNIT; _LIKENESS_SCALE is how sharply the loss tells such differences apart.
_LIKENESS_UNIT = 6.0
_LIKENESS_SCALE = 5.0
# A class row counts as much as so many rows of likeness: its loss falls to nearly nothing, theirs does not. Rows of
# drawn pairs are harder than those of means over classes.
_CLASS_ROW, _DRAWN_ROW = 1000.0, 300.0
_DEFAULT_LIKENESS = 0.5

Array = NDArray[np.floating]
RowMaker = Callable[[np.random.Generator, int], Rows]  # generator, threads -> rows


class WarmStartError(ValueError):
    """A warm start is impossible: the data or the settings changed since the last fit."""


class LearningInterrupted(UserWarning):
    """Learning was interrupted by Ctrl-C; the coder keeps the bits learned so far."""


class LargeMarginCoder(HyperplaneCoder):
    """Bits by column generation over rows that a subclass makes; parameters as documented in ``CBID``."""

    _ARRAYS = HyperplaneCoder._ARRAYS | {
        *("weights_", "path_", "objective_", "gap_", "dial_", "kinds_", "levels_"),
        *("class_mean_", "class_coef_", "class_intercept_"),
    }
    _VALUES = HyperplaneCoder._VALUES | {"nu_", "seed_", "problem_", "likeness_", "kernel_", "trial_error_"}

    # The parameters that bits and weights depend on, apart from their number and how they are searched for.
    _OF_THE_PROBLEM = frozenset({"loss", "penalty", "nu", "n_hits", "n_misses", "n_components", "max_rows"})

    _STARTS: tuple[str, ...] = STARTS

    likeness: float | None = 0.0
    kernel_: str

    def _check_params(self) -> None:
        check_integer("n_bits", self.n_bits, 1, MOST_BITS)
        make_loss(self.loss)
        make_penalty(self.penalty)
        if self.nu is not None:
            check_real("nu", self.nu, 0, open_below=True)
        check_integer("n_hits", self.n_hits, 1)
        check_integer("n_misses", self.n_misses, 1)
        if self.n_components is not None:
            check_integer("n_components", self.n_components, 1)
        for name in ("ridge", "whitening", "smoothing"):
            if getattr(self, name) is not None:
                check_real(name, getattr(self, name), 0)
        check_choice("sigmoid", self.sigmoid, SIGMOIDS)
        check_choice("starts", self.starts, self._STARTS)
        check_integer("n_starts", self.n_starts, 1)
        check_integer("n_climbs", self.n_climbs, 0)
        check_real("distinct", self.distinct, 0, 0.5)
        check_integer("max_rows", self.max_rows, 1)
        check_real("tol", self.tol, 0, open_below=True)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback={self.callback!r}: expected a function of the coder, or None")
        check_bool("warm_start", self.warm_start)
        check_verbose(self.verbose)
        check_n_jobs(self.n_jobs)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _seed(self) -> int:
        """Return the seed of everything drawn: that of the last fit on a warm start, else from ``random_state``."""
        if self.warm_start and hasattr(self, "coef_"):
            return int(self.seed_)
        return int(as_random_state(self.random_state).randint(2**31 - 1))

    def _learn(
        self,
        X: Array,
        make_rows: RowMaker | None,
        classes: NDArray[Any],
        given: NDArray[np.integer],
        seed: int,
        *,
        labels: NDArray[np.integer] | None = None,
        sets: csr_matrix | None = None,
        tree: Labels | None = None,
        extend: bool = False,
        **about: Any,
    ) -> Self:
        """Learn bits and weights on samples X (n, d) from rows about them.

        ``make_rows`` makes the class rows, about the samples with a label; None: there are none. ``given`` is what
        came with the samples (class numbers, or triplets): with X and the settings it makes the problem that a warm
        start must find unchanged. ``labels`` has a class number for each sample, or -1. ``sets`` (n, k) are the
        labels if there are several per sample. ``tree`` are the labels if they have one. ``extend`` keeps the bits
        that the coder has, whatever they were learned from. ``about`` are further attributes of the fitted coder.
        """
        problem_id = self._problem(X, given)
        resumed = extend or (self.warm_start and hasattr(self, "coef_"))
        if resumed and not extend:
            self._refuse_another(problem_id)
        nu = self.nu_ if resumed else self._effective_nu()
        share = self._effective_likeness(make_rows is not None, labels is not None)
        n_threads = effective_n_jobs(self.n_jobs)
        # One look at the libraries for all limits: it takes longer than a bit.
        limited = partial(ThreadpoolController().limit, user_api="blas")
        with limited(limits=1):  # two threads of LAPACK wait for each other and take several times as long as one
            form = self._form(X, labels, sets, seed, resumed, share)
            if labels is not None and sets is None and tree is None and 0 < share < 1:
                about["trial_error_"] = self._trial_error(X, labels, form, seed, resumed)
            hard = difficulty(about.get("trial_error_"))
            kinds = [is_likeness_bit(s, share, len(classes), hard) for s in range(self.n_bits)]
            if extend:
                kinds = self._extended_kinds(share, len(classes))
            rng = np.random.default_rng(seed)
            class_rows = make_rows(rng, n_threads) if make_rows is not None and share < 1 else None
            if class_rows is not None and not len(class_rows):
                raise ValueError("the samples compared with one sample are all equally similar: no row to learn from")
            coarser = []
            if tree is not None and class_rows is not None:  # comparisons of classes that are apart on a level
                own, other = class_rows.own, class_rows.other
                coarser = [class_rows.subset(level.nodes[own] != level.nodes[other]) for level in tree.coarser]
            ends = level_ends(self.n_bits - sum(kinds), tree.coarser) if tree is not None else []
            if extend and hasattr(self, "levels_"):
                about |= {"tree_": self.tree_, "levels_": np.append(self.levels_[:-1], self.n_bits)}
            if tree is not None:
                about |= {"tree_": tree.tree, "levels_": _level_prefixes(tree, ends, kinds)}
            anchors, whitening, F = self._fit_features(X, seed, form, resumed)
            labelled = np.flatnonzero(labels >= 0) if labels is not None and (labels < 0).any() else None
            drawn = None
            if class_rows is not None and tree is None and share > 0:
                drawn = _drawn_rows(class_rows, seed)
            shares_of = partial(_shares, class_row=_CLASS_ROW if drawn is None else _DRAWN_ROW)
            of_class, of_likeness = shares_of(share)
            alike = self._likeness_rows(X, F, whitening, labels, share, of_likeness, seed) if share > 0 else None
            about |= {"classes_": classes, "nu_": nu, "seed_": seed, "problem_": problem_id}
            about |= {"likeness_": share, "kernel_": form.kernel}
            likeness_mean = alike[1] if alike and any(kinds) else None
            shares = None
            if self._has_shares(form, class_rows, resumed):
                assert labels is not None
                shares = self._fit_shares(X, labels, tree, seed, extend)
            elif sets is not None and class_rows is not None:
                assert labels is not None
                shares = self._fit_scores(F, sets, labels, whitening, anchors, seed)
            mean = self.mean_ if extend else None
            learned = Learned(X, F, whitening, anchors, likeness_mean, about, mean, shares)
            if resumed:
                learned.recall(self, kinds[: self.n_bits_])
            by_class = None
            if class_rows is not None:
                with limited(limits=_blas_threads(n_threads, F.size)):
                    Z = whitening(F if labelled is None else F[labelled])
                ridge = self._effective_smoothing(F, form.kernel, whitening, sets is not None)
                smoothing = _smoothing_map(F if labelled is None else F[labelled], form.kernel, ridge)
                search = self._bit_search(Z, whitening, form.kernel, seed, smoothing)
                patient = isinstance(search, RotatedBits)
                by_class = ClassRows(class_rows, search, of_class, labelled, coarser, ends, patient, drawn=drawn)
                if shares is not None and not (extend and shares.of is not None):
                    first = self._share_search(shares, labelled, seed)
                    n_first = self.n_bits
                    if shares.of is not None:  # the bits of the coarse levels, and the first ones after them
                        n_first = max(ends, default=0) + n_first_class_bits(share)
                    by_class = replace(by_class, first=first, n_first=n_first)
            setting = Setting(
                margin=self.margin,
                loss=make_loss(self.loss),
                norm=make_penalty(self.penalty),
                nu=nu,
                tol=float(self.tol),
                distinct=float(self.distinct),
                seed=seed,
                n_threads=n_threads,
            )
            bits = generate_bits(
                by_class,
                alike[0] if alike else None,
                setting,
                kinds,
                n_samples=len(X),
                finish=learned.in_units_of_X,
                known=learned.values(),
                W=learned.weights(),
            )
            problem: Problem | None = None
            try:
                # The values were checked to be finite; AVX-512 kernels of OpenBLAS may raise the flag all the same.
                with (
                    bit_progress(self.n_bits, len(learned), shown=bool(self.verbose)) as progress,
                    np.errstate(invalid="ignore"),
                    limited(limits=1),  # many small products, in threads of our own
                ):
                    for bit, fit, problem in bits:
                        learned.add(bit, fit)
                        if len(learned) == self.n_bits or has_dial(len(learned)):
                            self._add_dial(learned, problem, shares_of)
                        progress(fit.objective, fit.gap)
                        if self.callback is not None:
                            learned.write_to(self)
                            self.callback(self)
            except KeyboardInterrupt:
                if not len(learned):
                    raise
                message = f"interrupted: the coder keeps the {len(learned)} bits learned so far"
                warnings.warn(message, LearningInterrupted, stacklevel=4)
            else:
                self._warn_of_early_end(len(learned), nu)
            if problem is not None and len(learned.dial) < len(dial_lengths(len(learned))):
                self._add_dial(learned, problem, shares_of)
        if not learned.path[-1].any():
            warnings.warn(
                f"every weight is zero at the optimum for nu={nu:g}: only plain Hamming distance tells codes apart; "
                "lower nu",
                stacklevel=4,
            )
        learned.write_to(self)
        self._warn_of_open_gaps()
        return self

    def _effective_likeness(self, has_rows: bool, has_labels: bool) -> float:
        """Return the share of likeness."""
        if self.margin != "shared" and self.likeness:
            raise ValueError(f"likeness={self.likeness!r}: expected 0 or None with margin={self.margin!r}")
        if not has_rows:
            if self.likeness == 0:
                raise ValueError("likeness=0: expected labels to learn from, or likeness above 0; y has none")
            if self.margin != "shared":
                raise ValueError(f"margin={self.margin!r}: expected labels to learn from, or 'shared'; y has none")
            return 1.0
        if self.margin != "shared":
            return 0.0
        if self.likeness and self.loss == "hinge":
            raise ValueError(f"likeness={self.likeness!r}: expected 0 or None with loss='hinge'")
        if self.likeness is None:
            # Triplets may speak of likeness themselves; thousands of rows are too many for a linear program, and a
            # loss of the user's own may not be defined at the margins that rows of likeness start from.
            mixed = has_labels and isinstance(self.loss, str) and self.loss != "hinge"
            return _DEFAULT_LIKENESS if mixed else 0.0
        return float(self.likeness)

    def _likeness_rows(
        self,
        X: Array,
        F: Array,
        whitening: Whitening,
        labels: NDArray[np.integer] | None,
        share: float,
        of_likeness: float,
        seed: int,
    ) -> tuple[LikenessRows, NDArray[np.float64]]:
        """Return rows of likeness with the search for their bits, and the mean of X around which these lie."""
        rng = np.random.default_rng([seed, MOST_BITS + 1])
        rows, far = likeness_rows(X, rng)
        if F is not X or whitening.basis.shape[1] < min(_LINEAR_COMPONENTS, *X.shape):
            whitening = fit_whitening(X, n_components=_LINEAR_COMPONENTS, ridge=0.0, random_state=seed)
        axes = fit_likeness_axes(X, whitening, labels)
        n_classes = int(labels.max()) + 1 if labels is not None else 0
        search = LikenessSearch(axes(X), axes.basis, rows, seed, n_classes, beside_class=share < 1)
        required = _LIKENESS_SCALE * _LIKENESS_UNIT * far
        return LikenessRows(rows, search, of_likeness, _LIKENESS_SCALE, required), axes.mean

    def _add_dial(
        self, learned: Learned, problem: Problem, shares_of: Callable[[float], tuple[float, float]]
    ) -> None:
        """Keep the weights of the present length at every point of the dial."""
        if not 0 < learned.about["likeness_"] < 1:
            return
        at = learned.about["likeness_"]
        *by_class, alike = problem.parts
        by_point = {at: learned.path[-1]}
        for point in sorted(set(DIAL) - {at}, key=lambda a: abs(a - at)):
            share, share_alike = shares_of(point)
            parts = [replace(part, share=share / len(by_class)) for part in by_class]
            parts.append(replace(alike, share=share_alike))
            nearest = by_point[min(by_point, key=lambda a: abs(a - point))]
            by_point[point] = fit_weights(replace(problem, parts=parts), nearest, tol=float(self.tol)).W
        learned.dial.append(np.hstack([by_point[point] for point in DIAL]))

    def weights_at(self, likeness: float) -> NDArray[np.float64]:
        """Return Hamming weights (n_bits_,) for a point between "same class" (0) and "looks alike" (1).

        They minimise (1 - likeness) times the class loss plus likeness times the likeness loss on the learned bits,
        interpolated between the points that were fitted. At ``likeness_`` they are ``weights_``. The same stored
        codes answer both questions: ``index.search(codes, weights=coder.weights_at(0.8))``.
        """
        check_is_fitted(self)
        check_share("likeness", likeness)
        if not hasattr(self, "dial_"):
            raise ValueError(
                f"likeness={likeness!r}: this coder has one set of weights; fit it with labels, margin='shared' and "
                "likeness between 0 and 1 to choose weights at query time"
            )
        nodes = {point: self.dial_[-self.n_bits_ :, place] for place, point in enumerate(DIAL)}
        nodes[float(self.likeness_)] = self.weights_
        points = sorted(nodes)
        above = int(np.searchsorted(points, likeness))
        if points[above] == likeness:
            return nodes[points[above]].copy()
        low, high = points[above - 1], points[above]
        t = (likeness - low) / (high - low)
        return (1 - t) * nodes[low] + t * nodes[high]

    def level_weights(self, level: int) -> NDArray[np.float64]:
        """Return weights (n_bits_,) for the question of one level of the tree: 0 is the coarsest, -1 the classes.

        They are those fitted at the prefix that serves the level (``levels_``), and zero after it. The same stored
        codes answer all levels: ``index.search(codes, weights=coder.level_weights(0))``.
        """
        check_is_fitted(self)
        if not hasattr(self, "levels_"):
            raise ValueError(f"level={level!r}: this coder has no levels; fit it with tree=")
        check_integer("level", level, -len(self.levels_), len(self.levels_) - 1)
        length = int(self.levels_[level])
        weights = np.zeros(self.n_bits_)
        weights[:length] = at_length(self.path_, self.n_bits_, length)[:, 0]
        return weights

    def _problem(self, X: Array, given: NDArray[np.integer]) -> dict[str, Any]:
        """What bits and weights depend on, apart from their number: settings by name, data by a digest."""
        settings = {name: value for name, value in params_to_json(self).items() if name in self._OF_THE_PROBLEM}
        digest = new_digest()
        for array in (X, given):
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return {**settings, "data": digest.hexdigest()}

    def _refuse_another(self, problem: dict[str, Any]) -> None:
        if self.n_bits < self.n_bits_:
            raise WarmStartError(f"warm_start=True goes on from {self.n_bits_} bits; n_bits={self.n_bits} is fewer")
        changed = [name for name, value in problem.items() if self.problem_.get(name) != value]
        if changed:
            raise WarmStartError(
                f"warm_start=True goes on with the same data and settings; changed since the last fit: "
                f"{', '.join(changed)}"
            )

    def _effective_nu(self) -> float:
        if self.nu is not None:
            return float(self.nu)
        # Even weights then cost the same under every norm.
        p = make_penalty(self.penalty).p
        return _NU / self.n_bits ** (1 / p)

    def _effective_ridge(self, n: int, whitening: Whitening, kernel: str, smooth: bool) -> float:
        if self.ridge is not None:
            return float(self.ridge)
        if kernel != "linear":
            return _OWN_ANCHORS_RIDGE if len(whitening.basis) >= n and not smooth else _LEAST_RIDGE
        return min(max((0.8 * whitening.basis.shape[1] / n) ** 2, _LEAST_RIDGE), _MOST_RIDGE)

    def _extended_kinds(self, likeness: float, n_classes: int) -> list[bool]:
        """Return the kinds of the bits so far and of those to come, which begin with the new classes."""
        old = getattr(self, "kinds_", np.zeros(self.n_bits_, dtype=np.int8)).astype(bool).tolist()
        new = max(n_classes - len(self.classes_), 0)
        return old + [is_likeness_bit(s, likeness, new) for s in range(self.n_bits - len(old))]

    def _form(
        self,
        X: Array,
        labels: NDArray[np.integer] | None,
        sets: csr_matrix | None,
        seed: int,
        resumed: bool,
        share: float,
    ) -> Form:
        """Return the form of class bits: the given one, that of the bits so far, or the better one on a trial."""
        if resumed:
            return Form(self.kernel_)
        if self.kernel != "auto":
            return Form(self.kernel or "linear")
        form = Form("linear")
        if labels is not None and share < 1:
            form = choose_form(X, labels, n_anchors=self.n_anchors, gamma=self.gamma, seed=seed, sets=sets)
        say(str(form), shown=bool(self.verbose))
        return form

    def _trial_error(
        self, X: Array, labels: NDArray[np.integer], form: Form, seed: int, resumed: bool
    ) -> float | None:
        """Return the share of held-out samples that a trial named wrongly; None if there were too few for one."""
        if resumed:
            return getattr(self, "trial_error_", None)
        scores = form.scores
        if self.kernel != "auto":
            scores = choose_form(X, labels, n_anchors=self.n_anchors, gamma=self.gamma, seed=seed).scores
        return 1 - scores.get(form.kernel, max(scores.values())) if scores else None

    def _fit_features(
        self, X: Array, seed: int, form: Form, resumed: bool
    ) -> tuple[Anchors | None, Whitening, Array]:
        """Return anchors (kernel form only), whitening, and the samples as hyperplanes see them."""
        anchors, F = None, X
        if form.kernel != "linear":
            if resumed:
                anchors = self._anchors()
            else:
                rng = np.random.default_rng([seed, MOST_BITS])  # not the generator of any bit
                anchors = fit_anchors(
                    X, n_anchors=self.n_anchors, gamma=self.gamma, width=form.width, rng=rng, kernel=form.kernel
                )
            F = anchors(X)
        ridge = _LINEAR_WHITENING if self.whitening is None and anchors is None else self.whitening
        n_components = self.n_components or (_LINEAR_COMPONENTS if anchors is None else len(anchors.points))
        whitening = fit_whitening(F, n_components=n_components, ridge=ridge, random_state=seed)
        return anchors, whitening, F

    def _has_shares(self, form: Form, rows: Rows | None, resumed: bool) -> bool:
        """Return whether the first bits are hyperplanes over the shares of the classes."""
        if resumed:
            return hasattr(self, "class_coef_")
        if not form.scores or rows is None or not isinstance(rows.misses, WholeClassSides):
            return False
        linear = form.scores["linear"] >= _LEAST_LINEAR * form.scores["rbf"]
        return linear and rows.n_classes > _MANY_CLASSES

    def _fit_shares(
        self, X: Array, labels: NDArray[np.integer], tree: Labels | None, seed: int, extend: bool
    ) -> Shares:
        """Return the shares of the classes, those of labelled samples as if they were new."""
        labelled = np.flatnonzero(labels >= 0)
        if extend:
            of = ClassShares(self.class_mean_, self.class_coef_, self.class_intercept_)
            values = of(X)
        else:
            n_components = self.n_components or _SHARE_COMPONENTS
            levels = [level.nodes for level in tree.coarser] if tree is not None else []
            of, left_out = fit_class_shares(
                X[labelled], labels[labelled], n_components=n_components, seed=seed, levels=levels
            )
            values = of(X) if len(labelled) < len(X) else left_out
            values[labelled] = left_out
        ridge = _LINEAR_WHITENING if self.whitening is None else self.whitening
        whitening = fit_whitening(values[labelled], n_components=_LINEAR_COMPONENTS, ridge=ridge, random_state=seed)
        return Shares(values, whitening, of)

    def _fit_scores(
        self,
        F: Array,
        sets: csr_matrix,
        labels: NDArray[np.integer],
        whitening: Whitening,
        anchors: Anchors | None,
        seed: int,
    ) -> Shares | None:
        """Return the scores of labels, those of labelled samples as if they were new; None if they say too little."""
        labelled = np.flatnonzero(labels >= 0)
        rng = np.random.default_rng([seed, MOST_BITS + 3])
        scores = fit_label_scores(F[labelled], sets[labelled], anchors, mean=whitening.mean, rng=rng)
        if not scores.suffice:
            return None
        if len(labelled) < len(F):
            values = ((F - whitening.mean.astype(F.dtype)) @ scores.basis.astype(F.dtype)).astype(np.float32)
            values[labelled] = scores.values
        else:
            values = scores.values
        ridge = _LINEAR_WHITENING if self.whitening is None else self.whitening
        over = fit_whitening(scores.values, n_components=_LINEAR_COMPONENTS, ridge=ridge, random_state=seed)
        return Shares(values, over, basis=scores.basis)

    def _share_search(self, shares: Shares, labelled: NDArray[np.integer] | None, seed: int) -> Search:
        """Return the search for bits over the shares of the classes, or the scores of labels."""
        values = shares.values if labelled is None else shares.values[labelled]
        smoothing = _smoothing_map(values, "linear", float(self.smoothing or 0))
        return _OverShares(self._bit_search(shares.whitening(values), shares.whitening, "linear", seed, smoothing))

    def _bit_search(
        self, Z: NDArray[np.float32], whitening: Whitening, kernel: str, seed: int, smoothing: RidgeMap | None
    ) -> BitSearch | RotatedBits:
        """Return the search for class bits over whitened features Z."""
        return BitSearch(
            Z,
            scale=whitening.scale,
            sigmoid=SIGMOIDS[self.sigmoid],
            ridge=self._effective_ridge(len(Z), whitening, kernel, smoothing is not None),
            starts=self.starts,
            n_starts=self.n_starts,
            n_climbs=self.n_climbs,
            smoothing=smoothing,
            n_threads=effective_n_jobs(self.n_jobs),
        )

    def _effective_smoothing(self, F: Array, kernel: str, whitening: Whitening, several: bool) -> float:
        if self.smoothing is not None:
            return float(self.smoothing)
        if kernel == "linear" or F.shape[1] < len(F):
            return 0.0
        if several:
            return _SETS_SMOOTHING
        return _SMOOTHING if whitening.few_axes else 0.0

    def _warn_of_early_end(self, n_bits: int, nu: float) -> None:
        if n_bits == self.n_bits:
            return
        if n_bits == 0:
            raise ValueError(
                f"no bit improves the objective at nu={nu:g}: every weight is zero at the optimum; lower nu"
            )
        cure = "penalty='linf' keeps on learning, or lower nu" if self.penalty == "l1" else "lower distinct, or nu"
        warnings.warn(
            f"learning ended at {n_bits} of n_bits={self.n_bits}: no further distinct bit improves the objective; "
            f"{cure}",
            stacklevel=5,
        )

    def _warn_of_open_gaps(self) -> None:
        relative = self.gap_ / np.abs(self.objective_)
        worst = int(relative.argmax())
        open_at = np.flatnonzero(relative > self.tol) + 1
        if len(open_at):
            warnings.warn(
                f"at {len(open_at)} of {self.n_bits_} lengths the weights stopped above tol={self.tol:g}, at a "
                f"relative duality gap of up to {relative[worst]:.2g} (length {worst + 1}); raise tol or nu",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _n_columns(self) -> int:
        """Return the number of columns that a hyperplane sees in the linear form."""
        return int(self.n_features_in_)

    def _project(self, X: Array) -> Array:
        if not hasattr(self, "class_coef_") and not (hasattr(self, "anchors_") and hasattr(self, "kinds_")):
            return super()._project(X)
        # Hyperplanes over several kinds of features, each row over one of them.
        kinds: list[tuple[int, Callable[[Array], Array]]] = [(X.shape[1], lambda X: X)]
        if hasattr(self, "anchors_"):
            beside = kinds if hasattr(self, "kinds_") else []
            kinds = [(len(self.anchors_), self._anchors()), *beside]
        if hasattr(self, "class_coef_"):
            of_class = ClassShares(self.class_mean_, self.class_coef_, self.class_intercept_)
            kinds.append((len(self.class_coef_), of_class))
        out = np.empty((len(X), self.n_bits_), dtype=X.dtype)
        out[:] = self.intercept_
        start = 0
        for width, features in kinds:
            columns = slice(start, start := start + width)
            rows = np.flatnonzero(self.coef_[:, columns].any(axis=1))
            if len(rows):
                coef, mean = self.coef_[rows][:, columns], self.mean_[columns]
                values = features(X)
                products = (values - mean.astype(values.dtype)) @ coef.T.astype(values.dtype)
                out[:, rows] = products + (self.intercept_[rows] + coef @ mean).astype(values.dtype)
        return out

    def _check_state(self) -> None:
        """All shapes tied to each other, as a file from elsewhere must show them."""
        t, m = self.n_bits_, len(self.mean_)
        check_integer("n_bits_", t, 1, MOST_BITS)
        columns = self.path_.shape[1] if self.path_.ndim == 2 else 0
        expected: dict[str, tuple[int, ...]] = {
            "coef_": (t, m),
            "intercept_": (t,),
            "objective_": (t,),
            "gap_": (t,),
            "mean_": (m,),
            "path_": (int(kept_lengths(t).sum()), columns),
            "weights_": (t,) if columns == 1 else (t, columns),
        }
        if not hasattr(self, "likeness_"):  # written by 0.1.0, which knew classes only
            self.likeness = self.likeness_ = 0.0
        forms = ("rbf", "laplacian") if hasattr(self, "anchors_") else ("linear",)
        if getattr(self, "kernel_", forms[0]) not in forms:
            raise ValueError(f"kernel_={self.kernel_!r}: expected {' or '.join(map(repr, forms))}")
        self.kernel_ = getattr(self, "kernel_", forms[0])  # 0.1.0 did not write it
        check_share("likeness_", self.likeness_)
        if hasattr(self, "kinds_"):
            check_indices(self, "kinds_", (t,), below=2)
        if hasattr(self, "levels_"):
            check_indices(self, "levels_", self.levels_.shape[:1], below=t + 1, least=1)
            if not self.levels_.size or (np.diff(self.levels_) < 0).any() or not hasattr(self, "tree_"):
                raise ValueError(f"levels_ is {self.levels_.tolist()}: expected ascending lengths, and a tree")
        if hasattr(self, "dial_"):
            expected["dial_"] = (int(dial_lengths(t).sum()), len(DIAL))
        n_shares = 0
        if hasattr(self, "class_coef_"):
            n_shares = len(self.class_coef_)
            if n_shares > len(self.classes_):  # classes that came later have none
                raise ValueError(f"class_coef_ has {n_shares} rows for {len(self.classes_)} classes")
            d = int(self.n_features_in_)
            expected |= {"class_mean_": (d,), "class_coef_": (n_shares, d), "class_intercept_": (n_shares,)}
        m -= n_shares
        if hasattr(self, "anchors_"):
            anchors = m - int(self.n_features_in_) if hasattr(self, "kinds_") else m
            expected["anchors_"] = (anchors, self.n_features_in_)
            check_real("gamma_", self.gamma_, 0, open_below=True)
        elif m != self._n_columns():
            raise ValueError(f"mean_ has {m} values for {self._n_columns()} columns")
        check_arrays(self, expected)
        if columns not in (1, len(self.classes_)) or (self.path_ < 0).any() or (self.weights_ < 0).any():
            raise ValueError("weights are non-negative, one vector or one for each class")

    def truncate(self, n_bits: int) -> Self:
        """Return a coder of the first ``n_bits`` bits with the weights fitted at that length."""
        check_is_fitted(self)
        check_integer("n_bits", n_bits, 1, self.n_bits_)
        path = np.concatenate([at_length(self.path_, self.n_bits_, s) for s in kept_lengths(n_bits)])
        by_bit = ("coef_", "intercept_", "objective_", "gap_", "kinds_")
        cut: dict[str, Any] = {name: getattr(self, name)[:n_bits] for name in by_bit if hasattr(self, name)}
        if hasattr(self, "levels_"):
            cut["levels_"] = np.minimum(self.levels_, n_bits)
        if hasattr(self, "dial_"):
            cut["dial_"] = cut_dial(self.dial_, self.n_bits_, n_bits)
        return self._cut(n_bits, {**cut, "path_": path, "weights_": public_weights(path[-n_bits:])})


def _blas_threads(n_threads: int, values: int) -> int:
    """Return how many BLAS threads pay for products with a matrix of so many values.

    On a busy machine they wait for each other and use the processor meanwhile, so each must have much to do.
    """
    return max(1, min(n_threads, values // (4 * _VALUES_PER_THREAD)))


def _smoothing_map(F: Array, kernel: str, ridge: float) -> RidgeMap | None:
    """Return the regression that smooths bits: on similarities, or on X with samples of unit mean squared length."""
    return RidgeMap(F, ridge, unit=1.0 if kernel != "linear" else centre(F).unit) if ridge else None


def _level_prefixes(tree: Labels, ends: list[int], kinds: list[bool]) -> NDArray[np.int64]:
    """Return the number of leading bits that serve each level of a tree, coarse to fine."""
    class_bits = np.flatnonzero(~np.array(kinds)) + 1  # the length of the code with each class bit
    lengths = [*(int(class_bits[end - 1]) for end in ends if end <= len(class_bits)), len(kinds)]
    return np.array([lengths[min(place, len(lengths) - 1)] for place in tree.asked], dtype=np.int64)


def _shares(likeness: float, class_row: float) -> tuple[float, float]:
    """Return what class rows and rows of likeness count for, which add up to one."""
    by_class = (1 - likeness) * class_row
    return by_class / (by_class + likeness), likeness / (by_class + likeness)


def _drawn_rows(rows: Rows, seed: int) -> Rows | None:
    """Return rows of drawn pairs in the place of rows of whole classes; None if there are no such pairs or rows.

    Of many classes, a pair drawn at random says too little: most other classes are far.
    """
    if not isinstance(rows.misses, WholeClassSides) or rows.n_classes > _MANY_CLASSES:
        return None
    rng = np.random.default_rng([seed, MOST_BITS + 4])
    drawn = rows_of_drawn_pairs(rows.misses.y, n_classes=rows.n_classes, rng=rng)
    return drawn if len(drawn) else None


class _OverShares:
    """A search whose bits are over the shares of the classes."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def best(self, graphs: Iterable[Graph], taken: TakenBits, rng: np.random.Generator) -> Bit | None:
        bit = self.search.best(graphs, taken, rng)
        return None if bit is None else replace(bit, shares=True)
