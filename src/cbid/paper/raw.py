"""Raw results: one JSON line for each cell, keyed by its settings, and the machine that computed them.

Metrics are computed afterwards, from these files alone. The scripts in ``benchmarks`` store their results with the
same functions.
"""

import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

import cbid
from cbid.paper.base import Result, Results, Row, Settings, key_of
from cbid.report.html import package_versions
from cbid.storage.atomic import flush

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "numba",
    "opencv-python-headless",
    "scikit-image",
    "pillow",
    "matplotlib",
)


class RawResults:
    """The results of one experiment in one file, one line for each cell.

    A line is written with one system call, so lines of several workers do not mix. ``repair`` removes an incomplete
    last line, which a killed run may leave; its cell is run again. Other damaged lines count as missing; ``problem``
    reports them.
    """

    def __init__(self, path: str | os.PathLike[str], revision: int = 1) -> None:
        self.path = Path(path)
        self.revision = revision

    def repair(self) -> None:
        """Remove an incomplete last line."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            os.truncate(self.path, end)

    def add(self, settings: Settings, result: Result, seconds: float) -> None:
        """Write one line; it is on the disk when this returns."""
        line = {"settings": settings, "revision": self.revision, "seconds": round(seconds, 3), "result": result}
        append_line(self.path, line)

    def read(self) -> dict[str, Row]:
        """Return the rows of this revision by the key of their settings."""
        return self._read()[0]

    def problem(self) -> str | None:
        """Return a message that names the damaged lines, or None."""
        bad = self._read()[1]
        if not bad:
            return None
        number, reason = bad[0]
        lines = f"line {number} is" if len(bad) == 1 else f"{len(bad)} lines, the first is line {number}, are"
        return f"{self.path.name}: {lines} damaged ({reason}); these results count as missing"

    def _read(self) -> tuple[dict[str, Row], list[tuple[int, str]]]:
        """Return the rows by key, and (number, reason) of each damaged line."""
        found: dict[str, Row] = {}
        bad: list[tuple[int, str]] = []
        if not self.path.exists():
            return found, bad
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                    row = Row(entry["settings"], entry["result"], entry["seconds"])
                    current = entry["revision"] == self.revision
                except (ValueError, KeyError, TypeError) as error:
                    bad.append((number, f"{type(error).__name__}: {error}"))
                    continue
                if current:
                    found[key_of(row.settings)] = row
        return found, bad

    def results(self, cells: list[Settings]) -> Results:
        """Return the results of those of these cells that are stored, in their order."""
        found = self.read()
        return Results([found[key] for key in map(key_of, cells) if key in found])

    def missing(self, cells: list[Settings]) -> list[Settings]:
        """Return those of these cells that are not stored."""
        found = self.read()
        return [settings for settings in cells if key_of(settings) not in found]


def append_line(path: Path, value: Any) -> None:
    """Append a value as one line of JSON in one write; it is on the disk when this returns."""
    new = not path.exists()
    data = (json.dumps(value, default=to_json, separators=(",", ":")) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        written = os.write(handle, data)
        if written != len(data):
            # Remove the incomplete line, unless another worker has written after it.
            end = os.lseek(handle, 0, os.SEEK_CUR)
            if os.fstat(handle).st_size == end:
                os.ftruncate(handle, end - written)
            raise OSError(f"{path}: only {written} of {len(data)} bytes were written; is the disk full?")
        os.fsync(handle)
    finally:
        os.close(handle)
    if new:
        flush(path.parent)


def to_json(value: Any) -> Any:
    """Return a numpy value as a JSON value; for the argument ``default`` of ``json.dumps``."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def describe_machine() -> dict[str, Any]:
    """Return processor, memory, system, and the versions of the packages that compute."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {"cbid": cbid.__version__, **package_versions(_PACKAGES)},
    }


def _processor() -> str:
    """Return the name of the processor; on Linux from /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (ValueError, OSError, AttributeError):
        return "unknown"
