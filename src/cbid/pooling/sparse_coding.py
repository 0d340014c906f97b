"""Sparse coding with max pooling over a pyramid: ScSPM (Yang, Yu, Gong and Huang, 2009)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from cbid.checks import check_choice, check_integer, check_real
from cbid.pooling.base import Pooling
from cbid.pooling.dictionary import learn_dictionary
from cbid.pooling.lasso import sparse_codes
from cbid.pooling.vocabulary import Rows

__all__ = ["ScSPM"]


class ScSPM(Pooling):
    """Each row is written by few words of a learned dictionary; a cell keeps the largest share of each word.

    The code of a row x is argmin_u 1/2 |x - D^T u|^2 + alpha |u|_1 (the paper's lambda is 2 alpha). Absolute values
    are pooled by their maximum, and the vector has unit l2 length.

    Parameters
    ----------
    n_words : int
        Words of the dictionary.
    alpha : float > 0
        Weight of the l1 norm of a code; the larger, the fewer words a row uses.
    pyramid : sequence of grids
        (1, 2, 4): the whole image, 2 x 2 and 4 x 4 cells. A pair is (rows, columns). (1,) needs no positions.
    unit_rows : bool
        Bring each row to unit length first, as ``alpha`` expects. A row of zeros stays.
    tol : float > 0
        Codes are optimal up to ``tol`` alpha in every word's correlation with the residual.
    n_rows : int
        Rows drawn at random from all images to learn the dictionary from.
    n_iter : int
        Turns of coding the rows and improving the words.
    n_jobs : int or None
        Threads, as in scikit-learn.
    random_state : int, RandomState or None
        The same seed gives the same words.

    Attributes
    ----------
    words_ : (n_words, d), at most unit length each
    """

    def __init__(
        self,
        *,
        n_words: int = 1024,
        alpha: float = 0.15,
        pyramid: Sequence[Any] = (1, 2, 4),
        unit_rows: bool = True,
        tol: float = 1e-3,
        n_rows: int = 50_000,
        n_iter: int = 10,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_words = n_words
        self.alpha = alpha
        self.pyramid = pyramid
        self.unit_rows = unit_rows
        self.tol = tol
        self.n_rows = n_rows
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_real("alpha", self.alpha, 0, open_below=True)
        check_choice("unit_rows", self.unit_rows, (False, True))
        check_real("tol", self.tol, 0, 1, open_below=True)
        check_integer("n_iter", self.n_iter, 1)

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        self.words_ = learn_dictionary(
            self._scaled(rows),
            self.n_words,
            alpha=float(self.alpha),
            tol=float(self.tol),
            n_iter=self.n_iter,
            rng=np.random.default_rng(seed),
            n_threads=n_threads,
        )
        self._gram = self.words_ @ self.words_.T

    def _check_state(self) -> None:
        super()._check_state()
        self._gram = self.words_ @ self.words_.T

    def _code(self, rows: Rows) -> csr_array:
        codes = sparse_codes(self._scaled(rows), self.words_, self._gram, float(self.alpha), float(self.tol))
        return abs(codes)

    def _scaled(self, rows: Rows) -> Rows:
        return normalize(rows) if self.unit_rows else rows
