"""What the place of a patch in its image does: exact NBNN and ITQ with it, C-BID without.

    python -m benchmarks.nbnn_place

The rows of docs/nbnn.md that are not in the table of ``cbid reproduce patches``, with its descriptors, draws and
queries. Results are the lines of benchmarks/results/patch_place.jsonl; what is there is not run again.
"""

import time
from pathlib import Path

from benchmarks.nbnn_times import SETS
from benchmarks.results import FOLDER
from cbid.paper.base import Context
from cbid.paper.patches import EXPERIMENT, PLACE_METHODS
from cbid.paper.raw import RawResults
from cbid.paper.runner import one_thread

RAW = RawResults(FOLDER / "patch_place.jsonl")
FEW_DRAWS = 2  # of exact NBNN on Scene-15, which takes long


def cells():
    draws = [cell for cell in EXPERIMENT.cells(SETS, False) if cell["method"] == "exact"]
    return [
        {**cell, "method": method}
        for cell in draws
        for method in PLACE_METHODS
        if method != "placed" or cell["set"] != "scene15" or cell["repeat"] < FEW_DRAWS
    ]


def main():
    context = Context(None, Path("descriptors"))
    for task in EXPERIMENT.tasks(RAW.missing(cells())):
        started = time.process_time()
        with one_thread():
            for settings, result in EXPERIMENT.run(task, context):
                RAW.add(settings, result, time.process_time() - started)
                started = time.process_time()
                print(settings["set"], settings["repeat"], settings["method"], flush=True)


if __name__ == "__main__":
    main()
