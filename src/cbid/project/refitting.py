"""Learning again from the images that a project holds, with the current labels.

    python -m cbid.project.refitting PROJECT

prints one JSON object per line: {"phase": "learning", "done": 12, "total": 64}. The last one is {"phase": "done"} or
{"phase": "failed", "error": ...}.
"""

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from cbid import coders
from cbid.project.files import IMAGES, ProjectManifest, remove_unused
from cbid.project.fitting import ProjectFit, split
from cbid.project.intake import Intake
from cbid.project.models import coder_settings, is_supervised
from cbid.project.table import PENDING, ImageTable
from cbid.search import CodeIndex
from cbid.storage.atomic import WriterLock

Report = Callable[[str, int, int], Any]


def refit(path: str | os.PathLike[str], *, report: Report | None = None) -> None:
    """Learn new codes from all stored images: those of the source and those that were added, with the current labels.

    Coder, held-out share and seed stay as they are. No image is read again. A refit that is killed leaves the project
    as it was.

    Parameters
    ----------
    path : path
        A project.
    report : function of (phase, done, total) or None, default=None
        Is called with the phases "learning", "encoding" and "measuring"; in "learning" with every bit.
    """
    directory = Path(path)
    manifest = ProjectManifest.read(directory)
    lock = WriterLock(directory)
    try:
        remove_unused(directory)
        manifest = ProjectManifest.read(directory)
        run = ProjectFit(directory, None, manifest.source, None, None, False)
        run.descriptor = manifest.descriptor
        if report is not None:
            run.report = report
        coder = clone(coders.load(directory / manifest.coder))
        with closing(ImageTable(directory / IMAGES, write=True)) as table:
            taken = _stored(directory, manifest, table)
            settings = {**manifest.settings, "coder": coder_settings(coder)}
            held_out, seed = settings["held_out"], settings["seed"]
            parts = split(taken.names, taken.labels, held_out, seed, supervised=is_supervised(coder))
            run.learn_and_commit(table, taken, 0, parts, coder, settings, manifest.n_features)
    finally:
        lock.release()


def _stored(directory: Path, manifest: ProjectManifest, table: ImageTable) -> Intake:
    """Return the committed images, with the labels that the index holds."""
    with CodeIndex.open(directory / manifest.index) as index:
        names = index.labels
        labels = dict(zip(index.ids.tolist(), [] if names is None else names.tolist()))
    rows = [row for row in table.rows() if row.id in labels and row.part != PENDING]
    ids = np.array([row.id for row in rows], dtype=np.int64)
    return Intake(ids, [row.name for row in rows], [labels[row.id] or None for row in rows], 0)


class RefitProcess:
    """A process that learns the codes of a project again, and its last report."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._begun = 0.0
        self._state: dict[str, Any] = {"phase": "never"}

    @property
    def state(self) -> dict[str, Any]:
        """The last report: phase, done, total, error, and the seconds since the start while it runs."""
        with self._mutex:
            running = self._process is not None
            return {**self._state, **({"seconds": time.monotonic() - self._begun} if running else {})}

    def start(self, path: Path) -> bool:
        """Start the process; return False if one runs."""
        with self._mutex:
            if self._process is not None:
                return False
            paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cbid.project.refitting", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                text=True,
            )
            self._begun, self._state = time.monotonic(), {"phase": "starting"}
            threading.Thread(target=self._follow, args=(self._process,), name="cbid-refit", daemon=True).start()
            return True

    def cancel(self) -> None:
        """Stop the process, if one runs. The project stays as it was."""
        with self._mutex:
            process = self._process
            if process is None:
                return
            self._state = {"phase": "cancelled"}
            process.terminate()
        process.wait(10)

    def _follow(self, process: subprocess.Popen[str]) -> None:
        report: dict[str, Any] = {}
        with process:
            for line in process.stdout or ():
                report = json.loads(line)
                with self._mutex:
                    if self._state["phase"] != "cancelled" and report["phase"] not in ("done", "failed"):
                        self._state = report
        with self._mutex:  # only now another one can start
            self._process = None
            if self._state["phase"] != "cancelled":
                lost = {"phase": "failed", "error": f"the process ended with status {process.returncode}"}
                self._state = report if report.get("phase") in ("done", "failed") else lost
            self._state["seconds"] = time.monotonic() - self._begun


def main(path: str) -> int:
    """Refit, and print the progress; return the exit status."""

    def say(**values: Any) -> None:
        print(json.dumps(values), flush=True)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refit(path, report=lambda phase, done, total: say(phase=phase, done=done, total=total))
    except (ValueError, OSError) as error:
        say(phase="failed", error=" ".join(str(error).split()))
        return 1
    say(phase="done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
