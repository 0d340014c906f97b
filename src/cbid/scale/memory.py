"""Memory budgets: parse "2GB", measure the process, measure what a call allocates."""

import gc
import re
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_STEP = 64 * 2**20  # the size of the process is rounded to it, so that two runs of one program agree


def as_bytes(max_memory: int | str, name: str = "max_memory") -> int:
    """Convert a number of bytes, or text such as "2GB" (10^9) or "1.5GiB" (2^30), to bytes.

    >>> as_bytes("2GB"), as_bytes("1.5 MiB"), as_bytes(4096)
    (2000000000, 1572864, 4096)
    """
    size = 0
    if isinstance(max_memory, (int, np.integer)) and not isinstance(max_memory, bool):
        size = int(max_memory)
    elif isinstance(max_memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", max_memory.lower())
        if found and found[2] in _UNITS:
            size = int(float(found[1]) * _UNITS[found[2]])
    if size < 1:
        raise ValueError(f'{name}={max_memory!r}: expected a number of bytes, or text such as "2GB" or "512MiB"')
    return size


def process_bytes() -> int:
    """Return the bytes of memory that this process uses; without /proc, the most that it ever used."""
    try:
        with open("/proc/self/statm", "rb") as file:
            import resource

            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # not a Unix: an upper guess for Python and its libraries
        return 512 * 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def used_budget() -> int:
    """Return the part of a memory budget that the process uses already, rounded up by 64 to 128 MiB."""
    return (process_bytes() // _STEP + 2) * _STEP


def peak_allocation(call: Callable[[], Any]) -> int:
    """Return the most bytes that a call allocates at one time.

    Counted by tracemalloc, which sees numpy's arrays. Unlike the size of the process it is the same in every run.
    """
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start(1)
    try:
        gc.collect()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        return max(tracemalloc.get_traced_memory()[1] - before, 0)
    finally:
        if not running:
            tracemalloc.stop()
