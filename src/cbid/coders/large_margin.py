"""What the image-level and the patch-level coder share: from rows to bits, weights and a fitted coder."""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from cbid.checks import (
    as_random_state,
    check_bool,
    check_choice,
    check_integer,
    check_n_jobs,
    check_real,
    check_verbose,
)
from cbid.coders.base import Coder
from cbid.coders.path import at_length, is_kept, kept_lengths
from cbid.learning.bits import STARTS, Bit, BitSearch
from cbid.learning.centring import centre
from cbid.learning.column_generation import Setting, generate_bits
from cbid.learning.features import Anchors, Whitening, fit_anchors, fit_whitening
from cbid.learning.losses import make_loss
from cbid.learning.penalties import make_penalty
from cbid.learning.ridge import RidgeMap
from cbid.learning.rows import Rows
from cbid.learning.sigmoids import SIGMOIDS
from cbid.progress import bit_progress
from cbid.storage.digests import new_digest
from cbid.storage.models import params_to_json

__all__ = ["LargeMarginCoder", "LearningInterrupted", "WarmStartError"]

MOST_BITS = 65_536

# Chosen on validation parts of the training sets; benchmarks/defaults_study.py holds nu against its neighbours.
_NU = 0.1
_LINEAR_COMPONENTS = 256
_WHITENING = {None: 0.1, "rbf": 1e-4}  # by form: the kernel's spectrum falls off faster
# Many directions for few samples want a larger ridge: (0.8 d / n)^2 within these limits; the kernel form the least.
_LEAST_RIDGE, _MOST_RIDGE = 1e-3, 0.03

Array = NDArray[np.floating]
RowMaker = Callable[[np.random.Generator, int], Rows]  # generator, threads -> rows


class WarmStartError(ValueError):
    """A warm start is impossible: the data or the settings changed since the last fit."""


class LearningInterrupted(UserWarning):
    """Learning was interrupted by Ctrl-C; the coder keeps the bits learned so far."""


