"""Work in parts that can be left at any moment and gone on with.

A job has a plan: what is computed from what, as JSON. Its parts are files in a folder beside the result, each written
whole, with a checksum and the digest of the plan; what is there need not be computed again. When all are there they
are joined into ``.npy`` files, and a record beside the result tells of the plan that made it.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.storage.files import whole_file
from cbid.storage.tensorfile import Arrays, FileKind

__all__ = ["IDS", "Job", "PartError", "Span", "Task", "do_part", "id_file", "stored_ids"]

IDS = "ids"  # the array of a part that tells which rows it is about

Span = tuple[int, int]
# What a part computes for rows start..stop-1: arrays, and notes that JSON can hold. A picklable object.
Task = Callable[[int, int], tuple[Arrays, list[Any]]]


class PartError(ValueError):
    """A file is no part of this job, or not a whole and unaltered one."""


_PART = FileKind(format="cbid-part", version=1, noun="part", error=PartError)


@dataclass(frozen=True)
class Job:
    """A task over spans of rows, and where its results go.

    outputs: the ``.npy`` file of each array that the task makes.
    record: the file that tells that they are all there.
    plan: what the results depend on; the spans are added to it.
    sources: the files that are read, none of which may be an output.
    uneven: arrays with other numbers of rows than the rest, such as all local descriptors of some images.
    ids_file: where the ids would go, if these results have none; those of a result that is replaced are removed.
    fixed: whether the spans were asked for; if not, those of an earlier run of the same plan serve as well.
    """

    task: Task
    spans: list[Span]
    outputs: dict[str, Path]
    record: Path
    plan: dict[str, Any] = field(default_factory=dict)
    sources: Sequence[str | os.PathLike[str]] = ()
    uneven: frozenset[str] = frozenset()
    ids_file: Path | None = None
    fixed: bool = True

    @property
    def folder(self) -> Path:
        """Where parts are kept until they are joined."""
        return self.record.with_name(self.record.name.removesuffix(".json") + ".parts")

    @property
    def digest(self) -> str:
        """What every part carries."""
        return hashlib.blake2b(_text(self._whole_plan()).encode(), digest_size=16).hexdigest()

    def settled(self) -> "Job":
        """This job, cut as an earlier run of the same plan was, unless the cuts were asked for."""
        if not self.fixed:
            own = self._whole_plan()
            for found in (self._recorded(), self._begun()):
                if found is not None and "spans" in found and {**found, "spans": own["spans"]} == own:
                    return replace(self, spans=[(start, stop) for start, stop in found["spans"]])
        return self

    def is_done(self, *, overwrite: bool) -> bool:
        """Whether the results of this very plan are there; results of another one are an error, or to be replaced."""
        present = [path for path in self.outputs.values() if path.exists()]
        for path in present:
            if any(os.path.exists(source) and path.samefile(source) for source in self.sources):
                raise ValueError(f"out is not accepted: {path} is the source itself; give another name")
        if self._recorded() == self._whole_plan() and len(present) == len(self.outputs):
            if self._begun() in (None, self._whole_plan()):
                self._remove_parts()  # left by a run that was stopped at the very end
            return True
        # Without a record, outputs beside the parts of this plan are its own: it was stopped while it joined them.
        own = self._begun() == self._whole_plan() and not self.record.exists()
        if present and not overwrite and not own:
            raise FileExistsError(f"{present[0]} is there, made of something else; remove it or give overwrite=True")
        return False

    def open(self, *, overwrite: bool) -> None:
        """Make the folder of parts, or find that of this very plan; parts of another one are an error, or removed."""
        found = self._begun()
        if found == self._whole_plan():
            return
        if found is not None and not overwrite and any(self.folder.glob("part-*.safetensors")):
            changed = ", ".join(k for k in sorted({*found, *self._whole_plan()}) if self._differs(found, k))
            raise FileExistsError(
                f"{self.folder} holds parts of another job (changed: {changed}); finish that one, remove the "
                "folder, or give overwrite=True"
            )
        if found is not None or any(self.folder.glob("part-*.safetensors")):
            self._remove_parts()  # of another job, or of nobody knows which
        for path in (self.folder, *(path.parent for path in self.outputs.values())):
            path.mkdir(parents=True, exist_ok=True)
        with whole_file(self._note) as temporary:
            temporary.write_text(_text(self._whole_plan()))

    def sift(self) -> None:
        """Remove all parts that are damaged or belong to another job."""
        for number in range(len(self.spans)):
            if self.path(number).exists():
                with suppress(PartError):
                    self._read(number)

    def missing(self) -> list[int]:
        """The numbers of the parts that are not there."""
        return [number for number in range(len(self.spans)) if not self.path(number).exists()]

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.safetensors"

    def join(self) -> list[Any]:
        """Write the outputs from the parts, whole, then the record; the notes of all parts, in order.

        A damaged part is removed, and a ``PartError`` tells of it: who computes the missing ones again repairs it.
        """
        notes = self._checked_notes()
        replaced = self._recorded() or {}
        self.record.unlink(missing_ok=True)
        if self.ids_file is not None and IDS in replaced:
            self.ids_file.unlink(missing_ok=True)
        for name, path in self.outputs.items():
            _join(path, (_restored(name, self._read(n)[0].get(name)) for n in range(len(self.spans))))
        with whole_file(self.record) as temporary:
            temporary.write_text(_text({**self._whole_plan(), "notes": notes}))
        self._remove_parts()
        return notes

    def notes(self) -> list[Any]:
        """The notes of all parts, once joined."""
        found = json.loads(self.record.read_text())["notes"]
        assert isinstance(found, list)
        return found

    def _checked_notes(self) -> list[Any]:
        """The notes of all parts, after a look at whether the arrays fit together."""
        notes: list[Any] = []
        made: set[str] = set()
        for number, (start, stop) in enumerate(self.spans):
            arrays, more = self._read(number)
            notes += more
            made.update(arrays)
            rows = {name: len(array) for name, array in arrays.items() if name not in self.uneven}
            if len(set(rows.values())) > 1:
                told = ", ".join(f"{count} {name}" for name, count in sorted(rows.items()))
                raise ValueError(f"rows {start} to {stop - 1} gave {told}; was the source changed meanwhile?")
        for name, path in self.outputs.items():
            if name not in made:
                raise ValueError(f"{path.name}: none of {len(self.spans)} parts has anything for it")
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

    def _whole_plan(self) -> dict[str, Any]:
        # As it comes back from a file.
        plan: dict[str, Any] = json.loads(_text({**self.plan, "spans": self.spans}))
        return plan

    def _recorded(self) -> dict[str, Any] | None:
        if not self.record.exists():
            return None
        found = json.loads(self.record.read_text())
        return {name: value for name, value in found.items() if name != "notes"}

    @property
    def _note(self) -> Path:
        return self.folder / "plan.json"

    def _begun(self) -> dict[str, Any] | None:
        """The plan whose parts are in the folder."""
        if not self._note.exists():
            return None
        found: dict[str, Any] = json.loads(self._note.read_text())
        return found

    def _remove_parts(self) -> None:
        """Remove what jobs write into the folder, the plan last, and the folder if nothing else is in it."""
        for path in (*self.folder.glob("part-*.safetensors"), *self.folder.glob(".*.tmp"), self._note):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _differs(self, found: dict[str, Any], name: str) -> bool:
        return bool(found.get(name) != self._whole_plan().get(name))


def do_part(task: Task, path: str, job: str, number: int, start: int, stop: int) -> int:
    """Compute one part with one thread, write it, return its number; here or on a worker."""
    from threadpoolctl import threadpool_limits

    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"{os.path.dirname(path)} is not there: whoever works on a job must see its folder")
    if not os.path.exists(path):  # another worker may have had the same part
        with _one_thread, threadpool_limits(1):  # the second for libraries that count in each thread
            arrays, notes = task(start, stop)
        _PART.write(path, {"job": job, "part": number, "notes": notes}, arrays)
    return number


class _OneThread:
    """BLAS takes one thread in the whole process, as long as anybody is inside.

    A thread of its own sets and lifts the limit: were those inside to do so in turn, the last would put back what it
    had found, the limit of another; and threadpoolctl lets one thread at a time change it.
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
    """Ids as a part holds them: int64 (n,), or text as its code points, uint32 (n, width)."""
    return ids if ids.dtype.kind == "i" else ids.view(np.uint32).reshape(len(ids), -1)


