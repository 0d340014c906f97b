"""The filters of the other kind of processor: of AVX-512 VBMI if it has AVX2 only, of AVX2 if it has VBMI.

The tests of filters and scans run over them in a separate process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import binding

from cbid.search.kernels.compile import HAS_AVX2, HAS_VBMI

ROOT = Path(__file__).parents[2]


def run_tests(names, cache, *options, **environment):
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *(f"tests/search/{n}" for n in names)],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert " passed" in run.stdout.splitlines()[-1]
    assert "skipped" not in run.stdout.splitlines()[-1]


@pytest.mark.long
@pytest.mark.skipif(HAS_VBMI, reason="the processor has VBMI: the other tests cover these filters")
@pytest.mark.skipif(not HAS_AVX2, reason="the processor has no AVX2")
def test_six_bit_filters_are_exact(tmp_path):
    run_tests(["kernels/test_filters.py", "test_scan.py"], tmp_path, "-p", "tests.search.kernels.six_bit")


@pytest.mark.long
@pytest.mark.skipif(not HAS_VBMI, reason="the processor has no VBMI: the other tests cover these filters")
def test_four_bit_filters_are_exact():
    """The other tests for haswell name the same features, so numba's cache lets them share the kernels."""
    host = binding.get_host_cpu_features()
    features = [f"{'+' if has and not name.startswith('avx512') else '-'}{name}" for name, has in host.items()]
    run_tests(
        ["kernels/test_filters.py", "test_scan.py", "test_guess.py", "kernels/test_shared.py"],
        os.environ["NUMBA_CACHE_DIR"],
        NUMBA_CPU_NAME="haswell",
        NUMBA_CPU_FEATURES=",".join(features),
    )
