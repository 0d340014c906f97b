"""Column generation: the paper's Algorithm 2, bit after bit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cbid.learning.bits import Bit, TakenBits
from cbid.learning.graph import ClassGraph, Graph, PairGraph
from cbid.learning.likeness import NU_PER_BIT, LikenessSearch
from cbid.learning.losses import Loss
from cbid.learning.margins import Columns
from cbid.learning.penalties import KindNorm, Norm, OwnNorm
from cbid.learning.rows import Rows
from cbid.learning.sides import WholeClassSides
from cbid.learning.weights import Part, Problem, WeightFit, fit_weights

__all__ = ["ClassRows", "LikenessRows", "Setting", "generate_bits"]


@dataclass(frozen=True)
class Setting:
    """What is minimised, and how closely."""

    margin: str
    loss: Loss
    norm: Norm | OwnNorm
    nu: float
    tol: float
    distinct: float
    seed: int
    n_threads: int


class Search(Protocol):
    """The search for one new bit."""

    def best(self, graphs: Iterable[Graph], taken: TakenBits, rng: np.random.Generator) -> Bit | None: ...


@dataclass(frozen=True)
class ClassRows:
    """Comparisons of classes (or ready-made triplets), and the search for their bits.

    samples : the samples they are about, where others have no label; None for all
    coarser : rows of the coarser levels of a tree, coarse to fine
    ends : for each of them the number of class bits after which its bits end; those of ``rows`` follow
    patient : bits come from a rotation, and may wait for later ones with a weight of zero
    first, n_first : another search for the first class bits, and how many of them it finds
    drawn : rows that take the place of ``rows`` where the weights of a mixed code are fitted
    """

    rows: Rows
    search: Search
    share: float = 1.0
    samples: NDArray[np.integer] | None = None
    coarser: Sequence[Rows] = ()
    ends: Sequence[int] = ()
    patient: bool = False
    first: Search | None = None
    n_first: int = 0
    drawn: Rows | None = None

    def search_of_bit(self, number: int) -> Search:
        """Return the search for class bit ``number``."""
        return self.first if self.first is not None and number < self.n_first else self.search

    def parts(self, margin: str, capacity: int, share: float, *, mixed: bool = False) -> list[Part]:
        """Return the parts of a problem, for ``rows`` and then for each coarser level, which count the same."""
        every = [self.drawn if mixed and self.drawn is not None else self.rows, *self.coarser]
        return [
            Part(Columns(rows, margin, capacity), share / len(every), required=rows.required, samples=self.samples)
            for rows in every
        ]

    def part_of_bit(self, number: int) -> int:
        """Return which of the parts class bit ``number`` is searched for."""
        return next((level for level, end in enumerate(self.ends, 1) if number < end), 0)


@dataclass(frozen=True)
class LikenessRows:
    """Comparisons of original distances, and the search for their bits."""

    rows: Rows
    search: LikenessSearch
    share: float
    scale: float
    required: NDArray[np.float64]


def generate_bits(
    by_class: ClassRows | None,
    likeness: LikenessRows | None,
    setting: Setting,
    kinds: Sequence[bool],
    *,
    n_samples: int,
    finish: Callable[[Bit], Bit],
    known: Sequence[NDArray[np.float32]] = (),
    W: NDArray[np.float64] | None = None,
) -> Iterator[tuple[Bit, WeightFit, Problem]]:
    """Yield new bits with all weights refitted after each, until there are as many as ``kinds`` or none is violated.

    ``kinds`` says of each bit whether it is one of likeness. ``finish`` turns a bit of the search into the bit as it
    will be used, with the values it will have, so that the weights are fitted to the codes that come out in the end.
    ``known`` are the values of bits learned before, with their weights ``W``; learning continues after them. Raise a
    ValueError if not even a first bit is worth anything.
    """
    n_bits = len(kinds)
    problem = _problem_of(by_class, likeness, setting, kinds)
    samples = by_class.samples if by_class is not None else None
    class_bits = None if by_class is None or likeness is None else _ClassBits(by_class, setting, kinds)

    def subset(h: NDArray[np.float32]) -> NDArray[np.float32]:
        return h if samples is None else h[samples]

    taken = TakenBits(n_samples if samples is None else len(samples), n_bits, setting.distinct)
    pairs = _pairs_of(by_class, n_samples, setting.n_threads) if by_class is not None else []
    for h, of_likeness in zip(known, kinds):
        problem.append(h)
        taken.add(subset(h))
        if of_likeness and likeness is not None:
            likeness.search.skip(h)
        elif class_bits is not None:
            class_bits.append(h)
    if W is None:
        W = np.zeros(problem.shape)
    u = problem.duals(problem.excess(W))

    for s in range(len(known), n_bits):
        # 1. The most violated dual constraint: a bit h, and the weight vector it violates most.
        if kinds[s]:
            assert likeness is not None
            alike = next(problem.parts[-1].columns.side_weights(u[-1]))
            bit: Bit | None = likeness.search.best(alike, taken, subset)
        else:
            assert by_class is not None
            number = s - sum(kinds[:s])  # among class bits: a mixed code has the same ones as a code of classes alone
            level = by_class.part_of_bit(number)
            asked, duals = (problem, u) if class_bits is None else (class_bits.problem, class_bits.u)
            search, rng = by_class.search_of_bit(number), np.random.default_rng([setting.seed, number])
            weights, of_class = asked.parts[level].columns.side_weights, duals[level]
            bit = search.best((pairs[level].weighted(*w) for w in weights(of_class)), taken, rng)
            if bit is None and search is not by_class.search:  # every bit that it finds is taken
                bit = by_class.search.best((pairs[level].weighted(*w) for w in weights(of_class)), taken, rng)
        patient = kinds[s] or (by_class is not None and by_class.patient)
        if s == 0 and (bit is None or (bit.value <= 0 and not patient)):
            # No setting would help: without weights, the worth of a bit does not depend on nu.
            raise ValueError(
                "no hyperplane separates anything in the rows: none was found that separates samples from their "
                "misses more than from their hits, as if samples of different classes had the same values"
            )
        # A direction of a rotation may wait for its turn with a weight of zero; a class bit must earn its place.
        if bit is None or (not patient and bit.value <= _least_violation(setting)):
            return
        # 2. Its column joins the problem.
        bit = finish(bit)
        problem.append(bit.h)
        taken.add(subset(bit.h))
        if class_bits is not None and not kinds[s]:
            class_bits.append(bit.h)
        # 3. All weights are fitted again, from where they were.
        fit = fit_weights(problem, _with_new_row(W, problem.norm), tol=setting.tol)
        # 4. The dual variables follow from the optimality conditions.
        W, u = fit.W, fit.u
        yield bit, fit, problem


class _ClassBits:
    """The class bits of a mixed code with weights of their own, which give the duals for the next class bit.

    Found beside bits of likeness, a class bit would chase the few samples that these get wrong, and generalise worse.
    """

    def __init__(self, by_class: ClassRows, setting: Setting, kinds: Sequence[bool]) -> None:
        self.setting = setting
        parts = by_class.parts(setting.margin, max(1, len(kinds) - sum(kinds)), 1.0)
        self.problem = Problem(parts, setting.loss, setting.norm, setting.nu, setting.n_threads)
        self.W = np.zeros(self.problem.shape)
        self.u = self.problem.duals(self.problem.excess(self.W))

    def append(self, h: NDArray[np.float32]) -> None:
        self.problem.append(h)
        fit = fit_weights(self.problem, _with_new_row(self.W, self.setting.norm), tol=self.setting.tol)
        self.W, self.u = fit.W, fit.u


def _problem_of(
    by_class: ClassRows | None, likeness: LikenessRows | None, setting: Setting, kinds: Sequence[bool]
) -> Problem:
    parts, capacity = [], len(kinds)
    if by_class is not None:
        parts += by_class.parts(setting.margin, capacity, by_class.share, mixed=likeness is not None)
    if likeness is not None:
        columns = Columns(likeness.rows, "shared", capacity)
        parts.append(Part(columns, likeness.share, likeness.scale, likeness.required, nu_per_bit=NU_PER_BIT))
    norm: Norm | OwnNorm | KindNorm = setting.norm
    if len(parts) > 1 and np.isinf(norm.p):
        norm = KindNorm(np.array(kinds, dtype=bool))
    return Problem(parts, setting.loss, norm, setting.nu, setting.n_threads)


def _pairs_of(by_class: ClassRows, n: int, n_threads: int) -> list[PairGraph | ClassGraph]:
    """Return the pairs of the rows of each part."""
    graphs: list[PairGraph | ClassGraph] = []
    for rows in (by_class.rows, *by_class.coarser):
        if isinstance(rows.misses, WholeClassSides):
            graphs.append(ClassGraph(rows.misses))
            continue
        assert not isinstance(rows.hits, WholeClassSides)
        sides = [rows.misses] if rows.hits is rows.misses else [rows.misses, rows.hits]
        size = n if by_class.samples is None else len(by_class.samples)
        graphs.append(PairGraph(sides, size, n_threads=n_threads))
    return graphs


def _least_violation(setting: Setting) -> float:
    """What a bit must be worth to improve the optimum.

    Under l_1 every constraint stands alone, G <= nu. Otherwise all bits share one, ||max(0, G)||_dual <= nu, which
    is tight at the optimum, so that any positive worth violates it.
    """
    return setting.nu * (1 + setting.tol) if setting.norm.p == 1 else 0.0


def _with_new_row(W: NDArray[np.float64], norm: Norm | OwnNorm | KindNorm) -> NDArray[np.float64]:
    """A start for one bit more: at the bound under l_infinity, where the optimum has nearly all; else at zero.

    The other weights under the same bound shrink, so that they add up to the same as before.
    """
    s = len(W)
    if not np.isinf(norm.p) or not W.any():
        return np.vstack([W, np.zeros((1, W.shape[1]))])
    of_bound = norm.groups(s + 1) if isinstance(norm, KindNorm) else [np.arange(s + 1)]
    earlier = next(rows for rows in of_bound if len(rows) and rows[-1] == s)[:-1]
    W = np.vstack([W, np.full((1, W.shape[1]), W.max())])
    if len(earlier):
        W[earlier] *= len(earlier) / (len(earlier) + 1)
        W[s] = W[earlier].max()
    return W
