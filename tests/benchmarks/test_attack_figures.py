"""The pages state the figures of the stored attacks, and those are within their limits."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.service_load import is_flat

ROOT = Path(__file__).parents[2]
README, FORMATS, SERVICE, IMAGES = (
    " ".join((ROOT / name).read_text().split())
    for name in ("benchmarks/README.md", "docs/file_formats.md", "docs/service.md", "docs/images.md")
)


def raw(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def fifth(values, number):
    return f"{np.mean(np.array_split(values, 5)[number]):.0f}"


def test_injected_faults():
    results = raw("injected_faults")["results"]
    n = sum(sum(result["faults"].values()) for result in results)
    assert n >= 1000
    assert not any(result["failures"] for result in results)
    assert f"| {n:,} faults in ten changes: 0 failures |" in README
    assert len(results) == 10


def test_file_mutants():
    found = raw("file_mutants")
    parts = found["formats"].values()
    n, accepted = sum(found["done"].values()), sum(part.get("accepted", 0) for part in parts)
    without = sum(
        sum(part.get(to, 0) for to in ("same", "accepted", "rejected")) for part in parts if not part["checksums"]
    )
    assert n >= 20_000
    assert found["findings"] == []
    assert not any(part.get("accepted") for part in parts if part["checksums"])
    assert (
        f"of {n:,} damaged files of all formats, none was accepted with checksums, and {accepted} of {without:,}"
        in FORMATS
    )
    assert f"| {n:,} damaged files: none accepted with checksums, {accepted} of {without:,} without |" in README


def test_hostile_images():
    found = raw("hostile_images")
    slowest = max(request["seconds"] for request in found["requests"])
    memory = max(request["together"] for request in found["requests"]) / 1e6
    assert len({request["family"] for request in found["requests"]}) == 25  # one of them is sound
    assert slowest < 2
    assert memory < 300
    assert found["p99_ratio"] < 2
    p99 = {when: found["searches"][when]["p99"] for when in ("quiet", "attacked")}
    assert f"slowest answer {slowest:.2f} s" in README
    assert f"at most {memory:.0f} MB in the service and its decoders together" in README
    assert f"p99 of searches {p99['quiet']:.1f} ms quiet, {p99['attacked']:.1f} ms beside them" in README


def test_soak():
    alone, attacked = raw("service_soak")["results"]["runs"]
    assert attacked["clients"] == 50
    assert attacked["seconds"] >= 600
    assert not attacked["errors"]
    assert all(is_flat(attacked["trends"][what]) for what in ("resident_mib", "descriptors"))
    half = len(attacked["children"]) // 2  # a count near one has no useful trend
    assert max(attacked["children"][half:]) <= max(attacked["children"][:half])
    rates = [f"{run['per_second']:.0f}" for run in (attacked, alone)]
    memory, descriptors = (
        [fifth(attacked[what], number) for number in (1, 4)] for what in ("resident_mib", "descriptors")
    )
    assert f"{rates[0]} requests a second ({rates[1]} alone)" in README
    assert f"{rates[0]} requests a second, and {rates[1]} without the attackers" in SERVICE
    assert f"memory {memory[0]} MiB in the second fifth and {memory[1]} in the last" in README
    assert f"took {memory[0]} MiB and {descriptors[0]} descriptors in the second fifth" in SERVICE
    assert f"{memory[1]} MiB and {descriptors[1]} in the last" in SERVICE


@pytest.mark.parametrize("size", ["64 x 64", "320 x 240", "1280 x 960"])
def test_isolated_decoding(size):
    """The smallest of the rounds, and the larger of one and two jobs."""
    costs = []
    for n_jobs in (1, 2):
        rows = [
            row
            for row in raw("isolated_decoding")["results"]["rows"]
            if (row["size"], row["n_jobs"]) == (size, n_jobs)
        ]
        apart, here = (
            min(row["seconds"] for row in rows if row["isolated"] == isolated) for isolated in (True, False)
        )
        costs.append(100 * (apart / here - 1))
    assert max(costs) <= 15
    assert f"{size}: {max(costs):+.0f} %" in README
