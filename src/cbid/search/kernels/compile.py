"""How the kernels are compiled: numba, without the interpreter lock, kept on disk between processes."""

import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

import numba
from llvmlite import binding

__all__ = ["HAS_AVX2", "HAS_VBMI", "compiled", "helper", "simd_wanted"]


def _has(feature: str) -> bool:
    # numba compiles for this processor, unless NUMBA_CPU_FEATURES (part of its cache's key) names another.
    given = getattr(numba.config, "CPU_FEATURES", None)
    if given is not None:
        return f"+{feature}" in given.split(",")
    try:
        return bool(binding.get_host_cpu_features().get(feature, False))
    except RuntimeError:  # LLVM cannot tell on this platform; numba then compiles for the least it has
        return False


HAS_AVX2 = _has("avx2")
HAS_VBMI = _has("avx512vbmi") and _has("avx512bw")


def simd_wanted() -> bool:
    """Whether the SIMD filters run: where the processor has AVX2, unless CBID_SIMD=off."""
    setting = os.environ.get("CBID_SIMD", "auto")
    if setting not in ("auto", "off"):
        raise ValueError(f"the environment variable CBID_SIMD is {setting!r}; 'auto' or 'off' is accepted")
    return HAS_AVX2 and setting == "auto"


def _digest_of_sources() -> str:
    sources = sorted(Path(__file__).parent.glob("_*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


_SOURCES = _digest_of_sources()


def _keyed_by_sources(function: Callable[..., Any]) -> FunctionType:
    """The same function with a closure variable that tells all kernel sources apart.

    numba's cache asks only whether the file of a function has changed, not those of the functions it calls
    and has compiled in; but it does compare closure variables.
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


def helper(function: Callable[..., Any]) -> Any:
    """`numba.njit` for what only compiled functions call.

    It becomes part of theirs, so a place of its own in the cache, and ways to call it from Python and from C,
    would only cost time.
    """
    options: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**options)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """`numba.njit` for what Python calls: it lets other threads run, and is cached on disk where a place for
    it can be written."""
    keyed = _keyed_by_sources(function)
    try:
        return numba.njit(keyed, cache=True, nogil=True)
    except RuntimeError as error:
        # numba's way to say that neither the package's directory nor the user's cache can be written.
        if "cannot cache function" not in str(error):
            raise
        warnings.warn(
            f"search kernels are compiled anew in every process (several seconds): {error}; "
            "set NUMBA_CACHE_DIR to a directory that can be written",
            RuntimeWarning,
            stacklevel=2,
        )
        return numba.njit(keyed, nogil=True)