class LargeMarginCoder(Coder):
    """Bits by column generation over rows that a subclass makes; parameters as documented in ``CBID``."""

    _ARRAYS = frozenset({"coef_", "intercept_", "weights_", "path_", "objective_", "gap_", "mean_", "anchors_"})
    _VALUES = frozenset({"n_bits_", "n_features_in_", "feature_names_in_", "nu_", "gamma_", "seed_", "problem_"})

    # The parameters that bits and weights depend on, apart from their number and how they are searched for.
    _OF_THE_PROBLEM = frozenset({"loss", "penalty", "nu", "n_hits", "n_misses", "n_components", "max_rows"})

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
        for name in ("ridge", "whitening"):
            if getattr(self, name) is not None:
                check_real(name, getattr(self, name), 0)
        check_real("smoothing", self.smoothing, 0)
        check_choice("sigmoid", self.sigmoid, SIGMOIDS)
        check_choice("starts", self.starts, STARTS)
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
        """The seed of all that is drawn: that of the last fit when it is gone on with, else from ``random_state``."""
        if self.warm_start and hasattr(self, "coef_"):
            return int(self.seed_)
        return int(as_random_state(self.random_state).randint(2**31 - 1))

    def _learn(
        self,
        X: Array,
        make_rows: RowMaker,
        classes: NDArray[Any],
        told: NDArray[np.integer],
        seed: int,
        **about: Any,
    ) -> Self:
        """Learn bits and weights on samples X (n, d) from rows about them.

        ``told`` is what was said of the samples (class numbers, or triplets): with X and the settings it makes the
        problem that a warm start must find unchanged. ``about`` are further attributes of the fitted coder.
        """
        problem = self._problem(X, told)
        going_on = self.warm_start and hasattr(self, "coef_")
        if going_on:
            self._refuse_another(problem)
        nu = self.nu_ if going_on else self._effective_nu()
        n_threads = effective_n_jobs(self.n_jobs)
        # Many small products: BLAS threads beyond those asked for would only wait for each other.
        with threadpool_limits(n_threads, user_api="blas"):
            rows = make_rows(np.random.default_rng(seed), n_threads)
            anchors, whitening, F = self._fit_features(X, seed)
            about |= {"classes_": classes, "nu_": nu, "seed_": seed, "problem_": problem}
            learned = _Learned(F, whitening, anchors, about)
            if going_on:
                learned.recall(self)
            Z = whitening(F)
            search = BitSearch(
                Z,
                scale=whitening.scale,
                sigmoid=SIGMOIDS[self.sigmoid],
                ridge=self._effective_ridge(*Z.shape),
                starts=self.starts,
                n_starts=self.n_starts,
                n_climbs=self.n_climbs,
                smoothing=self._smoothing(F),
            )
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
                rows,
                search,
                setting,
                self.n_bits,
                finish=learned.in_units_of_X,
                known=learned.values(),
                W=learned.weights(),
            )
            try:
                with bit_progress(self.n_bits, len(learned), shown=bool(self.verbose)) as progress:
                    for bit, fit in bits:
                        learned.add(bit, fit.W, fit.objective, fit.gap)
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
                self._tell_of_early_end(len(learned), nu)
        if not learned.path[-1].any():
            warnings.warn(
                f"every weight is zero at the optimum for nu={nu:g}: only plain Hamming distance tells codes apart; "
                "lower nu",
                stacklevel=4,
            )
        learned.write_to(self)
        self._tell_of_open_gaps()
        return self

    def _problem(self, X: Array, told: NDArray[np.integer]) -> dict[str, Any]:
        """What bits and weights depend on, apart from their number: settings by name, data by a digest."""
        settings = {name: value for name, value in params_to_json(self).items() if name in self._OF_THE_PROBLEM}
        digest = new_digest()
        for array in (X, told):
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

    def _effective_ridge(self, n: int, d: int) -> float:
        if self.ridge is not None:
            return float(self.ridge)
        wanted = 0.0 if self.kernel else (0.8 * d / n) ** 2
        return min(max(wanted, _LEAST_RIDGE), _MOST_RIDGE)

    def _fit_features(self, X: Array, seed: int) -> tuple[Anchors | None, Whitening, Array]:
        """Anchors (kernel form only), whitening, and the samples as hyperplanes will see them."""
        anchors, F = None, X
        if self.kernel == "rbf":
            rng = np.random.default_rng([seed, MOST_BITS])  # not the generator of any bit
            anchors = fit_anchors(X, n_anchors=self.n_anchors, gamma=self.gamma, rng=rng)
            F = anchors(X)
        ridge = _WHITENING[self.kernel] if self.whitening is None else float(self.whitening)
        n_components = self.n_components or (self.n_anchors if self.kernel else _LINEAR_COMPONENTS)
        whitening = fit_whitening(F, n_components=n_components, ridge=ridge, random_state=seed)
        return anchors, whitening, F

    def _smoothing(self, F: Array) -> RidgeMap | None:
        """The regression that smooths bits: on similarities, or on X with samples of unit mean squared length."""
        if not self.smoothing:
            return None
        return RidgeMap(F, float(self.smoothing), unit=1.0 if self.kernel else centre(F).unit)

    def _tell_of_early_end(self, n_bits: int, nu: float) -> None:
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

    def _tell_of_open_gaps(self) -> None:
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
        """Columns that a hyperplane sees in the linear form."""
        return int(self.n_features_in_)

    def _width(self) -> int:
        return max(super()._width(), self.coef_.shape[1])  # in the kernel form, the anchors

    def _project(self, X: Array) -> Array:
        if hasattr(self, "anchors_"):
            X = Anchors(self.anchors_, self.gamma_)(X)
        # Around the mean, where float32 has its digits.
        offset = self.intercept_ + self.coef_ @ self.mean_
        return (X - self.mean_.astype(X.dtype)) @ self.coef_.T.astype(X.dtype) + offset.astype(X.dtype)

    def _check_state(self) -> None:
        """All shapes tied to each other, as a file from elsewhere must show them."""
        t, m = self.n_bits_, len(self.mean_)
        check_integer("n_bits_", t, 1, MOST_BITS)
        columns = self.path_.shape[1] if self.path_.ndim == 2 else 0
        expected = {
            "coef_": (t, m),
            "intercept_": (t,),
            "objective_": (t,),
            "gap_": (t,),
            "mean_": (m,),
            "path_": (int(kept_lengths(t).sum()), columns),
            "weights_": (t,) if columns == 1 else (t, columns),
        }
        if hasattr(self, "anchors_"):
            expected["anchors_"] = (m, self.n_features_in_)
            check_real("gamma_", self.gamma_, 0, open_below=True)
        elif m != self._n_columns():
            raise ValueError(f"mean_ has {m} values for {self._n_columns()} columns")
        for name, shape in expected.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype.kind != "f":
                raise ValueError(f"{name} is {array.dtype} {array.shape}; it must be real, {shape}")
        if columns not in (1, len(self.classes_)) or (self.path_ < 0).any() or (self.weights_ < 0).any():
            raise ValueError("weights are non-negative, one vector or one for each class")

    def truncate(self, n_bits: int) -> Self:
        """A coder of the first ``n_bits`` bits with the weights fitted at that length."""
        check_is_fitted(self)
        check_integer("n_bits", n_bits, 1, self.n_bits_)
        path = np.concatenate([at_length(self.path_, self.n_bits_, s) for s in kept_lengths(n_bits)])
        cut: dict[str, Any] = {
            name: getattr(self, name)[:n_bits] for name in ("coef_", "intercept_", "objective_", "gap_")
        }
        return self._cut(n_bits, {**cut, "path_": path, "weights_": _as_public(path[-n_bits:])})


