"""What learning has found so far, and the weights kept for every length of the code."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbid.learning.bits import Bit
from cbid.learning.features import Anchors, ClassShares, Whitening
from cbid.learning.weights import WeightFit

__all__ = [
    "DIAL",
    "Learned",
    "Shares",
    "at_length",
    "cut_dial",
    "dial_lengths",
    "has_dial",
    "kept_lengths",
    "public_weights",
]

Array = NDArray[np.floating]
Vector = NDArray[np.float64]

# Weights of all lengths up to here are kept; beyond, every 64th and the last. 65,536 bits would else take 16 GB.
_ALL_UP_TO = 1024
_STEP = 64

# Points between "same class" (0) and "looks alike" (1) whose weights are kept, and the lengths they are kept for.
DIAL = (0.0, 0.25, 0.5, 0.75, 1.0)
_SHORTEST_DIAL = 16


def _is_kept(length: int) -> bool:
    return length <= _ALL_UP_TO or length % _STEP == 0


def kept_lengths(n_bits: int) -> NDArray[np.int64]:
    """Return the lengths whose weights are kept for a code of ``n_bits``, ascending."""
    return np.array([s for s in range(1, n_bits + 1) if _is_kept(s) or s == n_bits], dtype=np.int64)


def has_dial(length: int) -> bool:
    """Return whether the dial of this length is kept in the middle of a fit."""
    return length >= _SHORTEST_DIAL and length.bit_count() == 1


def dial_lengths(n_bits: int) -> NDArray[np.int64]:
    """Return the lengths whose dial is kept for a code of ``n_bits``, ascending: 16, 32, 64, ... and the last."""
    return np.array([s for s in range(1, n_bits + 1) if has_dial(s) or s == n_bits], dtype=np.int64)


def at_length(path: NDArray[np.float64], n_bits: int, length: int) -> NDArray[np.float64]:
    """Return weights (length, n_weights) out of all kept ones laid end to end, (sum of kept lengths, n_weights)."""
    lengths = kept_lengths(n_bits)
    place = int(np.searchsorted(lengths, length))
    if place == len(lengths) or lengths[place] != length:
        raise ValueError(
            f"n_bits={length}: weights are kept for all lengths up to {min(n_bits, _ALL_UP_TO)}"
            + (f", then every {_STEP}th up to {n_bits}" if n_bits > _ALL_UP_TO else "")
        )
    end = int(lengths[: place + 1].sum())
    return path[end - length : end]


def cut_dial(dial: NDArray[np.float64], n_bits: int, length: int) -> NDArray[np.float64]:
    """Return the dial of a prefix: kept lengths as they are, and ``length`` itself from the next longer one kept."""
    lengths = dial_lengths(n_bits)
    ends = np.cumsum(lengths)
    pieces = []
    for wanted in dial_lengths(length):
        place = int(np.searchsorted(lengths, wanted))
        start = int(ends[place] - lengths[place])
        pieces.append(dial[start : start + int(wanted)])
    return np.concatenate(pieces)


def public_weights(W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (t,) for one weight vector, (t, n_classes) for one per class."""
    return W[:, 0].copy() if W.shape[1] == 1 else W.copy()


