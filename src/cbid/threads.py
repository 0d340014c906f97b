"""How a library underneath is to work: with how many threads, and by which way of computing."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["faiss_products", "faiss_threads"]


@contextmanager
def faiss_threads(n_threads: int) -> Iterator[None]:
    """faiss takes that many threads when called from this thread; afterwards as many as before."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@contextmanager
def faiss_products(wanted: bool) -> Iterator[None]:
    """faiss computes distances as products of matrices, however few and short the rows are; or never, but by
    differences, one pair at a time, which is slower and loses no digits."""
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1 if wanted else 2**31 - 1
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
