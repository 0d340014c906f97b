"""Compilation of the kernels by numba: without the interpreter lock, and cached on disk."""

import hashlib
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

import numba
from llvmlite import binding
from numba.core import event

from cbid.progress import note


def _has(feature: str) -> bool:
    # numba compiles for this processor, unless NUMBA_CPU_FEATURES (part of its cache key) names other features.
    given = getattr(numba.config, "CPU_FEATURES", None)
    if given is not None:
        return f"+{feature}" in given.split(",")
    try:
        return bool(binding.get_host_cpu_features().get(feature, False))
    except RuntimeError:  # unknown to LLVM on this platform; numba then compiles for the basic instructions
        return False


HAS_AVX2 = _has("avx2")
HAS_VBMI = _has("avx512vbmi") and _has("avx512bw")


def simd_wanted() -> bool:
    """Return whether the SIMD filters run: the processor has AVX2, and not CBID_SIMD=off."""
    setting = os.environ.get("CBID_SIMD", "auto")
    if setting not in ("auto", "off"):
        raise ValueError(f"environment variable CBID_SIMD={setting!r}: expected 'auto' or 'off'")
    return HAS_AVX2 and setting == "auto"


def _digest_of_sources() -> str:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


_SOURCES = _digest_of_sources()


def _keyed_by_sources(function: Callable[..., Any]) -> FunctionType:
    """Return the same function with a closure variable that identifies the sources of all kernels.

    numba's cache only checks whether the file of a function has changed, not the files of the functions that are
    compiled into it. But it compares closure variables.
    """
    assert isinstance(function, FunctionType)
    keyed = FunctionType(
        function.__code__.replace(co_freevars=("_sources",)),
        function.__globals__,
        function.__name__,
        closure=(CellType(_SOURCES),),
    )
    keyed.__doc__ = function.__doc__
    keyed.__module__ = function.__module__
    return keyed


class _Announcement(event.Listener):
    """Notes that a kernel of the search is compiled: the first search of an installation takes up to a minute.

    The functions of the learner are compiled one by one: one note says so.
    """

    def __init__(self) -> None:
        self._begun: list[float] = []  # kernels compile the kernels that they call
        self._learning = False  # whether the note on the learner has been given

    def on_start(self, event: Any) -> None:
        self._begun.append(time.perf_counter())
        if len(self._begun) == 1 and self._is_ours(event):
            note("compiling the search kernels, once for this installation (up to a minute)")
        elif not self._learning and self._module(event).startswith("cbid.learning"):
            self._learning = True
            note("compiling the learner, once for this installation")

    def on_end(self, event: Any) -> None:
        seconds = time.perf_counter() - self._begun.pop()
        if not self._begun and self._is_ours(event):
            note(f"compiled in {seconds:.0f} s")

    def _is_ours(self, event: Any) -> bool:
        return self._module(event).startswith(__package__)

    @staticmethod
    def _module(event: Any) -> str:
        return str(event.data["dispatcher"].py_func.__module__)


event.register("numba:compile", _Announcement())


def helper(function: Callable[..., Any], **more: Any) -> Any:
    """Apply `numba.njit` to a function that only compiled functions call; ``more`` are options of numba.

    It is compiled into its callers, so it needs no cache entry and no wrappers for Python and C.
    """
    options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": True, **more}
    return numba.njit(**options)(function)


def lean(function: Callable[..., Any], **more: Any) -> Any:
    """Apply `helper` to a function that only borrows arrays: numba counts no references to them.

    Counting takes about ten nanoseconds per array and call, a microsecond if the arguments are tuples of arrays. The
    function makes no array, which numba rejects, calls none that returns an array, and returns none. Views are fine.
    """
    return helper(function, _nrt=False, **more)


def lock_cache(dispatcher: Any) -> Any:
    """Let one process at a time use the cached kernels of a function.

    numba numbers the files of a function's kernels without a lock: two processes that compile it for different types
    at once can take one file name, and then load the kernel of the other. A directory that cannot be written needs no
    lock.
    """
    entries = getattr(dispatcher._cache, "_cache_file", None)
    if entries is None or "load" in vars(entries):
        return dispatcher
    load, save, path = entries.load, entries.save, f"{entries._index_path}.lock"
    entries.load = lambda key: _alone(path, load, key)
    entries.save = lambda key, data: _alone(path, save, key, data)
    return dispatcher


def _alone(path: str, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        import fcntl

        lock = open(path, "ab")  # noqa: SIM115  closed below; the directory exists once something is saved
    except (ImportError, OSError):
        return call(*arguments)
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
        return call(*arguments)


def compiled(function: Callable[..., Any]) -> Any:
    """Apply `numba.njit` to a function that Python calls; it releases the interpreter lock and is cached on disk."""
    keyed = _keyed_by_sources(function)
    try:
        return lock_cache(numba.njit(keyed, cache=True, nogil=True))
    except RuntimeError as error:
        # Neither the directory of the package nor the cache of the user is writable. Other errors are raised again.
        uncached = numba.njit(keyed, nogil=True)
        warnings.warn(
            f"search kernels are compiled in every process, which takes several seconds: {error}; "
            "set NUMBA_CACHE_DIR to a writable directory",
            RuntimeWarning,
            stacklevel=2,
        )
        return uncached
