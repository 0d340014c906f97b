"""The measured figures of docs/scale.md, from the raw results: ``python -m benchmarks.scale_report``.

The raw results are those of ``scale_memory``, ``scale_encode``, ``scale_index`` and ``scale_milvus``; the plan for a
billion codes has a script of its own, ``scale_plan``.
"""

import json
import re
from pathlib import Path

import numpy as np

from benchmarks.milvus_server import VERSION
from benchmarks.results import FOLDER
from benchmarks.scale_milvus import CANDIDATES, QUERIES

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"


def memory(results: dict) -> str:
    setting, steps = results["setting"], results["steps"]
    learn, encode, compare = steps["learn"], steps["encode"], steps["compare"]
    gigabytes = 4 * setting["rows"] * setting["width"] / 1e9
    return f"""\
{setting["rows"]:,} x {setting["width"]} float32, {gigabytes:.1f} GB in a mapped file, under `"{setting["budget"]}"`
(`python -m benchmarks.scale_memory`). Learning {setting["n_bits"]} bits peaked at {learn["peak"] / 1e9:.2f} GB with a
sample of {learn["sample"]:,} rows, encoding all of them at {encode["peak"] / 1e9:.2f} GB. A fit in memory on the same
sample took {compare["peak_in_memory"] / 1e9:.1f} GB; 5-NN accuracy is {100 * compare["streamed"]:.1f} % with the
streamed coder and {100 * compare["in_memory"]:.1f} % with that one."""


def encode(results: dict) -> str:
    setting, steps, claims = results["setting"], results["steps"], results["claims"]
    seconds = {
        way: np.median([step["seconds"] for name, step in steps.items() if name.startswith(way)])
        for way in ("one process", "numpy", "two workers", "a worker killed")
    }
    same = "the same bytes" if claims["same_bytes_everywhere"] else "bytes that differ"
    return f"""\
{setting["rows"]:,} x {setting["width"]} float32 to {setting["n_bits"]} bits on two cores
(`python -m benchmarks.scale_encode`): {seconds["two workers"]:.1f} s with two workers,
{claims["speed_of_two_workers_to_numpy_with_two_threads"]:.2f} of the speed of `coder.encode` with two BLAS threads
({seconds["numpy"]:.1f} s), and {seconds["one process"]:.1f} s in one process with one thread. One of the workers was
killed (kill -9) at {claims["workers_killed"]} random moments, in a run each: all ended by themselves, after
{seconds["a worker killed"]:.1f} s in the median, and all runs gave {same}."""


def index(results: dict) -> str:
    rows, claims = [], results["claims"]
    for name, step in results["steps"].items():
        n_bits, n, way = (part.split()[0] for part in name.split(", "))
        cells = [
            n_bits,
            f"{int(n):,}",
            "exact" if way == "exact" else f"{int(way):,} cells, probes by default",
            f"{step['build_seconds']:,.1f}",
            f"{1000 * step['open_seconds']:.1f}",
            f"{step['resident_bytes_per_code'] * int(n) / 1e9:.2f}",
            _ms(step),
            f"{step['one_query_seconds'] / step['pass_over_the_codes_seconds']:.2f}",
            "",
        ]
        rows.append(f"| {' | '.join(cells)} |")
        rows += [
            f"| | | {probed['probes']} probes | | | | {_ms(probed)} | | {probed['recall']:.3f} |"
            for probed in step.get("probes", ())
        ]
    tenfold = " and ".join(f"{c['tenfold_codes_times_as_long']:.1f}" for c in claims.values())
    head = (
        "bits|codes|search|build, s|open, ms|memory, GB|ms a query, alone|in a batch|alone, to the limit|recall at 10"
    )
    table = "\n".join([f"|{head}|", "|---" * 10 + "|", *rows])
    return f"""\
Codes with the structure of groups, uneven weights, one thread (`python -m benchmarks.scale_index`). A query comes
alone or in a batch of {results["setting"]["queries"]}. The limit is the time to read the codes once from memory. Ten
times as many codes (10 to 100 million) take {tenfold} times as long, for 64 and 128 bits.

{table}"""


def _ms(step: dict) -> str:
    return " | ".join(
        f"{1000 * step[which]:.{1 if step[which] > 0.01 else 2}f}"
        for which in ("one_query_seconds", "per_query_of_a_batch_seconds")
    )


def milvus(results: dict) -> str:
    steps = results["steps"]
    learned, hard = steps["recall, learned weights"], steps["recall, exponential weights"]
    bounded, strong, embedded = steps["Milvus, Bounded"], steps["Milvus, Strong"], steps["embedded index, one thread"]
    filled, removed = steps["filled"], steps["removed"]
    spread, hard_spread = (which["deviation_of_weights_to_their_mean"] for which in (learned, hard))
    rows = "\n".join(
        f"| {c:,} | {learned['recall_at_10'][str(c)]:.3f} | {hard['recall_at_10'][str(c)]:.3f} "
        + _times(bounded[str(c)], strong[str(c)])
        for c in CANDIDATES
    )
    return f"""\
{filled["codes"]:,} codes of {results["setting"]["n_bits"]} bits in a server of version {VERSION}; the 10 nearest of
{QUERIES} further vectors. Recall is against the exact index. The vectors are made up, of classes that overlap, and
the coder was chosen so that there is something to re-rank: `penalty="l1"`, whose weights deviate by {spread:.2f} of
their mean. The default penalty makes weights nearly even, and the candidates are then nearly the answer already.
Exponentially distributed weights ({hard_spread:.2f}) are a hard case. Measure yours (`store.measure_recall`). Times
are milliseconds a query, alone or in a batch of {QUERIES}, server and client on the same two cores.

| candidates | recall, learned | recall, exponential | alone, "Bounded" | alone, "Strong" | in a batch |
|---|---|---|---|---|---|
{rows}
| `CodeIndex`, one thread | 1 | 1 {_times(embedded, embedded)}

{filled["codes_per_second"]:,.0f} codes a second were stored. The server was killed (kill -9) in the middle and was
started again five seconds later: the call resumed on its own, and {_count(filled["lost"])} of the codes was missing.
Of {removed["removed"]:,} ids removed right before another kill, {_count(removed["found_after_it"])} was found
again, and {_count(removed["stored_after_it"])} was still stored."""


def _times(first: dict, second: dict) -> str:
    seconds = (first["one_query_seconds"], second["one_query_seconds"], first["of_a_batch_seconds"])
    return "".join(f"| {1000 * s:.{1 if s < 0.01 else 0}f} " for s in seconds) + "|"


def _count(n: int) -> str:
    return f"{n:,}" if n else "none"


BLOCKS = {"memory": memory, "encode": encode, "index": index, "milvus": milvus}


def raw(block: str) -> dict:
    return json.loads((FOLDER / f"scale_{block}.json").read_text())["results"]


def page_with(block: str, results: dict, page: str | None = None) -> str:
    """docs/scale.md, or the text given, with these results."""
    begin, end = f"<!-- {block}: written by python -m benchmarks.scale_report -->", f"<!-- end of {block} -->"
    text = f"{begin}\n{BLOCKS[block](results)}\n{end}"
    return re.sub(f"{begin}.*{end}", lambda _: text, PAGE.read_text() if page is None else page, flags=re.S)


def document() -> str:
    """Return docs/scale.md."""
    page = PAGE.read_text()
    for block in BLOCKS:
        page = page_with(block, raw(block), page)
    return page


def main() -> None:
    PAGE.write_text(document())


if __name__ == "__main__":
    main()
