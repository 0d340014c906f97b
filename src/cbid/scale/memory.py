"""Memory as an argument: what "2GB" means, what this process holds, what a call allocates."""

import gc
import re
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["allocated_by", "as_bytes", "held", "least_held"]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_STEP = 64 * 2**20  # what is held is counted in these, so that two runs of one program count alike


def as_bytes(max_memory: int | str, name: str = "max_memory") -> int:
    """A number of bytes, or text such as "2GB" (10^9) or "1.5GiB" (2^30), as bytes.

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
        raise ValueError(f'{name}={max_memory!r} is not accepted; give bytes, or text such as "2GB" or "512MiB"')
    return size


def held() -> int:
    """Bytes of memory that this process holds now; where the system does not tell, the most that it ever held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            import resource

            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # neither Linux nor another Unix: a guess above what Python and its libraries take
        return 512 * 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def least_held() -> int:
    """What is held now, rounded up to 64 MiB and one more: the part of a budget that is spent already."""
    return (held() // _STEP + 2) * _STEP


def allocated_by(call: Callable[[], Any]) -> int:
    """The most bytes that a call holds at one time beyond those held before it.

    Counted by Python's own tracing, which numpy's arrays take part in: the same in every run, unlike the size of the
    process.
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
