"""The filters of the other kind of processor: those for AVX-512 VBMI where there is AVX2 alone, and those for AVX2
where there is VBMI. The tests of filters and scans are run over them in a process of their own."""

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
    assert "skipped" not in run.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.skipif(HAS_VBMI, reason="the processor has VBMI: all other tests run over these filters")
@pytest.mark.skipif(not HAS_AVX2, reason="without AVX2 the filters are the portable ones")
def test_six_bit_filters_are_exact(tmp_path):
    run_tests(["test_filters.py", "test_scan.py"], tmp_path, "-p", "tests.search.kernels.six_bit")


@pytest.mark.slow
@pytest.mark.skipif(not HAS_VBMI, reason="the processor has no VBMI: all other tests run over these filters, or none")
def test_four_bit_filters_are_exact(tmp_path):
    host = binding.get_host_cpu_features()
    features = ",".join(f"+{name}" for name, there in host.items() if there and not name.startswith("avx512"))
    run_tests(
        ["test_filters.py", "test_scan.py", "test_guess.py", "test_spread.py"],
        tmp_path,
        NUMBA_CPU_NAME="haswell",
        NUMBA_CPU_FEATURES=features,
    )
