"""docs/evidence from runs of ``cbid reproduce``: packs their raw lines, then writes the report from these alone.

python -m benchmarks.evidence [RUN ...]     # folders with raw/NAME.jsonl; without any, only the report is rewritten

Lines of an experiment that a script has stored as benchmarks/results/NAME.jsonl are packed, too: those of "patches".
The data sets are not needed.
"""

import sys
from pathlib import Path

from benchmarks.figures import EVIDENCE
from benchmarks.results import FOLDER
from cbid.paper import EXPERIMENTS, get_experiment, reproduce
from cbid.paper.raw import RawResults


def main(runs: list[str]) -> None:
    for name in EXPERIMENTS:
        stored = RawResults.of(get_experiment(name), EVIDENCE)
        lines = [FOLDER / f"{name}.jsonl", *(Path(run, "raw", f"{name}.jsonl") for run in runs)]
        new = b"".join(path.read_bytes() for path in lines if path.exists())
        if new:
            stored.path.parent.mkdir(parents=True, exist_ok=True)
            stored.path.write_bytes(new)
            print(stored.pack())
    print(write(EVIDENCE))


def write(folder: Path) -> Path:
    """Write the report from the raw lines in a folder. Data sets on this machine do not change it."""
    nowhere = folder / "raw"
    return reproduce(out=folder, run=False, photographs=False, root=nowhere, benchmarks=FOLDER).report


if __name__ == "__main__":
    main(sys.argv[1:])
