"""Work in parts that can be left at any moment and gone on with.

A job has a plan: what is computed from what, as JSON. Its parts are files in a folder beside the result, each written
whole, with a checksum and the digest of the plan; what is there need not be computed again. When all are there they
are joined into ``.npy`` files, and a record beside the result tells of the plan that made it.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.files import whole_file
from cbid.tensorfile import Arrays, FileKind

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
    """

    task: Task
    spans: list[Span]
    outputs: dict[str, Path]
    record: Path
    plan: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where parts are kept until they are joined."""
        return self.record.with_name(self.record.name.removesuffix(".json") + ".parts")

    @property
    def digest(self) -> str:
        """What every part carries."""
        return hashlib.blake2b(_text(self._whole_plan()).encode(), digest_size=16).hexdigest()

    def is_done(self, *, overwrite: bool) -> bool:
        """Whether the results of this very plan are there; results of another one are an error, or removed."""
        present = [path for path in self.outputs.values() if path.exists()]
        if self._recorded() == self._whole_plan() and len(present) == len(self.outputs):
            return True
        if present and not overwrite:
            raise FileExistsError(f"{present[0]} is there, made of something else; remove it or give overwrite=True")
        for path in (self.record, *present):
            path.unlink(missing_ok=True)
        return False

    def open(self, *, overwrite: bool) -> None:
        """Make the folder of parts, or find that of this very plan; parts of another one are an error, or removed."""
        note = self.folder / "plan.json"
        if note.exists():
            found = json.loads(note.read_text())
            if found == self._whole_plan():
                return
            if not overwrite:
                changed = ", ".join(k for k in sorted({*found, *self._whole_plan()}) if self._differs(found, k))
                raise FileExistsError(
                    f"{self.folder} holds parts of another job (changed: {changed}); finish that one, remove the "
                    "folder, or give overwrite=True"
                )
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(note) as temporary:
            temporary.write_text(_text(self._whole_plan()))

    def missing(self) -> list[int]:
        """The numbers of the parts that are not there."""
        return [number for number in range(len(self.spans)) if not self.path(number).exists()]

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.safetensors"

    def join(self) -> list[Any]:
        """Write the outputs from the parts, whole, then the record; the notes of all parts, in order.

        A damaged part is removed, and a ``PartError`` tells of it: who computes the missing ones again repairs it.
        """
        for name, path in self.outputs.items():
            _join(path, (_restored(name, self._read(n)[0].get(name)) for n in range(len(self.spans))), self)
        notes = [note for number in range(len(self.spans)) for note in self._read(number)[1]]
        with whole_file(self.record) as temporary:
            temporary.write_text(_text({**self._whole_plan(), "notes": notes}))
        shutil.rmtree(self.folder)
        return notes

    def notes(self) -> list[Any]:
        """The notes of all parts, once joined."""
        found = json.loads(self.record.read_text())["notes"]
        assert isinstance(found, list)
        return found

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

    def _differs(self, found: dict[str, Any], name: str) -> bool:
        return bool(found.get(name) != self._whole_plan().get(name))


def do_part(task: Task, path: str, job: str, number: int, start: int, stop: int) -> int:
    """Compute one part with one thread, write it, return its number; here or on a worker."""
    from threadpoolctl import threadpool_limits

    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"{os.path.dirname(path)} is not there: whoever works on a job must see its folder")
    if not os.path.exists(path):  # another worker may have had the same part
        with threadpool_limits(1):
            arrays, notes = task(start, stop)
        _PART.write(path, {"job": job, "part": number, "notes": notes}, arrays)
    return number


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


def _join(path: Path, pieces: Iterable[Any], job: Job) -> None:
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
        if dtype is None or row is None:
            raise ValueError(f"{path.name}: none of {len(job.spans)} parts has anything for it")
        file.seek(0)
        if _header(file, dtype, (n, *row)) != start:  # numpy leaves room for the number of rows to grow
            raise RuntimeError("the header of a .npy file has grown with its rows")


def _header(file: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return int(file.tell())
