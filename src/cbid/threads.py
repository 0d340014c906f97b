"""How many threads a library underneath may take."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["faiss_threads"]


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