class _Fitted(Protocol):
    n_bits_: int
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    path_: NDArray[np.float64]
    objective_: NDArray[np.float64]
    gap_: NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Shares of the classes in the training samples: values (n, k), their whitening, and how they are made.

    Or scores of labels, (F - mean) @ basis around the mean of the features F: bits over them are bits over F.
    """

    values: NDArray[np.float32]
    whitening: Whitening
    of: ClassShares | None = None
    basis: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class _Features:
    """What the hyperplanes of one kind of bits see: values around their mean, and the columns they have in all.

    shift : mean of the samples that a bit was found around, less the mean here
    basis, constant : scores of labels only: (m, k) and (k,), scores are (columns - mean) @ basis + constant
    """

    centred: Array
    mean: Vector
    shift: Vector
    columns: slice
    basis: NDArray[np.float64] | None = None
    constant: Vector | None = None

    @classmethod
    def around(cls, values: Array, found_at: Vector, mean: Vector, first: int) -> "_Features":
        columns = slice(first, first + len(mean))
        return cls(values - mean.astype(values.dtype), mean, found_at - mean, columns)

    @classmethod
    def of_scores(cls, scores: Shares, of: "_Features") -> "_Features":
        """Scores of labels around their mean, made of the features ``of``."""
        assert scores.basis is not None
        middle = scores.whitening.mean
        constant = -(middle + of.shift @ scores.basis)
        centred = scores.values - middle.astype(scores.values.dtype)
        return cls(centred, of.mean, np.zeros_like(middle), of.columns, scores.basis, constant)

    def over_columns(self, coef: Vector, offset: float) -> tuple[Vector, float]:
        """Return a hyperplane over the columns, around their mean."""
        if self.basis is None or self.constant is None:
            return coef, offset
        return self.basis @ coef, offset + float(coef @ self.constant)

    def over_scores(self, coef: Vector, offset: float) -> tuple[Vector, float] | None:
        """Return a hyperplane over the scores of labels, from one over the columns; None if it is none."""
        if self.basis is None or self.constant is None:
            return None
        found = np.asarray(np.linalg.lstsq(self.basis, coef)[0], dtype=np.float64)
        if np.linalg.norm(self.basis @ found - coef) > _SAME * np.linalg.norm(coef):
            return None
        return found, offset - float(found @ self.constant)


# Kinds of bits by what they see: X or similarities to anchors, X together with such similarities, shares of the
# classes, scores of labels.
_BY_CLASS, _BY_LIKENESS, _BY_SHARES, _BY_SCORES = 0, 1, 2, 3
# A hyperplane is over scores if it differs from one by no more than this.
_SAME = 1e-6


class Learned:
    """Bits in the units of X, or of the similarities to the anchors followed by X, as given to ``project``.

    Hyperplanes are rows over [F, X, shares]: X only in the kernel form with bits of likeness (F is X in the linear
    form), shares of the classes only if there are any.
    """

    def __init__(
        self,
        X: Array,
        F: Array,
        whitening: Whitening,
        anchors: Anchors | None,
        likeness_mean: NDArray[np.float64] | None,
        about: dict[str, Any],
        mean: NDArray[np.float64] | None = None,
        shares: Shares | None = None,
    ) -> None:
        """``mean`` is what hyperplanes lie around, if not the mean of the samples: that of a coder to be extended."""
        self.whitening, self.anchors, self.about, self.shares = whitening, anchors, about, shares
        m, d = F.shape[1], X.shape[1]
        k = 0 if shares is None or shares.of is None else shares.values.shape[1]
        by_class = _Features.around(F, whitening.mean, whitening.mean if mean is None else mean[:m], 0)
        self.features = {_BY_CLASS: by_class, _BY_LIKENESS: by_class}
        width = m
        if likeness_mean is not None:
            if anchors is not None:
                known = mean is not None and len(mean) == m + d + k
                mean_X = mean[m : m + d] if mean is not None and known else likeness_mean
                self.features[_BY_LIKENESS] = _Features.around(X, likeness_mean, mean_X, m)
                width += d
            else:
                self.features[_BY_LIKENESS] = replace(by_class, shift=likeness_mean - by_class.mean)
        if shares is not None and shares.of is None:
            self.features[_BY_SCORES] = _Features.of_scores(shares, by_class)
        elif shares is not None:
            middle = shares.whitening.mean if mean is None else mean[len(mean) - k :]
            self.features[_BY_SHARES] = _Features.around(shares.values, shares.whitening.mean, middle, width)
        of_columns = {part.columns.start: part.mean for part in self.features.values()}
        self.mean = np.concatenate([of_columns[start] for start in sorted(of_columns)])
        self.coef: list[NDArray[np.float64]] = []
        self.offset: list[float] = []
        self.kinds: list[int] = []
        self.recalled: dict[int, tuple[Vector, float]] = {}  # hyperplanes over the columns, of bits over scores
        self.path: list[NDArray[np.float64]] = []
        self.dial: list[NDArray[np.float64]] = []
        self.objective: list[float] = []
        self.gap: list[float] = []

    def __len__(self) -> int:
        return len(self.coef)

    def in_units_of_X(self, bit: Bit) -> Bit:
        """Return the bit over centred features, scaled to projections of unit deviation, with its values there."""
        kind = self._kind(bit)
        whitening = self.shares.whitening if self.shares is not None and bit.shares else self.whitening
        coef = whitening.fold(bit.beta) if bit.whitened else bit.beta
        part = self.features[kind]
        spread = float(np.std(part.centred @ coef.astype(part.centred.dtype), dtype=np.float64)) or 1.0
        offset = (bit.intercept - float(coef @ part.shift)) / spread
        coef = coef / spread
        return replace(bit, beta=coef, intercept=offset, h=self._values(coef, offset, kind), whitened=False)

    def _values(self, coef: NDArray[np.float64], offset: float, kind: int) -> NDArray[np.float32]:
        features = self.features[kind].centred
        projection = features @ coef.astype(features.dtype) + features.dtype.type(offset)
        return np.where(projection >= 0, np.float32(1), np.float32(-1))

    def _kind(self, bit: Bit) -> int:
        """Return the kind of a bit by what it sees."""
        if bit.shares:
            return _BY_SHARES if _BY_SHARES in self.features else _BY_SCORES
        return _BY_LIKENESS if bit.likeness else _BY_CLASS

    def add(self, bit: Bit, fit: WeightFit) -> None:
        """Keep a bit and the weights fitted with it."""
        if self.path and not _is_kept(len(self)):
            self.path.pop()  # it was the last, kept for that alone
        self.coef.append(bit.beta)
        self.offset.append(bit.intercept)
        self.kinds.append(self._kind(bit))
        self.path.append(fit.W)
        self.objective.append(fit.objective)
        self.gap.append(fit.gap)

    def values(self) -> list[NDArray[np.float32]]:
        """Return the values of all bits on the training samples."""
        return [self._values(*bit) for bit in zip(self.coef, self.offset, self.kinds)]

    def weights(self) -> NDArray[np.float64] | None:
        """Return the weights of the present length."""
        return self.path[-1] if self.path else None

    def recall(self, coder: _Fitted, kinds: list[bool]) -> None:
        """Take over the bits of a fitted coder."""
        m, width = self.features[_BY_CLASS].columns.stop, coder.coef_.shape[1]
        k = self.shares.values.shape[1] if _BY_SHARES in self.features and self.shares is not None else 0
        d = self.features[_BY_LIKENESS].centred.shape[1]
        places = {
            _BY_CLASS: slice(0, m),
            _BY_LIKENESS: slice(width - k - d, width - k),
            _BY_SHARES: slice(width - k, width),
        }
        for row, b, of_likeness in zip(coder.coef_, coder.intercept_, kinds):
            of_shares = k > 0 and bool(row[width - k :].any())
            kind = _BY_LIKENESS if of_likeness else _BY_SHARES if of_shares else _BY_CLASS
            coef = row[places[kind]]
            offset = float(b + coef @ self.features[kind].mean)
            scores = self.features[_BY_SCORES].over_scores(coef, offset) if _BY_SCORES in self.features else None
            if scores is not None and not of_likeness:
                self.recalled[len(self.coef)] = coef, offset
                kind, (coef, offset) = _BY_SCORES, scores
            self.coef.append(coef)
            self.offset.append(offset)
            self.kinds.append(kind)
        self.path = [at_length(coder.path_, coder.n_bits_, s) for s in kept_lengths(coder.n_bits_)]
        self.objective, self.gap = list(coder.objective_), list(coder.gap_)
        dial = getattr(coder, "dial_", None)
        if dial is not None:
            lengths = dial_lengths(coder.n_bits_)
            self.dial = np.split(dial, np.cumsum(lengths)[:-1])
            if not has_dial(coder.n_bits_):
                self.dial.pop()  # it was the last, kept for that alone

    def write_to(self, coder: Any) -> None:
        """Set the attributes of a fitted coder."""
        for name, value in self.about.items():
            setattr(coder, name, value)
        t = len(self)
        coder.n_bits_ = t
        coder.mean_ = self.mean
        coder.coef_ = np.zeros((t, len(self.mean)))
        coder.intercept_ = np.empty(t)
        for s, (coef, offset, kind) in enumerate(zip(self.coef, self.offset, self.kinds)):
            part = self.features[kind]
            known = self.recalled.get(s)
            coder.coef_[s, part.columns], coder.intercept_[s] = known or part.over_columns(coef, offset)
        coder.intercept_ -= coder.coef_ @ self.mean
        of_shares = ("class_mean_", "class_coef_", "class_intercept_")
        for name in ("anchors_", "gamma_", "dial_", "kinds_", *of_shares):  # of an earlier fit
            if hasattr(coder, name):
                delattr(coder, name)
        for name in ("levels_", "tree_"):
            if name not in self.about and hasattr(coder, name):
                delattr(coder, name)
        if "levels_" in self.about:
            coder.levels_ = np.minimum(self.about["levels_"], t)
        if self.anchors is not None:
            coder.anchors_, coder.gamma_ = self.anchors.points, self.anchors.gamma
        if self.shares is not None and self.shares.of is not None:
            of = self.shares.of
            coder.class_mean_, coder.class_coef_, coder.class_intercept_ = of.mean, of.coef, of.intercept
        if _BY_LIKENESS in self.kinds:
            coder.kinds_ = (np.array(self.kinds) == _BY_LIKENESS).astype(np.int8)
        if sum(map(len, self.dial)) == dial_lengths(t).sum() and self.dial:
            coder.dial_ = np.concatenate(self.dial)
        coder.path_ = np.concatenate(self.path)
        coder.weights_ = public_weights(self.path[-1])
        coder.objective_, coder.gap_ = np.array(self.objective), np.array(self.gap)
