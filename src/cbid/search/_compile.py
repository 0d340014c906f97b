"""How the kernels are compiled: numba, without the interpreter lock, kept on disk between processes."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding

__all__ = ["HAS_AVX2", "HAS_VBMI", "compiled", "simd_wanted"]


def _has(feature: str) -> bool:
    # numba compiles for this processor, unless NUMBA_CPU_FEATURES (part of its cache's key) names another.
    given = getattr(numba.config, "CPU_FEATURES", None)
    if given is not None:
        return f"+{feature}" in given.split(",")
    return bool(binding.get_host_cpu_features().get(feature, False))


HAS_AVX2 = _has("avx2")
HAS_VBMI = _has("avx512vbmi") and _has("avx512bw")


def simd_wanted() -> bool:
    """Whether the SIMD filters run: where the processor has AVX2, unless CBID_SIMD=off."""
    setting = os.environ.get("CBID_SIMD", "auto")
    if setting not in ("auto", "off"):
        raise ValueError(f"the environment variable CBID_SIMD is {setting!r}; 'auto' or 'off' is accepted")
    return HAS_AVX2 and setting == "auto"


def compiled(function: Callable) -> Any:
    """`numba.njit` that lets other threads run and is cached on disk where a place for it can be written."""
    try:
        return numba.njit(function, cache=True, nogil=True)
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
        return numba.njit(function, nogil=True)
