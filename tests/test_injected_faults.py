"""Faults of the system at every call that changes files; see ``benchmarks.injected_faults``."""

import shutil
import sys

import pytest

from benchmarks.injected_faults import CHANGES, FAULTS, run

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux", reason="needs Linux and a C compiler"
)


def check(results, least):
    for result in results:
        assert not result["failures"], (result["change"], result["failures"][0])
    assert sum(sum(result["faults"].values()) for result in results) >= least


def test_a_sample_of_faults():
    results = run(every=13, names=("CodeIndex.add",), timeout=300)
    assert results[0]["calls"] >= 10
    check(results, least=5)


@pytest.mark.long
def test_every_fault_of_every_change():
    results = run()
    assert {result["change"] for result in results} == set(CHANGES)
    assert all(set(result["faults"]) == set(FAULTS) for result in results)
    check(results, least=1000)
