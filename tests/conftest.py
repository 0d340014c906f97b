"""Settings of every test."""

import os
import signal
from pathlib import Path

# Two test processes share two cores, so each computes with one thread.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# They also share the compiled functions, and those of earlier runs.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba_cache"))

# Tests leave the cache of the user alone.
os.environ.setdefault("CBID_CACHE", str(Path(__file__).parents[1] / ".numba_cache" / "models"))

from hypothesis import settings
from numba.core.dispatcher import Dispatcher

from cbid.search.kernels.compile import lock_cache


def with_lock(enable):
    """Let one process at a time use the cached code of a function, as for the search kernels."""

    def enable_caching(dispatcher):
        enable(dispatcher)
        lock_cache(dispatcher)

    return enable_caching


Dispatcher.enable_caching = with_lock(Dispatcher.enable_caching)

# A shell starts background jobs with Ctrl-C ignored, and the programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every run uses the same examples, so a failure comes from a change. HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Packages whose tests compile the kernels of the search, which takes about a minute if .numba_cache is empty. They
# come first: one process compiles them while another runs the other tests, and no long test is left for the end.
FIRST = ["search", "classify", "project", "web", "commands", "paper", "scale", "integrations", "program", "report"]


def pytest_collection_modifyitems(items):
    def place(item):
        package = "".join(item.nodeid.split("/")[1:2])  # "search" in tests/search/kernels/test_filters.py::test_name
        return FIRST.index(package) if package in FIRST else len(FIRST)

    items.sort(key=place)
