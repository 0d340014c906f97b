"""Column generation: the paper's Algorithm 2, bit after bit."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbid.learning.bits import Bit, BitSearch, TakenBits
from cbid.learning.class_graph import ClassGraph
from cbid.learning.graph import PairGraph
from cbid.learning.losses import Loss
from cbid.learning.margins import Columns
from cbid.learning.penalties import Norm
from cbid.learning.rows import Rows
from cbid.learning.sides import WholeClassSides
from cbid.learning.weights import Problem, WeightFit, fit_weights

__all__ = ["Setting", "generate_bits"]


@dataclass(frozen=True)
class Setting:
    """What is minimised, and how closely."""

    margin: str
    loss: Loss
    norm: Norm
    nu: float
    tol: float
    distinct: float
    seed: int
    n_threads: int


def generate_bits(
    rows: Rows,
    search: BitSearch,
    setting: Setting,
    n_bits: int,
    *,
    finish: Callable[[Bit], Bit],
    known: Sequence[NDArray[np.float32]] = (),
    W: NDArray[np.float64] | None = None,
) -> Iterator[tuple[Bit, WeightFit]]:
    """Yield new bits with all weights refitted after each, until n_bits or until no bit is violated.

    ``finish`` turns a bit of the search into the bit as it will be used, with the values it will have, so that the
    weights are fitted to the very codes that come out in the end. ``known`` are the values of bits learned before,
    with their weights ``W``; learning goes on after them. A ValueError where not even a first bit is worth
    anything.
    """
    n = len(search.X)
    columns = Columns(rows, setting.margin, n_bits)
    pairs = _pairs_of(rows, n, setting.n_threads)
    taken = TakenBits(n, n_bits, setting.distinct)
    problem = Problem(columns, setting.loss, setting.norm, setting.nu)
    for h in known:
        columns.append(h)
        taken.add(h)
    if W is None:
        W = np.zeros(problem.shape)
    u = -setting.loss.derivative(columns.margins(W))

    for s in range(len(known), n_bits):
        # 1. The most violated dual constraint: a bit h, and the weight vector it violates most.
        graphs = (pairs.weighted(*sides) for sides in columns.side_weights(u))
        bit = search.best(graphs, taken, np.random.default_rng([setting.seed, s]))
        if s == 0 and (bit is None or bit.value <= 0):
            # No setting would help: without weights, the worth of a bit does not depend on nu.
            raise ValueError(
                "no hyperplane separates anything in the rows: none was found that parts samples from their misses "
                "more than from their hits, as where samples of different classes have the same values"
            )
        if bit is None or bit.value <= _least_violation(setting):
            return
        # 2. Its column joins the problem.
        bit = finish(bit)
        columns.append(bit.h)
        taken.add(bit.h)
        # 3. All weights are fitted again, from where they were.
        fit = fit_weights(problem, _with_new_row(W, setting.norm), tol=setting.tol)
        # 4. The dual variables follow from the optimality conditions.
        W, u = fit.W, fit.u
        yield bit, fit


def _pairs_of(rows: Rows, n: int, n_threads: int) -> PairGraph | ClassGraph:
    misses, hits = rows.misses, rows.hits
    if isinstance(misses, WholeClassSides):
        return ClassGraph(misses)
    assert not isinstance(hits, WholeClassSides)
    return PairGraph([misses, hits], n, n_threads=n_threads)


def _least_violation(setting: Setting) -> float:
    """What a bit must be worth to improve the optimum.

    Under l_1 every constraint stands alone, G <= nu. Otherwise all bits share one, ||max(0, G)||_dual <= nu, which
    is tight at the optimum, so that any positive worth violates it.
    """
    return setting.nu * (1 + setting.tol) if setting.norm.p == 1 else 0.0


def _with_new_row(W: NDArray[np.float64], norm: Norm) -> NDArray[np.float64]:
    """A start for one bit more: at the bound under l_infinity, where the optimum has nearly all; else at zero."""
    s = len(W)
    if np.isinf(norm.p) and s and W.any():
        W = W * (s / (s + 1))
        return np.vstack([W, np.full((1, W.shape[1]), W.max())])
    return np.vstack([W, np.zeros((1, W.shape[1]))])
