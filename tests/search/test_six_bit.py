"""The filters for AVX-512 VBMI, on any processor that has AVX2: the tests of filters and scans, run over them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cbid.search._compile import HAS_AVX2, HAS_VBMI

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(HAS_VBMI, reason="the processor has VBMI: all other tests run over these filters")
@pytest.mark.skipif(not HAS_AVX2, reason="without AVX2 the filters are the portable ones")
def test_six_bit_filters_are_exact(tmp_path):
    tests = ["tests/search/test_filters.py", "tests/search/test_scan.py"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.search.six_bit", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert "skipped" not in run.stdout.splitlines()[-1]
