"""Raw results as lines of JSON, one for each cell, keyed by settings, written once and never changed."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from cbid.paper.base import Result, Results, Row, Settings, key_of
from cbid.storage.atomic import flush

__all__ = ["RawResults"]


class RawResults:
    """The lines of one experiment in one file.

    A line goes to the file in one write, so that workers do not mix theirs. What a kill left of a line without its
    end is cut off when the file is opened with ``mend``, and its cell is run again. A line that is no raw result, of
    which a full disk may have kept the half, counts as missing; ``problem`` tells of it.
    """

    def __init__(self, path: str | os.PathLike[str], revision: int = 1) -> None:
        self.path = Path(path)
        self.revision = revision

    def mend(self) -> None:
        """Cut off a line that was not written to its end."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            os.truncate(self.path, end)

    def add(self, settings: Settings, result: Result, seconds: float) -> None:
        """One line, on the disk when this returns."""
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {"settings": settings, "revision": self.revision, "seconds": round(seconds, 3), "result": result}
        data = (json.dumps(line, default=_plain, separators=(",", ":")) + "\n").encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            written = os.write(handle, data)
            if written != len(data):
                _take_back(handle, written)
                raise OSError(f"{self.path}: the line was not written whole; is the disk full?")
            os.fsync(handle)
        finally:
            os.close(handle)
        if new:
            flush(self.path.parent)

    def read(self) -> dict[str, Row]:
        """What is there, by the key of its settings; results of other revisions do not count."""
        return self._read()[0]

    def problem(self) -> str | None:
        """Which lines are no raw results, or None."""
        bad = self._read()[1]
        if not bad:
            return None
        number, reason = bad[0]
        told = f"line {number} is no raw result ({reason})"
        if len(bad) > 1:
            told = f"{len(bad)} lines are no raw results, the first of them line {number} ({reason})"
        return f"{self.path.name}: {told}; what it held counts as missing"

    def _read(self) -> tuple[dict[str, Row], list[tuple[int, str]]]:
        """Results by their key, and the numbers of bad lines with reasons."""
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
        """Those of these cells that are there, in their order."""
        found = self.read()
        return Results([found[key] for key in map(key_of, cells) if key in found])

    def missing(self, cells: list[Settings]) -> list[Settings]:
        """Those of these cells that are not there."""
        found = self.read()
        return [settings for settings in cells if key_of(settings) not in found]


def _take_back(handle: int, written: int) -> None:
    """Cut off what was written last, unless another worker has written behind it: then it stays, as a bad line."""
    end = os.lseek(handle, 0, os.SEEK_CUR)
    if os.fstat(handle).st_size == end:
        os.ftruncate(handle, end - written)


def _plain(value: Any) -> Any:
    """numpy's values as JSON's."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON value")
