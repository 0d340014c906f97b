"""Raw results: one JSON line for each cell, keyed by its settings, and the machine that computed them.

Metrics are computed afterwards, from these files alone. The scripts in ``benchmarks`` store their results with the
same functions.
"""

import gzip
import json
import os
import platform
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np

import cbid
from cbid.paper.base import (
    ALL_DEFAULTS,
    CLASS_BITS,
    INDEPENDENT,
    PAPER_SETTINGS,
    PATCH_BITS,
    Experiment,
    Result,
    Results,
    Row,
    Settings,
    key_of,
)
from cbid.report.html import package_versions
from cbid.storage.atomic import flush, whole_file
from cbid.storage.digests import digest_text

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
    reports them. Lines of a packed file beside it (``.jsonl.gz``) come first.

    Every line names the day and the defaults of CBID that it was measured with: ``defaults_fingerprint`` of the
    ``scope``, and of PAPER_SETTINGS for the ``paper_forms``. Those of the ``independent`` methods have none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        revision: int = 1,
        independent: Collection[str] = (),
        scope: str = ALL_DEFAULTS,
        paper_forms: Collection[str] = (),
    ) -> None:
        self.path = Path(path)
        self.revision = revision
        self.independent = independent
        self.scope = scope
        self.paper_forms = paper_forms

    @classmethod
    def of(cls, experiment: Experiment, folder: str | os.PathLike[str]) -> Self:
        """Return the raw results of an experiment in the folder of a run."""
        path = Path(folder) / "raw" / f"{experiment.name}.jsonl"
        return cls(path, experiment.revision, experiment.independent, experiment.scope, experiment.paper_forms)

    def _row(self, settings: Settings, result: Result, seconds: float, defaults: Any, made: Any) -> Row:
        if settings.get("method") in self.independent:
            defaults = INDEPENDENT
        elif defaults == defaults_fingerprint():  # all of today's, and so those of the scope
            own = settings.get("method") in self.paper_forms
            defaults = defaults_fingerprint(PAPER_SETTINGS if own else self.scope)
        return Row(settings, result, seconds, defaults, made)

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
        row = self._row(settings, result, round(seconds, 3), defaults_fingerprint(), today())
        append_line(self.path, self._entry(row))

    def _entry(self, row: Row) -> dict[str, Any]:
        """Return a row as the JSON value of its line."""
        about = {"settings": row.settings, "revision": self.revision, "defaults": row.defaults, "made": row.made}
        return {**about, "seconds": row.seconds, "result": row.result}

    @property
    def packed(self) -> Path:
        """The compressed file beside it."""
        return self.path.with_name(f"{self.path.name}.gz")

    def pack(self) -> Path:
        """Write the latest line of each cell to the compressed file; the same lines give the same bytes."""
        rows = self.read()
        with whole_file(self.packed) as temporary, open(temporary, "wb") as file:
            lines = gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="")
            for row in rows.values():
                lines.write((json.dumps(self._entry(row), separators=(",", ":")) + "\n").encode())
            lines.close()
        self.path.unlink(missing_ok=True)
        return self.packed

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and text of each complete line: those of the packed file, then the others."""
        for path, opened in ((self.packed, gzip.open), (self.path, open)):
            if path.exists():
                with opened(path, "rb") as file:
                    for number, line in enumerate(file, 1):
                        if line.endswith(b"\n"):
                            yield number, line

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
        for number, line in self._lines():
            try:
                entry = json.loads(line)
                of = (entry["settings"], entry["result"], entry["seconds"])
                row = self._row(*of, entry.get("defaults"), entry.get("made"))
                current = entry["revision"] == self.revision
            except (ValueError, KeyError, TypeError, AttributeError) as error:
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
        """Return those of these cells that are not stored, or were measured with other defaults of CBID."""
        current = {key for key, row in self.read().items() if is_current(row)}
        return [settings for settings in cells if key_of(settings) not in current]


# The values that the coders use where a parameter is None.
_CONSTANTS = ("cbid.coders.large_margin", "cbid.learning.likeness", "cbid.learning.form")
_CONSTANTS_OF_PATCHES = ("cbid.coders.patch_cbid", "cbid.learning.patches", "cbid.classify.class_distances")
_OF_THE_RUN = ("callback", "n_jobs", "random_state", "verbose", "warm_start")


# What class bits of a given form do not depend on: the constants of likeness, and those of the choice of the form.
_NOT_OF_CLASS_BITS = ("cbid.learning.likeness", "cbid.learning.form")
_SKIPPED_BY_CLASS_BITS = (
    *("likeness", "_LIKENESS_UNIT", "_LIKENESS_SCALE", "_CLASS_ROW", "_DEFAULT_LIKENESS"),
    *("kernel", "_MANY_CLASSES", "_LEAST_LINEAR", "_SHARE_COMPONENTS", "_SETS_SMOOTHING"),
)
_OF_THE_PAPER_FORM = ("_LINEAR_COMPONENTS",)  # the one constant that ``CBID.paper`` leaves to the coder


@cache
def defaults_fingerprint(scope: str = ALL_DEFAULTS) -> str:
    """Return a text that changes with any default of ``CBID`` that bits or weights depend on.

    With the scope ``CLASS_BITS`` only with those that matter to ``CBID(likeness=0)`` with a given kernel, with
    ``PAPER_SETTINGS`` with the settings of ``CBID.paper``, with ``PATCH_BITS`` with those of ``PatchCBID`` and of the
    class factors of NBNN.
    """
    coders = {
        # Patches have a scope of their own, so the number that stored fingerprints know stays.
        ALL_DEFAULTS: (cbid.CBID(), cbid.PatchCBID(max_patches=10_000)),
        CLASS_BITS: (cbid.CBID(),),
        PAPER_SETTINGS: (cbid.CBID.paper(),),
        PATCH_BITS: (cbid.PatchCBID(), cbid.NBNNClassifier()),
    }[scope]
    known: dict[str, Any] = {type(coder).__name__: coder.get_params() for coder in coders}
    for place in _CONSTANTS_OF_PATCHES if scope == PATCH_BITS else _CONSTANTS:
        if scope == ALL_DEFAULTS or place not in _NOT_OF_CLASS_BITS:
            known[place] = _constants(place)
    skipped = (*_OF_THE_RUN, *(_SKIPPED_BY_CLASS_BITS if scope == CLASS_BITS else ()))
    kept = {place: {k: v for k, v in values.items() if k not in skipped} for place, values in known.items()}
    if scope == PAPER_SETTINGS:
        place = "cbid.coders.large_margin"
        kept[place] = {k: kept[place][k] for k in _OF_THE_PAPER_FORM}
    if scope == PATCH_BITS:
        own = {"whitening": cbid.PatchCBID.whitening, "paper": cbid.PatchCBID.paper().get_params()}
        kept["own"] = {"_NU": _constants("cbid.coders.large_margin")["_NU"], **own}
    return digest_text(json.dumps(kept, sort_keys=True, default=_name_of), size=6)


def _constants(place: str) -> dict[str, Any]:
    values = vars(import_module(place)).items()
    return {k: v for k, v in values if k.strip("_").isupper() and isinstance(v, (int, float, str, tuple, dict))}


def current_defaults() -> set[str]:
    """Return what the lines of today's defaults of CBID name."""
    return {INDEPENDENT, *map(defaults_fingerprint, (ALL_DEFAULTS, CLASS_BITS, PAPER_SETTINGS, PATCH_BITS))}


def is_current(row: Row) -> bool:
    """Return whether a row was measured with today's defaults of CBID, or with none at all."""
    return row.defaults in current_defaults()


def _name_of(value: Any) -> str:
    """Return a text for a value that JSON cannot hold; the same in every process, so never an address."""
    return getattr(value, "__qualname__", type(value).__qualname__)


def today() -> str:
    """Return the date in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


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
