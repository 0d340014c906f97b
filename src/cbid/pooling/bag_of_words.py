"""Bags of words: how often each visual word occurs in an image and in the cells of its pyramid."""

import numpy as np
from scipy.sparse import csr_array

from cbid.params import choice, estimator, integer, param, positive
from cbid.pooling.base import NORMS, Pooling, Rows, fixed_codes, k_means, nearest_words

__all__ = ["BagOfWords"]


@estimator
class BagOfWords(Pooling):
    """Histograms of the nearest words, over the cells of a spatial pyramid.

    Parameters
    ----------
    n_words : int, default=200
    level_weights : "match" or None, default="match"
        The weights of the pyramid match kernel (Lazebnik et al., 2006), which favour fine cells; None: equal weights.
    assignment : {"hard", "soft"}, default="hard"
        A row counts for its nearest word, or for its ``n_nearest`` words in proportion to
        exp(-distance^2 / (2 width^2)) (Liu, Wang and Liu, 2011).
    n_nearest : int, default=5
        Words per row with soft assignment.
    width : float or None, default=None
        None: the root mean square distance of the training rows to their nearest words.
    pooling : {"sum", "max"}, default="sum"
        Sum the shares of the rows of a cell per word, or take the largest.
    norm : {"l1", "l2", "power", None}, default="l1"
        Norm of the whole vector; "power" takes square roots, then scales to unit l2 length.
    n_rows : int, default=200_000
    pyramid, n_iter, n_jobs, random_state
        As in ``Pooling``.

    Attributes
    ----------
    words_ : (n_words, d)
    width_ : float, with soft assignment

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(50, 8)) for image in range(4)]
    >>> BagOfWords(n_words=10, pyramid=(1,)).fit_transform(bags).shape
    (4, 10)
    """

    _VALUES = Pooling._VALUES | {"width_"}

    n_words: int = param(200, integer(1))
    level_weights: str | None = param("match", choice(None, "match"))
    assignment: str = param("hard", choice("hard", "soft"))
    n_nearest: int = param(5, integer(1))
    width: float | None = param(None, positive)
    pooling: str = param("sum", choice("sum", "max"))
    norm: str | None = param("l1", choice(*NORMS))
    n_rows: int = param(200_000, integer(1))

    def _settings(self) -> tuple[str, str | None, str | None]:
        return self.pooling, self.level_weights, self.norm

    def _learn(self, rows: Rows, seed: int, n_threads: int) -> None:
        self.words_ = k_means(rows, self.n_words, n_iter=self.n_iter, seed=seed, n_threads=n_threads)
        if self.assignment == "soft":
            squares, _ = nearest_words(rows, self.words_, n_threads=n_threads)
            # If every row is a word, the distance is 0 and any width works.
            self.width_ = float(self.width or np.sqrt(squares.mean(dtype=np.float64)) or 1.0)

    def _code(self, rows: Rows) -> csr_array:
        k = 1 if self.assignment == "hard" else min(self.n_nearest, len(self.words_))
        squares, words = nearest_words(rows, self.words_, k)
        shares = np.ones_like(squares)
        if self.assignment == "soft":
            shares = np.exp(
                (squares[:, :1] - squares) / (2 * self.width_**2)
            )  # relative to the nearest, so not all underflow
            shares /= shares.sum(axis=1, keepdims=True)
        return fixed_codes(shares, words, len(self.words_))
