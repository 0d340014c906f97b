"""docs/evidence from runs of ``cbid reproduce``: packs their raw lines, then writes the report from these alone.

python -m benchmarks.evidence [RUN ...]     # folders with raw/NAME.jsonl; without any, only the report is rewritten
"""

import sys
from pathlib import Path

from benchmarks.figures import EVIDENCE
from benchmarks.results import FOLDER
from cbid.paper import EXPERIMENTS, get_experiment, reproduce
from cbid.paper.raw import RawResults


def main(runs: list[str]) -> None:
    for name in EXPERIMENTS:
        stored = RawResults(EVIDENCE / "raw" / f"{name}.jsonl", get_experiment(name).revision)
        lines = [Path(run, "raw", stored.path.name) for run in runs]
        new = b"".join(path.read_bytes() for path in lines if path.exists())
        if new:
            stored.path.parent.mkdir(parents=True, exist_ok=True)
            stored.path.write_bytes(new)
            print(stored.pack())
    with_lines = [name for name in EXPERIMENTS if (EVIDENCE / "raw" / f"{name}.jsonl.gz").exists()]
    print(reproduce(with_lines, out=EVIDENCE, run=False, photographs=False, benchmarks=FOLDER).report)


if __name__ == "__main__":
    main(sys.argv[1:])
