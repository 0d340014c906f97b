"""What learning has found so far, and the weights kept for every length of the code."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbid.learning.bits import Bit
from cbid.learning.features import Anchors, Whitening
from cbid.learning.weights import WeightFit

__all__ = ["DIAL", "Learned", "at_length", "cut_dial", "dial_lengths", "has_dial", "kept_lengths", "public_weights"]

Array = NDArray[np.floating]

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


class Learned:
    """Bits in the units of X, or of the similarities to the anchors with X beside them, as they come in.

    Hyperplanes are rows over [F, X] in the kernel form with bits of likeness, else over F (X in the linear form).
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
    ) -> None:
        """``mean`` is what hyperplanes lie around, if not the mean of the samples: that of a coder to be extended."""
        self.whitening, self.anchors, self.about = whitening, anchors, about
        m = F.shape[1]
        self.mean = whitening.mean if mean is None else mean[:m]
        self.centred = F - self.mean.astype(F.dtype)
        self.centred_X, mean_X = self.centred, self.mean
        if anchors is not None and likeness_mean is not None:
            mean_X = likeness_mean if mean is None or len(mean) == m else mean[m:]
            self.centred_X = X - mean_X.astype(X.dtype)
            self.mean = np.concatenate([self.mean, mean_X])
        # Bits are found around the mean of the samples.
        self._shift = whitening.mean - self.mean[:m]
        self._shift_X = np.zeros(0) if likeness_mean is None else likeness_mean - mean_X
        self.coef: list[NDArray[np.float64]] = []
        self.offset: list[float] = []
        self.likeness: list[bool] = []
        self.path: list[NDArray[np.float64]] = []
        self.dial: list[NDArray[np.float64]] = []
        self.objective: list[float] = []
        self.gap: list[float] = []

    def __len__(self) -> int:
        return len(self.coef)

    def in_units_of_X(self, bit: Bit) -> Bit:
        """Return the bit over centred features, scaled to projections of unit deviation, with its values there."""
        coef = self.whitening.fold(bit.beta) if bit.whitened else bit.beta
        features = self.centred_X if bit.likeness else self.centred
        spread = float(np.std(features @ coef.astype(features.dtype), dtype=np.float64)) or 1.0
        offset = (bit.intercept - float(coef @ (self._shift_X if bit.likeness else self._shift))) / spread
        coef = coef / spread
        return Bit(coef, offset, self._values(coef, offset, bit.likeness), bit.value, False, bit.likeness)

    def _values(self, coef: NDArray[np.float64], offset: float, likeness: bool) -> NDArray[np.float32]:
        features = self.centred_X if likeness else self.centred
        projection = features @ coef.astype(features.dtype) + features.dtype.type(offset)
        return np.where(projection >= 0, np.float32(1), np.float32(-1))

    def add(self, bit: Bit, fit: WeightFit) -> None:
        """Keep a bit and the weights fitted with it."""
        if self.path and not _is_kept(len(self)):
            self.path.pop()  # it was the last, kept for that alone
        self.coef.append(bit.beta)
        self.offset.append(bit.intercept)
        self.likeness.append(bit.likeness)
        self.path.append(fit.W)
        self.objective.append(fit.objective)
        self.gap.append(fit.gap)

    def values(self) -> list[NDArray[np.float32]]:
        """Return the values of all bits on the training samples."""
        return [self._values(*bit) for bit in zip(self.coef, self.offset, self.likeness)]

    def weights(self) -> NDArray[np.float64] | None:
        """Return the weights of the present length."""
        return self.path[-1] if self.path else None

    def recall(self, coder: _Fitted, kinds: list[bool]) -> None:
        """Take over the bits of a fitted coder."""
        m = self.centred.shape[1]
        width = coder.coef_.shape[1]  # less than now if bits of likeness have come since
        offset = coder.intercept_ + coder.coef_ @ self.mean[:width]
        for row, b, of_likeness in zip(coder.coef_, offset, kinds):
            self.coef.append(row[width - self.centred_X.shape[1] :] if of_likeness else row[:m])
            self.offset.append(float(b))
            self.likeness.append(of_likeness)
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
        t, m = len(self), self.centred.shape[1]
        coder.n_bits_ = t
        coder.mean_ = self.mean
        coder.coef_ = np.zeros((t, len(self.mean)))
        for row, coef, of_likeness in zip(coder.coef_, self.coef, self.likeness):
            row[len(row) - len(coef) if of_likeness else 0 : len(row) if of_likeness else m] = coef
        coder.intercept_ = np.array(self.offset) - coder.coef_ @ self.mean
        for name in ("anchors_", "gamma_", "dial_", "kinds_"):  # of an earlier fit
            if hasattr(coder, name):
                delattr(coder, name)
        for name in ("levels_", "tree_"):
            if name not in self.about and hasattr(coder, name):
                delattr(coder, name)
        if "levels_" in self.about:
            coder.levels_ = np.minimum(self.about["levels_"], t)
        if self.anchors is not None:
            coder.anchors_, coder.gamma_ = self.anchors.points, self.anchors.gamma
        if any(self.likeness):
            coder.kinds_ = np.array(self.likeness, dtype=np.int8)
        if sum(map(len, self.dial)) == dial_lengths(t).sum() and self.dial:
            coder.dial_ = np.concatenate(self.dial)
        coder.path_ = np.concatenate(self.path)
        coder.weights_ = public_weights(self.path[-1])
        coder.objective_, coder.gap_ = np.array(self.objective), np.array(self.gap)
