"""The weights fitted at every length of the code, so that one fit gives every shorter code."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["at_length", "is_kept", "kept_lengths"]

# All lengths up to here are kept; beyond, every 64th and the last. 65,536 bits would else be 16 GB of weights.
_ALL_UP_TO = 1024
_STEP = 64


def is_kept(length: int) -> bool:
    """Whether the weights of this length are kept in the middle of a fit."""
    return length <= _ALL_UP_TO or length % _STEP == 0


def kept_lengths(n_bits: int) -> NDArray[np.int64]:
    """The lengths kept for a code of ``n_bits``, ascending."""
    return np.array([s for s in range(1, n_bits + 1) if is_kept(s) or s == n_bits], dtype=np.int64)


def at_length(path: NDArray[np.float64], n_bits: int, length: int) -> NDArray[np.float64]:
    """Weights (length, n_weights) out of all kept ones laid end to end, (sum of kept lengths, n_weights)."""
    lengths = kept_lengths(n_bits)
    place = int(np.searchsorted(lengths, length))
    if place == len(lengths) or lengths[place] != length:
        raise ValueError(
            f"n_bits={length} has no fitted weights: kept are all lengths up to {min(n_bits, _ALL_UP_TO)}"
            + (f", then every {_STEP}th up to {n_bits}" if n_bits > _ALL_UP_TO else "")
        )
    end = int(lengths[: place + 1].sum())
    return path[end - length : end]
