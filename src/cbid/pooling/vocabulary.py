"""Visual words: a sample of rows, k-means over it, and the words nearest to a row."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cbid.threads import faiss_threads

__all__ = ["draw_rows", "fixed_codes", "k_means", "nearest_words"]

Rows = NDArray[np.float32]  # (m, d)


def draw_rows(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """At most ``most`` of the rows, drawn without replacement, in their old order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(rng.choice(len(rows), most, replace=False, shuffle=False))]


def k_means(rows: Rows, n_words: int, *, n_iter: int = 25, seed: int = 0, n_threads: int = 1) -> Rows:
    """Centres (n_words, d) of the rows by Lloyd's algorithm (faiss), from random rows; an empty cell splits another.

    The same seed gives the same centres.
    """
    import faiss

    if len(rows) < n_words:
        raise ValueError(f"n_words={n_words} is not accepted for {len(rows)} rows; give at most one word a row")
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    clustering = faiss.Kmeans(
        rows.shape[1], n_words, niter=n_iter, seed=seed, min_points_per_centroid=1, max_points_per_centroid=len(rows)
    )
    with faiss_threads(n_threads):
        clustering.train(rows)
    return np.ascontiguousarray(clustering.centroids, dtype=np.float32)


def nearest_words(
    rows: Rows, words: Rows, k: int = 1, *, n_threads: int = 1
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Squared distances and numbers (m, k) of the k words nearest to each row, nearest first."""
    import faiss

    with faiss_threads(n_threads):
        distances, numbers = faiss.knn(np.ascontiguousarray(rows), words, k)
    return np.maximum(distances, 0), numbers


def fixed_codes(values: NDArray[np.float32], words: NDArray[np.int64], n_words: int) -> csr_array:
    """Codes (m, n_words) with k entries each, from values and word numbers (m, k)."""
    m, k = words.shape
    return csr_array((values.ravel(), words.ravel(), np.arange(0, m * k + 1, k)), shape=(m, n_words))
