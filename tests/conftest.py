"""Settings of every test."""

import os
import signal
from pathlib import Path

# Two test processes share two cores, so each computes with one thread. Each has its own cache of compiled kernels:
# numba does not lock its cache, and two processes that add variants of one function can mix them up.
WORKER = os.environ.get("PYTEST_XDIST_WORKER")
if WORKER is not None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba_cache" / WORKER))

# Tests leave the cache of the user alone.
os.environ.setdefault("CBID_CACHE", str(Path(__file__).parents[1] / ".numba_cache" / "models"))

from hypothesis import settings  # noqa: E402

# A shell starts background jobs with Ctrl-C ignored, and the programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every run uses the same examples, so a failure comes from a change. HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
