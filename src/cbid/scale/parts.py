"""Jobs in parts that survive a kill.

A job has a plan: what is computed from what, as JSON. Its parts are files in a folder beside the result. Each is
written atomically, with a checksum and the digest of the plan, and is not recomputed when the job runs again. When
all parts exist they are joined into ``.npy`` files, and a record beside the result holds the plan.
"""

import json
import operator
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.storage.atomic import whole_file
from cbid.storage.digests import digest_text
from cbid.storage.tensors import Arrays, FileKind, GrowingArray

_PART_NAME = re.compile(r"part-\d{6}\.safetensors")
# What ``whole_file`` leaves of a part or a plan when it is killed.
_TEMPORARY = re.compile(rf"\.({_PART_NAME.pattern}|plan\.json)\.[a-z0-9_]{{8}}\.tmp")
IDS = "ids"  # the array of a part that names its rows

Span = tuple[int, int]
# Computes rows start..stop-1: arrays, and notes as JSON values. Must be picklable.
Task = Callable[[int, int], tuple[Arrays, list[Any]]]


class PartError(ValueError):
    """A part is damaged or belongs to another job."""


_PART = FileKind(format="cbid-part", version=1, noun="part", error=PartError)


@dataclass(frozen=True)
class Job:
    """A task over spans of rows, and the files of its results."""

    task: Task
    spans: list[Span]
    outputs: dict[str, Path]  # the ``.npy`` file of each array that the task returns
    record: Path  # the file that marks the results as complete
    plan: dict[str, Any] = field(default_factory=dict)  # what the results depend on; the spans are added to it
    sources: Sequence[str | os.PathLike[str]] = ()  # files that are read; none of them may be an output
    uneven: frozenset[str] = frozenset()  # arrays with another number of rows, such as all descriptors of some images
    ids_file: Path | None = None  # of results without ids: where old ids of replaced results would be, to remove
    fixed: bool = True  # the caller chose the spans; otherwise those of an earlier run of the same plan are used

    @property
    def folder(self) -> Path:
        """The folder of the parts, until they are joined."""
        return self.record.with_name(self.record.name.removesuffix(".json") + ".parts")

    @property
    def digest(self) -> str:
        """The digest of the plan, stored in every part."""
        return digest_text(_text(self._full_plan()))

    def with_earlier_spans(self) -> "Job":
        """Return the job with the spans of an earlier run of the same plan, unless the caller chose the spans."""
        if not self.fixed:
            own = self._full_plan()
            for found in (self._recorded_plan(), self._started_plan()):
                if found is not None and "spans" in found and {**found, "spans": own["spans"]} == own:
                    return replace(self, spans=[(start, stop) for start, stop in found["spans"]])
        return self

    def is_done(self, *, overwrite: bool) -> bool:
        """Return whether the results of this plan exist. Results of another plan raise, unless ``overwrite``."""
        present = [path for path in self.outputs.values() if path.exists()]
        for path in present:
            if any(os.path.exists(source) and path.samefile(source) for source in self.sources):
                raise ValueError(f"out: {path} is the source itself; give another name")
        plan, started = self._full_plan(), self._started_plan()
        if self._recorded_plan() == plan and len(present) == len(self.outputs):
            if started in (None, plan):
                self._remove_parts()  # left by a run that was stopped at the very end
            return True
        # Outputs without a record, and parts of this plan: the job was stopped while it joined them.
        own = started == plan and not self.record.exists()
        if present and not overwrite and not own:
            raise FileExistsError(
                f"{present[0]} exists and was made of something else; remove it or set overwrite=True"
            )
        return False

    def open(self, *, overwrite: bool) -> None:
        """Create the folder of parts, or reuse it. Parts of another plan raise, unless ``overwrite``."""
        found, plan = self._started_plan(), self._full_plan()
        if found == plan:
            return
        parts = [path for path in self.folder.glob("part-*") if _PART_NAME.fullmatch(path.name)]
        has_parts = bool(parts)
        if found is None:  # a job writes its plan first and removes it last, so these may be files of others
            for path in parts:
                _check_is_part(path)
        if found is not None and has_parts and not overwrite:
            changed = ", ".join(name for name in sorted({*found, *plan}) if found.get(name) != plan.get(name))
            raise FileExistsError(
                f"{self.folder} holds parts of another job (changed: {changed}); finish that job, remove the "
                "folder, or set overwrite=True"
            )
        if found is not None or has_parts:
            self._remove_parts()
        for path in (self.folder, *(path.parent for path in self.outputs.values())):
            path.mkdir(parents=True, exist_ok=True)
        with whole_file(self._plan_file) as temporary:
            temporary.write_text(_text(plan))

    def remove_damaged(self) -> None:
        """Remove all parts that are damaged or belong to another job."""
        for number in range(len(self.spans)):
            if self.path(number).exists():
                with suppress(PartError):
                    self._read(number)

    def missing(self) -> list[int]:
        """Return the numbers of the missing parts."""
        return [number for number in range(len(self.spans)) if not self.path(number).exists()]

    def path(self, number: int) -> Path:
        """Return the file of a part."""
        return self.folder / f"part-{number:06d}.safetensors"

    def join(self) -> list[Any]:
        """Write the outputs from the parts, then the record; return the notes of all parts in order.

        A damaged part is removed and raises ``PartError``; computing the missing parts repairs the job.
        """
        notes = self._checked_notes()
        replaced = self._recorded_plan() or {}
        self.record.unlink(missing_ok=True)
        if self.ids_file is not None and IDS in replaced:
            self.ids_file.unlink(missing_ok=True)
        for name, path in self.outputs.items():
            _join(path, (_restored(name, self._read(n)[0].get(name)) for n in range(len(self.spans))))
        with whole_file(self.record) as temporary:
            temporary.write_text(_text({**self._full_plan(), "notes": notes}))
        self._remove_parts()
        return notes

    def notes(self) -> list[Any]:
        """Return the notes of all parts of a finished job."""
        found = (_read_json(self.record) or {}).get("notes")
        if not isinstance(found, list):
            raise ValueError(f"{self.record} is damaged (it has no notes); remove it to start again")
        return found

    def _checked_notes(self) -> list[Any]:
        """Return the notes of all parts after checking that their arrays fit together."""
        notes: list[Any] = []
        made: set[str] = set()
        for number, (start, stop) in enumerate(self.spans):
            arrays, more = self._read(number)
            notes += more
            made.update(arrays)
            rows = {name: len(array) for name, array in arrays.items() if name not in self.uneven}
            if len(set(rows.values())) > 1:
                counts = ", ".join(f"{count} {name}" for name, count in sorted(rows.items()))
                raise ValueError(f"rows {start} to {stop - 1} gave {counts}; did the source change?")
        for name, path in self.outputs.items():
            if name not in made:
                raise ValueError(f"{path.name}: none of {len(self.spans)} parts has data for it")
        return notes

    def _read(self, number: int) -> tuple[Arrays, list[Any]]:
        path = self.path(number)
        try:
            content, arrays = _PART.read(path)
            if content["job"] != self.digest or content["part"] != number:
                raise PartError(f"{path} belongs to another job")
        except PartError:
            path.unlink()
            raise
        return arrays, content["notes"]

    def _full_plan(self) -> dict[str, Any]:
        # Through JSON, as it comes back from a file.
        plan: dict[str, Any] = json.loads(_text({**self.plan, "spans": self.spans}))
        return plan

    def _recorded_plan(self) -> dict[str, Any] | None:
        """The plan of the finished results."""
        found = _read_json(self.record)
        return None if found is None else {name: value for name, value in found.items() if name != "notes"}

    def _started_plan(self) -> dict[str, Any] | None:
        """The plan of the parts in the folder."""
        return _read_json(self._plan_file)

    @property
    def _plan_file(self) -> Path:
        return self.folder / "plan.json"

    def _remove_parts(self) -> None:
        """Remove the files of jobs from the folder, the plan last, then the folder if it is empty."""
        names = (_PART_NAME, _TEMPORARY)
        files = [path for path in self.folder.glob("*") if any(name.fullmatch(path.name) for name in names)]
        for path in (*files, self._plan_file):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def _check_is_part(path: Path) -> None:
    try:
        _PART.read(path)
    except (PartError, OSError) as error:
        raise FileExistsError(f"{path} is not a part of a job; remove it, or give another name ({error})") from error


