"""Shorter codes out of the stored ones: a prefix is searched in the same index, with no weight on the other bits."""

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.coders import Coder

__all__ = ["lengths_of", "weights_of"]

_SHORTEST = 8


def lengths_of(coder: Coder) -> list[int]:
    """The lengths that a search offers: powers of two from 8, then the whole code; only that without prefixes."""
    t = coder.n_bits_
    if not hasattr(coder, "truncate"):
        return [t]
    return [1 << s for s in range(_SHORTEST.bit_length() - 1, 17) if 1 << s < t] + [t]


def weights_of(coder: Coder, n_bits: int, how: str) -> NDArray[np.float64]:
    """Weights (n_bits_,) under which the whole code's distance is that of its first ``n_bits`` bits.

    "weighted": those that were fitted at that length (1 each, if the coder knows none); "plain": 1 each.
    """
    check_choice("how", how, ("weighted", "plain"))
    check_integer("n_bits", n_bits, 1, coder.n_bits_)
    short = coder
    if n_bits < coder.n_bits_:
        if not hasattr(coder, "truncate"):
            raise ValueError(
                f"n_bits={n_bits}: a prefix of {type(coder).__name__}'s codes is no code; give {coder.n_bits_}"
            )
        short = coder.truncate(n_bits)
    weights = np.zeros(coder.n_bits_)
    fitted = getattr(short, "weights_", None) if how == "weighted" else None
    weights[:n_bits] = 1.0 if fitted is None else fitted
    return weights
