"""One pair of worker processes for all tests of descriptors."""

import contextlib

import pytest
from joblib.externals.loky import ProcessPoolExecutor

from cbid import threads


@pytest.fixture(scope="session")
def workers():
    """Two processes, each of which imports the library once. ``tests/test_threads.py`` tests how they are started."""
    with ProcessPoolExecutor(2, env=dict.fromkeys(threads._LIBRARIES, "1")) as pool:
        yield pool


@pytest.fixture(autouse=True)
def shared_workers(request, monkeypatch):
    """Let every description in two processes use the same two."""
    executor = threads._executor

    def shared(n_jobs, of_threads):
        if of_threads or n_jobs != 2:
            return executor(n_jobs, of_threads)
        return contextlib.nullcontext(request.getfixturevalue("workers"))

    monkeypatch.setattr(threads, "_executor", shared)