def compute_part(task: Task, path: str, job: str, number: int, start: int, stop: int) -> int:
    """Compute one part with one thread, write it, and return its number; here or on a worker."""
    from threadpoolctl import threadpool_limits

    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"{os.path.dirname(path)} is missing: all workers must see the folder of the job")
    if not os.path.exists(path):  # another worker may have computed it
        with _one_thread, threadpool_limits(1):  # the second covers libraries with a limit per thread
            arrays, notes = task(start, stop)
        _PART.write(path, {"job": job, "part": number, "notes": notes}, arrays)
    return number


class _OneThread:
    """Limit BLAS to one thread in the whole process while any thread is inside.

    A dedicated thread sets and lifts the limit. If each thread inside did so, the last one out would restore the
    limit of another; and threadpoolctl lets only one thread at a time change it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                ready, self._leave = threading.Event(), threading.Event()
                self._keeper = threading.Thread(target=self._keep, args=(ready, self._leave), daemon=True)
                self._keeper.start()
                ready.wait()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._leave.set()
                self._keeper.join()

    @staticmethod
    def _keep(ready: threading.Event, leave: threading.Event) -> None:
        from threadpoolctl import threadpool_limits

        try:
            with threadpool_limits(1):
                ready.set()
                leave.wait()
        finally:
            ready.set()


_one_thread = _OneThread()


def stored_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as a part stores them: int64 (n,), or text as code points, uint32 (n, width)."""
    return ids if ids.dtype.kind == "i" else ids.view(np.uint32).reshape(len(ids), -1)


def _restored(name: str, piece: NDArray[Any] | None) -> NDArray[Any] | None:
    if name != IDS or piece is None or piece.ndim == 1:
        return piece
    return np.ascontiguousarray(piece).view(f"<U{piece.shape[1]}")[:, 0]


def id_file(path: Path) -> Path:
    """Return the file for the ids of the rows of a ``.npy`` file."""
    return path.with_name(f"{path.stem}.ids.npy")


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        if not isinstance(found, dict):
            raise TypeError("it is not an object")
        for start, stop in found.get("spans", []):
            operator.index(start), operator.index(stop)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); remove it to start again") from error
    return found


def _text(values: Any) -> str:
    return json.dumps(values, indent=1, sort_keys=True, default=str) + "\n"


def _join(path: Path, pieces: Iterable[Any]) -> None:
    """Write arrays to one ``.npy`` file, one of them in memory at a time; None is skipped."""
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        joined: GrowingArray | None = None
        for piece in pieces:
            if piece is None:
                continue
            if joined is None:
                joined = GrowingArray(file, piece.dtype, piece.shape[1:])
            try:
                joined.append(piece)
            except ValueError as error:
                raise ValueError(f"{path.name}: a part differs from the first: {error}") from error
        assert joined is not None
        joined.finish()
