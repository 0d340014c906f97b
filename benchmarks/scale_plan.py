"""A billion codes on paper: bytes, machines, queries per second, waiting and cost, from constants measured here.

Constants come from the raw results of ``search_speed`` (codes scanned per second, in memory and by batches) and of
``index_scale`` (bytes of a code, IVF). What no script here can measure is an argument: how many cores a machine has,
how many times the bandwidth of one core, its memory and its price. Waiting is simulated: queries come at random
(Poisson) and each must be answered by all machines, whose times differ by a tenth.

    python -m benchmarks.scale_plan [--write]    # --write puts the table into docs/scale.md
"""

import argparse
import json
import math
import re
from pathlib import Path

import numpy as np

from benchmarks.results import FOLDER, store

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
BEGIN, END = "<!-- plan: written by python -m benchmarks.scale_plan --write -->", "<!-- end of plan -->"


def constants(n_bits: int) -> dict[str, float]:
    """What was measured on this machine with one thread."""
    speed = json.loads((FOLDER / "search_speed.json").read_text())
    index = json.loads((FOLDER / "index_scale.json").read_text())

    def rate(part: str, way: str) -> float:
        row = next(row for row in speed[part] if row["bits"] == n_bits and row["data"] == "random")
        return 1e9 * row["giga_codes_per_second"][way]

    first, *probed = index["ivf"]
    near = next(row for row in probed if row["recall"] >= 0.99)
    share = near["probes"] / first["cells"]
    return {
        "codes_per_second_one_query": rate("limit", "uniform"),
        "codes_per_second_in_a_batch": rate("batch", "uniform"),
        "codes_per_second_of_memory": rate("limit", "limit"),
        # Beside the code itself: ids, and room for codes that were removed.
        "other_bytes_per_code": index["memory"]["a_tenth_removed"]["resident_per_code"] - index["n_bits"] / 8,
        "ivf_recall": near["recall"],
        "ivf_share": share,
        "ivf_codes_per_second": first["codes"] * share * 1000 / near["seconds"]["1000"],
        "seconds_per_code_and_cell": first["train_and_assign_seconds"] / first["codes"] / first["cells"],
    }


def waiting(service: float, load: float, machines: int, queries: int = 20_000) -> dict[str, float]:
    """Seconds from question to the last machine's answer, by Lindley's recursion on every machine."""
    rng = np.random.default_rng(0)
    gaps = rng.exponential(service / load, queries)
    times = service * rng.normal(1.0, 0.1, (queries, machines)).clip(0.5)
    wait, total = np.zeros(machines), np.empty(queries)
    for i in range(queries):
        wait = np.maximum(wait - gaps[i], 0) + times[i]
        total[i] = wait.max()
    return {"median": float(np.median(total)), "p99": float(np.quantile(total, 0.99))}


def plan(n: int, n_bits: int, c: dict[str, float], machine: argparse.Namespace) -> dict:
    size = n * (n_bits / 8 + c["other_bytes_per_code"])
    machines = math.ceil(size / (0.8 * machine.memory * 1e9))
    per_machine = n / machines
    # One query reads every code once: cores help until the memory is at its limit.
    fast = min(machine.cores * c["codes_per_second_one_query"], machine.channels * c["codes_per_second_of_memory"])
    exact = per_machine / fast
    batch = per_machine / (machine.cores * c["codes_per_second_in_a_batch"])
    ivf = per_machine * c["ivf_share"] / (machine.cores * c["ivf_codes_per_second"])
    cells = 2 ** round(math.log2(4 * math.sqrt(per_machine)))
    ways = {"exact, one at a time": exact, "exact, batches of 1,000": batch, "IVF, batches of 1,000": ivf}
    return {
        "codes": n,
        "n_bits": n_bits,
        "bytes": size,
        "machines": machines,
        "dollars_per_hour": machines * machine.price,
        "cells": cells,
        "hours_to_assign_cells": per_machine * cells * c["seconds_per_code_and_cell"] / machine.cores / 3600,
        "ways": {
            name: {
                "queries_per_second": 1 / seconds,
                "dollars_per_million_queries": machines * machine.price / 3600 * seconds * 1e6,
                "at_70_percent_load": waiting(seconds, 0.7, machines),
            }
            for name, seconds in ways.items()
        },
    }


def table(found: dict, c: dict[str, float], machine: argparse.Namespace) -> str:
    machines = "one machine" if found["machines"] == 1 else f"{found['machines']} machines"
    lines = [
        f"{found['codes']:,} codes of {found['n_bits']} bits take {found['bytes'] / 1e9:.0f} GB "
        f"({found['n_bits'] // 8} bytes and {c['other_bytes_per_code']:.1f} beside them): {machines} of "
        f"{machine.memory} GB and {machine.cores} cores, with {machine.channels} times the bandwidth of one core, at "
        f"{machine.price:g} dollars an hour. Putting the codes into {found['cells']:,} cells takes "
        f"{found['hours_to_assign_cells']:.1f} hours.",
        "",
        "| way | queries a second, at most | dollars a million | median and 99th percentile at 70% load |",
        "|---|---|---|---|",
    ]
    for name, way in found["ways"].items():
        wait = way["at_70_percent_load"]
        note = f" (recall {c['ivf_recall']:.2f})" if name.startswith("IVF") else ""
        lines.append(
            f"| {name}{note} | {way['queries_per_second']:.0f} | {way['dollars_per_million_queries']:.2f} | "
            f"{1000 * wait['median']:.0f} ms, {1000 * wait['p99']:.0f} ms |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=float, default=1e9)
    parser.add_argument("--bits", type=int, default=128)
    parser.add_argument("--memory", type=int, default=64, help="GB of a machine")
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--channels", type=int, default=6, help="bandwidth of a machine, in that of one core")
    parser.add_argument("--price", type=float, default=0.7, help="dollars an hour of a machine")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    c = constants(given.bits)
    found = plan(int(given.codes), given.bits, c, given)
    text = table(found, c, given)
    print(text)
    if given.write:
        store("scale_plan", {"constants": c, "plan": found})
        page = PAGE.read_text()
        PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{text}\n{END}", page, flags=re.S))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
