"""Bags of words: how often each visual word occurs in an image and in the cells of its pyramid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from cbid.checks import check_choice, check_integer, check_real
from cbid.pooling.base import NORMS, Pooling, Rows, fixed_codes, k_means, nearest_words

__all__ = ["BagOfWords"]


class BagOfWords(Pooling):
    """Histograms of the nearest words, over the cells of a spatial pyramid.

    Parameters
    ----------
    n_words : int
        Words of the vocabulary, by k-means.
    pyramid : sequence of grids
        (1, 2, 4): the whole image, 2 x 2 and 4 x 4 cells. A pair is (rows, columns). (1,) needs no positions.
    level_weights : "match" or None
        The weights of Lazebnik's pyramid match, which favour fine cells, or none.
    assignment : {"hard", "soft"}
        A row counts for its nearest word, or is shared among its ``n_nearest`` ones in proportion to
        exp(-distance^2 / (2 width^2)) (Liu, Wang and Liu, 2011).
    n_nearest : int
        Words that share a row, when soft.
    width : float or None
        None: the root mean square distance of the rows learned from to their nearest words.
    pooling : {"sum", "max"}
        Counts, or the largest share that a row of the cell gives to the word.
    norm : {"l1", "l2", "power", None}
        Of the whole vector; "power" is the square root of each value, then unit l2 length.
    n_rows : int
        Rows drawn at random from all images to learn the words from.
    n_iter : int
        Rounds of k-means.
    n_jobs : int or None
        Threads, as in scikit-learn.
    random_state : int, RandomState or None
        The same seed gives the same words.

    Attributes
    ----------
    words_ : (n_words, d)
    width_ : float, when soft

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(50, 8)) for image in range(4)]
    >>> BagOfWords(n_words=10, pyramid=(1,)).fit_transform(bags).shape
    (4, 10)
    """

    _VALUES = Pooling._VALUES | {"width_"}

    def __init__(
        self,
        *,
        n_words: int = 200,
        pyramid: Sequence[Any] = (1, 2, 4),
        level_weights: str | None = "match",
        assignment: str = "hard",
        n_nearest: int = 5,
        width: float | None = None,
        pooling: str = "sum",
        norm: str | None = "l1",
        n_rows: int = 200_000,
        n_iter: int = 25,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_words = n_words
        self.pyramid = pyramid
        self.level_weights = level_weights
        self.assignment = assignment
        self.n_nearest = n_nearest
        self.width = width
        self.pooling = pooling
        self.norm = norm
        self.n_rows = n_rows
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("level_weights", self.level_weights, (None, "match"))
        check_choice("assignment", self.assignment, ("hard", "soft"))
        check_integer("n_nearest", self.n_nearest, 1)
        if self.width is not None:
            check_real("width", self.width, 0, open_below=True)
        check_choice("pooling", self.pooling, ("sum", "max"))
        check_choice("norm", self.norm, NORMS)
        check_integer("n_iter", self.n_iter, 1)

    def _settings(self) -> tuple[str, str | None, str | None]:
        return self.pooling, self.level_weights, self.norm

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        self.words_ = k_means(rows, self.n_words, n_iter=self.n_iter, seed=seed, n_threads=n_threads)
        if self.assignment == "soft":
            squares, _ = nearest_words(rows, self.words_, n_threads=n_threads)
            # Every row may be a word; any width then gives it to that word.
            self.width_ = float(self.width or np.sqrt(squares.mean(dtype=np.float64)) or 1.0)

    def _code(self, rows: Rows) -> csr_array:
        k = 1 if self.assignment == "hard" else min(self.n_nearest, len(self.words_))
        squares, words = nearest_words(rows, self.words_, k)
        shares = np.ones_like(squares)
        if self.assignment == "soft":
            shares = np.exp((squares[:, :1] - squares) / (2 * self.width_**2))  # that of the nearest is 1, never 0
            shares /= shares.sum(axis=1, keepdims=True)
        return fixed_codes(shares, words, len(self.words_))