class _Learned:
    """Bits in the units of X (or of the anchors' similarities), as they come in."""

    def __init__(self, F: Array, whitening: Whitening, anchors: Anchors | None, about: dict[str, Any]) -> None:
        self.whitening, self.anchors, self.about = whitening, anchors, about
        self.centred = F - whitening.mean.astype(F.dtype)
        self.coef: list[NDArray[np.float64]] = []
        self.offset: list[float] = []
        self.path: list[NDArray[np.float64]] = []
        self.objective: list[float] = []
        self.gap: list[float] = []

    def __len__(self) -> int:
        return len(self.coef)

    def in_units_of_X(self, bit: Bit) -> Bit:
        """The bit over centred F, scaled to projections of unit deviation, with its values there."""
        coef = self.whitening.fold(bit.beta) if bit.whitened else bit.beta
        spread = float(np.std(self.centred @ coef.astype(self.centred.dtype), dtype=np.float64))
        coef, offset = coef / spread, bit.intercept / spread
        return Bit(coef, offset, self._values(coef, offset), bit.value)

    def _values(self, coef: NDArray[np.float64], offset: float) -> NDArray[np.float32]:
        dtype = self.centred.dtype
        projection = self.centred @ coef.astype(dtype) + dtype.type(offset)
        return np.where(projection >= 0, np.float32(1), np.float32(-1))

    def add(self, bit: Bit, W: NDArray[np.float64], objective: float, gap: float) -> None:
        if self.path and not is_kept(len(self)):
            self.path.pop()  # it was the last, kept for that alone
        self.coef.append(bit.beta)
        self.offset.append(bit.intercept)
        self.path.append(W)
        self.objective.append(objective)
        self.gap.append(gap)

    def values(self) -> list[NDArray[np.float32]]:
        return [self._values(coef, offset) for coef, offset in zip(self.coef, self.offset)]

    def weights(self) -> NDArray[np.float64] | None:
        return self.path[-1] if self.path else None

    def recall(self, coder: LargeMarginCoder) -> None:
        """Take up the bits of a fitted coder."""
        self.coef = list(coder.coef_)
        self.offset = list(coder.intercept_ + coder.coef_ @ self.whitening.mean)
        self.path = [at_length(coder.path_, coder.n_bits_, s) for s in kept_lengths(coder.n_bits_)]
        self.objective, self.gap = list(coder.objective_), list(coder.gap_)

    def write_to(self, coder: LargeMarginCoder) -> None:
        for name, value in self.about.items():
            setattr(coder, name, value)
        coder.n_bits_ = len(self)
        coder.mean_ = self.whitening.mean
        coder.coef_ = np.array(self.coef)
        coder.intercept_ = np.array(self.offset) - coder.coef_ @ self.whitening.mean
        if self.anchors is not None:
            coder.anchors_, coder.gamma_ = self.anchors.points, self.anchors.gamma
        elif hasattr(coder, "anchors_"):  # of an earlier fit
            del coder.anchors_, coder.gamma_
        coder.path_ = np.concatenate(self.path)
        coder.weights_ = _as_public(self.path[-1])
        coder.objective_, coder.gap_ = np.array(self.objective), np.array(self.gap)


def _as_public(W: NDArray[np.float64]) -> NDArray[np.float64]:
    """(t,) for one weight vector, (t, n_classes) for one per class."""
    return W[:, 0].copy() if W.shape[1] == 1 else W.copy()