def _restored(name: str, piece: NDArray[Any] | None) -> NDArray[Any] | None:
    if name != IDS or piece is None or piece.ndim == 1:
        return piece
    return np.ascontiguousarray(piece).view(f"<U{piece.shape[1]}")[:, 0]


def id_file(path: Path) -> Path:
    """Where the ids of the rows of a ``.npy`` file are kept."""
    return path.with_name(f"{path.stem}.ids.npy")


def _text(values: Any) -> str:
    return json.dumps(values, indent=1, sort_keys=True, default=str) + "\n"


def _join(path: Path, pieces: Iterable[Any]) -> None:
    """One ``.npy`` file of arrays one after the other, one of them in memory at a time; None is nothing."""
    with whole_file(path) as temporary, open(temporary, "w+b") as file:
        dtype, row, n, start = None, None, 0, 0
        for piece in pieces:
            if piece is None:
                continue
            if dtype is None:
                dtype, row = piece.dtype, piece.shape[1:]
                start = _header(file, dtype, (0, *row))
            if piece.dtype != dtype or piece.shape[1:] != row:
                raise ValueError(
                    f"{path.name}: a part has rows of {piece.dtype} {piece.shape[1:]}, the first of {dtype} {row}"
                )
            file.write(np.ascontiguousarray(piece).data)
            n += len(piece)
        assert dtype is not None
        assert row is not None
        file.seek(0)
        if _header(file, dtype, (n, *row)) != start:  # numpy leaves room for the number of rows to grow
            raise RuntimeError("the header of a .npy file has grown with its rows")


def _header(file: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return int(file.tell())
