"""Which side of a bit each labelled sample should be on: block graph cuts (Lin, Shen, Shi, Hengel and Suter, 2014).

With d the Hamming distance of two samples under the bits so far, of m in all, a pair loses d^2 where its labels are
equal and max(0, m/2 - d)^2 where they differ. For the next bit z in -1/+1 the sum of losses is, but for a constant,
    E(z) = sum over pairs of a_ij z_i z_j,   2 a_ij = loss at d - loss at d + 1,
negative within a class, so that a block of samples of one class, with all others held, is a submodular problem: a
minimum cut solves it exactly. Blocks are visited in turn. Only the rows of one block are in memory at a time.
"""

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

__all__ = ["affinities", "class_blocks", "cut_block", "infer_bit"]

Bits = NDArray[np.float32]
Numbers = NDArray[np.integer]
_MOST_FLOW = 2**30  # capacities are int32


def class_blocks(numbers: Numbers, block_size: int) -> list[NDArray[np.intp]]:
    """Row numbers of blocks of at most ``block_size`` samples of one class, evenly sized."""
    blocks = []
    for r in range(int(numbers.max()) + 1):
        members = np.flatnonzero(numbers == r)
        if len(members):
            blocks += np.array_split(members, -(-len(members) // block_size))
    return blocks


def affinities(n_before: int, n_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """8 a_ij by the distance 0..n_before of a pair, (n_before + 1,): of one class, and of two. Whole numbers."""
    d = np.arange(n_before + 1)
    apart = np.maximum(n_bits - 2 * d, 0) ** 2 - np.maximum(n_bits - 2 * d - 2, 0) ** 2
    return -4 * (2 * d + 1), apart


def infer_bit(H: Bits, numbers: Numbers, blocks: list[NDArray[np.intp]], n_bits: int, z: Bits, n_sweeps: int) -> Bits:
    """Sides z (n,) in -1/+1 that lower E from those given, block by block; ends early when no block changes.

    H : (n, r) the bits so far, in -1/+1, of the ``n_bits`` there will be.
    """
    z = z.copy()
    same, apart = affinities(H.shape[1], n_bits)
    for _ in range(n_sweeps):
        changed = False
        for block in blocks:
            products = H[block] @ H.T  # r - 2 d
            within = same[((H.shape[1] - products[:, block]) / 2).astype(np.int64)]
            pull = _pulls(products, H.shape[1], numbers, numbers[block[0]], z, same, apart)
            pull -= within @ z[block].astype(np.int64)
            new = cut_block(within, pull, z[block])
            changed |= not np.array_equal(new, z[block])
            z[block] = new
        if not changed:
            break
    return z


@numba.njit(nogil=True, cache=True)
def _pulls(products, n_before, numbers, of_block, z, same, apart):  # type: ignore[no-untyped-def]
    """sum_j 8 a_ij z_j over all samples j, for every sample i of a block of class ``of_block``."""
    pull = np.zeros(len(products), dtype=np.int64)
    for i in range(len(products)):
        for j in range(len(z)):
            d = int(n_before - products[i, j]) >> 1
            a = same[d] if numbers[j] == of_block else apart[d]
            pull[i] += a if z[j] > 0 else -a
    return pull


def cut_block(within: NDArray[np.int64], pull: NDArray[np.int64], z: Bits) -> Bits:
    """z (b,) that minimises sum_(i<j) within_ij z_i z_j + pull . z, exactly, for within <= 0 off the diagonal.

    As a cut, sides +1 and -1 stand for source and sink: joined samples cost |within| when parted, and a sample costs
    |pull| on the side it is pulled from. ``z`` is returned where it is as good.
    """
    b = len(pull)
    capacity = np.zeros((b + 2, b + 2), dtype=np.int64)
    capacity[:b, :b] = -within
    np.fill_diagonal(capacity, 0)
    capacity[b, :b] = np.maximum(-pull, 0)
    capacity[:b, b + 1] = np.maximum(pull, 0)
    # Flow past an int32 would wrap around: beyond, capacities are rounded.
    capacity //= max(1, -(-int(np.abs(pull).sum()) // _MOST_FLOW))
    graph = csr_matrix(capacity.astype(np.int32))
    left = graph - maximum_flow(graph, b, b + 1).flow
    left.eliminate_zeros()
    reached = breadth_first_order(left, b, return_predecessors=False)
    found = np.full(b, -1, dtype=np.float32)
    found[reached[reached < b]] = 1
    return found if _energy(within, pull, found) < _energy(within, pull, z) else z


def _energy(within: NDArray[np.int64], pull: NDArray[np.int64], z: Bits) -> int:
    sides = z.astype(np.int64)
    pairs = sides @ within @ sides - int(np.trace(within))
    return int(pairs) // 2 + int(pull @ sides)
