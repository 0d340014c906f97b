"""The figures of Milvus in docs/scale.md, from the raw results: ``python -m benchmarks.scale_milvus_report``."""

import json
import re
from pathlib import Path

from benchmarks.milvus_server import VERSION
from benchmarks.results import FOLDER
from benchmarks.scale_milvus import CANDIDATES, QUERIES

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
BEGIN, END = "<!-- milvus: written by python -m benchmarks.scale_milvus_report -->", "<!-- end of milvus -->"


def raw() -> dict:
    return json.loads((FOLDER / "scale_milvus.json").read_text())["results"]


def as_text(results: dict) -> str:
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
are milliseconds a query, alone or in a batch of {QUERIES}, while the two cores of the machine had other work as well:
read them as orders of magnitude.

| candidates | recall, learned | recall, exponential | alone, "Bounded" | alone, "Strong" | in a batch |
|---|---|---|---|---|---|
{rows}
| `CodeIndex`, one thread | 1 | 1 {_times(embedded, embedded)}

{filled["codes_per_second"]:,.0f} codes a second were stored. The server was killed (kill -9) in the middle and was
started again five seconds later: the call went on by itself, and {_count(filled["lost"])} of the codes was missing.
Of {removed["removed"]:,} ids removed right before another kill, {_count(removed["found_after_it"])} was found
again, and {_count(removed["stored_after_it"])} was still stored."""


def _times(first: dict, second: dict) -> str:
    seconds = (first["one_query_seconds"], second["one_query_seconds"], first["of_a_batch_seconds"])
    return "".join(f"| {1000 * s:.{1 if s < 0.01 else 0}f} " for s in seconds) + "|"


def _count(n: int) -> str:
    return f"{n:,}" if n else "none"


def page_with(results: dict) -> str:
    """docs/scale.md with these results."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{as_text(results)}\n{END}", PAGE.read_text(), flags=re.S)


def main() -> None:
    PAGE.write_text(page_with(raw()))


if __name__ == "__main__":
    main()
