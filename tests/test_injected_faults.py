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


FITS = tuple(name for name in CHANGES if name.startswith("Project.fit"))


@pytest.mark.long
def test_every_fault_of_every_short_change():
    results = run(names=tuple(name for name in CHANGES if name not in FITS))
    assert all(set(result["faults"]) == set(FAULTS) for result in results)
    check(results, least=600)


@pytest.mark.long
def test_faults_of_fits():
    """A fit takes seconds, so only some of its calls fail here; the benchmark runs them all."""
    results = run(every=41, names=FITS)
    check(results, least=5)
