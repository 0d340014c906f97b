"""Raw results first: every script stores what it measured and where; figures are computed from these files.

One JSON file for each script, or one JSON line for each cell. Lines are written by ``cbid.paper.raw``, which the
experiments of the paper use, too.
"""

import json
import os
from pathlib import Path

from cbid.paper.raw import append_line, defaults_fingerprint, describe_machine, today

FOLDER = Path(__file__).parent / "results"


def store(name, results):
    """Write results (JSON values) to benchmarks/results/NAME.json."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    about = {"machine": describe_machine(), "defaults": defaults_fingerprint(), "made": today()}
    content = {**about, "results": results}
    path.write_text(json.dumps(content, indent=1, default=float) + "\n")
    print(f"raw results: benchmarks/results/{path.name}")


def load(name, default=None):
    """Return the results of benchmarks/results/NAME.json, or the default if it does not exist."""
    path = FOLDER / f"{name}.json"
    if default is not None and not path.exists():
        return default
    return json.loads(path.read_text())["results"]


def load_lines(name):
    """Return the lines of benchmarks/results/NAME.jsonl."""
    path = FOLDER / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_line(name, line):
    """Append a line to benchmarks/results/NAME.jsonl, with the fingerprint of the defaults of CBID and the day."""
    append_line(FOLDER / f"{name}.jsonl", {**line, "defaults": defaults_fingerprint(), "made": today()})


class Steps(dict):
    """Results of the steps of a long benchmark by name; stored steps are not run again.

    All steps depend on ``setting``; stored steps of another setting are ignored.
    """

    def __init__(self, name, setting):
        super().__init__()
        self.name, self.setting = name, json.loads(json.dumps(setting))
        stored = load(name, {"setting": None})
        if stored["setting"] == self.setting:
            self.update(stored["steps"])

    def once(self, step, run):
        """Return the stored result of a step, or run it; with the load of the machine before and after it."""
        if step not in self:
            load_before = os.getloadavg()[0]
            self[step] = {**run(), "load_average": [load_before, os.getloadavg()[0]]}
            print(step, self[step], flush=True)
            self.claim(None)
        return self[step]

    def claim(self, claims):
        """Store all steps, and what follows from them."""
        store(self.name, {"setting": self.setting, "steps": dict(self), "claims": claims})
