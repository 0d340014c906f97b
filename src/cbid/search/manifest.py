"""The files of an index directory: arrays with checksums, and the manifest that names the committed ones."""

import io
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from cbid.search.checks import IndexCorruptError
from cbid.storage.atomic import LOCK_NAME, check_regular, flush
from cbid.storage.digests import digest_file, digest_text, new_digest
from cbid.storage.tensors import DAMAGED_NPY, header_bytes, map_npy

MANIFEST_NAME = "manifest.json"
FORMAT = "cbid-index"
VERSION = 1

_CHUNK = 1 << 24
_INDEX_FILES = re.compile(
    r"(segment|weights|centres|sets)-[0-9a-f]{16}(\.[a-z]+(-[0-9a-f]{16})?)?\.npy|manifest\.json(\.tmp)?"
    r"|attached-[0-9a-f]{16}\.(npy|safetensors)|\.attached-[0-9a-f]{16}\.safetensors\.\w+\.tmp"
)


def is_index_file(name: str) -> bool:
    """Whether a file of this name can be part of an index, or be left over from a killed writer."""
    return name == LOCK_NAME or _INDEX_FILES.fullmatch(name) is not None


# Arrays


class FileRecord(TypedDict):
    """The entry of a file in the manifest."""

    file: str
    bytes: int
    blake2b: str


class AttachedRecord(TypedDict):
    """The entry of what the owner of an index, such as `VectorIndex`, commits together with the codes."""

    values: dict[str, Any]
    files: dict[str, FileRecord]


def record_of(path: Path) -> FileRecord:
    """Return the entry of a file that is written and flushed."""
    return {"file": path.name, "bytes": path.stat().st_size, "blake2b": digest_file(path)}


def write_array(path: Path, array: NDArray[Any]) -> FileRecord:
    """Write a new ``.npy`` file and flush it to the device."""
    array = np.ascontiguousarray(array)
    header = header_bytes(array.dtype, array.shape)
    digest = new_digest(header)
    content = array.reshape(-1).view(np.uint8).data
    with open(path, "xb", buffering=0) as file:
        _write_fully(file, memoryview(header))
        for first in range(0, len(content), _CHUNK):
            chunk = content[first : first + _CHUNK]
            digest.update(chunk)
            _write_fully(file, chunk)
        os.fsync(file.fileno())
    return {"file": path.name, "bytes": len(header) + len(content), "blake2b": digest.hexdigest()}


def _write_fully(file: io.FileIO, content: memoryview) -> None:
    while len(content):
        content = content[file.write(content) :]  # a nearly full disk accepts a part first, and then raises


def map_array(
    directory: Path, record: FileRecord, dtype: np.dtype[Any] | type, shape: tuple[int, ...] | None
) -> NDArray[Any]:
    """Map a ``.npy`` file without reading it; check size, dtype and shape against the manifest.

    ``shape=None``: one dimension of any length.
    """
    path = directory / record["file"]
    size = path.stat().st_size
    if size != record["bytes"]:
        raise IndexCorruptError(f"{path} is damaged: it has {size} bytes; expected {record['bytes']}")
    try:
        array = map_npy(path)
    except DAMAGED_NPY as error:
        raise IndexCorruptError(f"{path} is damaged: it is not a .npy file ({error})") from error
    shape = (array.size,) if shape is None else shape
    if array.shape != shape or array.dtype != np.dtype(dtype) or not array.flags.c_contiguous:
        raise IndexCorruptError(
            f"{path} is damaged: it holds {array.dtype} {array.shape}; expected {np.dtype(dtype)} {shape}"
        )
    return array


def check_content(directory: Path, record: FileRecord) -> None:
    """Read a whole file and compare it with its checksum."""
    path = directory / record["file"]
    if digest_file(path) != record["blake2b"]:
        raise IndexCorruptError(f"{path} is damaged: its checksum differs")


# The manifest


@dataclass
class SegmentRecord:
    """The entry of one immutable segment, with the file that lists codes removed from it."""

    name: str
    n: int
    n_live: int
    n_runs: int
    label_type: str | None
    codes: FileRecord
    ids: FileRecord
    runs: FileRecord
    labels: FileRecord | None
    removed: FileRecord | None

    def files(self) -> list[FileRecord]:
        """All files of the segment."""
        every = (self.codes, self.ids, self.runs, self.labels, self.removed)
        return [record for record in every if record is not None]


@dataclass
class LongerRecord:
    """The entry of an index that is being lengthened: the codes of greater length so far."""

    n_bits: int
    weights: FileRecord | None = None
    segments: list[SegmentRecord] = field(default_factory=list)

    def files(self) -> list[FileRecord]:
        """All files of the longer codes."""
        own = [] if self.weights is None else [self.weights]
        return own + [record for segment in self.segments for record in segment.files()]


@dataclass
class IndexManifest:
    """The committed state of an index; ``generation`` increases by one with every commit."""

    n_bits: int
    generation: int = 0
    next_id: int = 0
    n_cells: int | None = None
    probes: int = 0
    n_weights: int | None = None  # None: no weights; 0: one vector; n: one vector for each of n classes
    label_kind: str | None = None
    label_values: list[Any] = field(default_factory=list)
    label_sets: FileRecord | None = None  # with several labels per code
    n_label_sets: int | None = None
    weights: FileRecord | None = None
    centres: FileRecord | None = None
    segments: list[SegmentRecord] = field(default_factory=list)
    attached: AttachedRecord | None = None
    longer: LongerRecord | None = None  # while the index is being lengthened

    def files(self) -> list[FileRecord]:
        """All files that the manifest names."""
        own = [record for record in (self.weights, self.centres, self.label_sets) if record is not None]
        if self.attached is not None:
            own += self.attached["files"].values()
        if self.longer is not None:
            own += self.longer.files()
        return own + [record for segment in self.segments for record in segment.files()]

    def _check(self) -> None:
        """Raise a TypeError for a value that has another type or range than those that ``write`` writes."""
        optional = (self.n_cells, self.n_weights, self.n_label_sets)
        counts = [self.generation, self.next_id, self.probes, *(n for n in optional if n is not None)]
        positive = [self.n_bits]
        segments = list(self.segments)
        if self.longer is not None:
            positive.append(self.longer.n_bits)
            segments += self.longer.segments
        for segment in segments:
            positive += [segment.n, segment.n_runs]
            counts.append(segment.n_live)
            texts = (segment.name, segment.label_type or "")
            if not all(isinstance(text, str) for text in texts):
                raise TypeError(f"the segment {segment.name!r} has a name or label type that is not text")
            if not is_index_file(f"{segment.name}.npy"):  # the names of new files begin with it
                raise TypeError(f"the name of the segment {segment.name!r} is not valid")
        for record in self.files():
            counts.append(record["bytes"])
            if not isinstance(record["file"], str) or not isinstance(record["blake2b"], str):
                raise TypeError(f"the name or checksum of {record['file']!r} is not text")
        if not all(type(count) is int and 0 <= count < 2**63 for count in counts + positive) or 0 in positive:
            raise TypeError("a number is not in its range")
        if any(segment.n_live > segment.n for segment in segments):
            raise TypeError("a segment has more codes than it holds")
        if self.centres is not None and not self.n_cells:
            raise TypeError(f"n_cells={self.n_cells}")
        kind = {"int": int, "str": str, "bool": bool, None: type(None)}[self.label_kind]
        if not isinstance(self.label_values, list) or not all(type(value) is kind for value in self.label_values):
            raise TypeError(f"the labels are not a list of {self.label_kind}")
        if self.attached is not None and not isinstance(self.attached["values"], dict):
            raise TypeError("the attached values are not a mapping")

    def _content(self) -> dict[str, Any]:
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        for name in ("attached", "label_sets", "n_label_sets", "longer"):
            if content[name] is None:
                del content[name]  # release 0.1.0 rejects unknown fields
        return content

    def stamp(self) -> str:
        """Return the checksum that identifies this state."""
        return _stamp(self._content())

    def write(self, directory: Path) -> str:
        """Commit this state by replacing the manifest; return its checksum, which identifies the state.

        Readers see the old manifest or the new one, also after a power failure.
        """
        content = self._content()
        stamp = _stamp(content)
        text = _text({"blake2b": stamp, "manifest": content})
        path = directory / MANIFEST_NAME
        temporary = path.with_name(path.name + ".tmp")
        temporary.unlink(missing_ok=True)  # of a killed writer, or a link that leads out of the directory
        with open(temporary, "xb", buffering=0) as file:
            _write_fully(file, memoryview(text))
            os.fsync(file.fileno())
        os.replace(temporary, path)
        flush(directory)
        return stamp

    @classmethod
    def read(cls, directory: Path) -> tuple["IndexManifest", str]:
        """Return the committed state of a directory and its checksum."""
        path = directory / MANIFEST_NAME
        try:
            check_regular(path)
            text = path.read_bytes()
        except FileNotFoundError:
            if not directory.exists():
                raise FileNotFoundError(f"{directory} does not exist; expected an index directory") from None
            raise IndexCorruptError(f"{directory} is not an index: it has no {MANIFEST_NAME}") from None
        except NotADirectoryError:
            raise IndexCorruptError(f"{directory} is not an index: expected a directory, found a file") from None
        try:
            outer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise IndexCorruptError(f"{path} is damaged or not a manifest: invalid JSON ({error})") from error
        content = outer.get("manifest") if isinstance(outer, dict) else None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise IndexCorruptError(f"{path} is not the manifest of a cbid index")
        if outer.get("blake2b") != _stamp(content) or _text(outer) != text:
            raise IndexCorruptError(f"{path} is damaged: its checksum differs")
        if content.get("version") != VERSION:
            raise IndexCorruptError(
                f"{path} has format version {content.get('version')}; this release reads version {VERSION}"
            )
        fields = {name: value for name, value in content.items() if name not in ("format", "version")}
        try:
            if not isinstance(fields["segments"], list):
                raise TypeError("the segments are not a list")
            fields["segments"] = [SegmentRecord(**record) for record in fields["segments"]]
            if fields.get("longer") is not None:
                longer = LongerRecord(**fields["longer"])
                longer.segments = [SegmentRecord(**record) for record in longer.segments]  # type: ignore[arg-type]
                fields["longer"] = longer
            manifest = cls(**fields)
            manifest._check()
            for record in manifest.files():
                if not is_index_file(record["file"]):  # a name such as ../other would lead out of the directory
                    raise IndexCorruptError(f"{path} names {record['file']!r}, which is not an index file")
        except (AttributeError, KeyError, TypeError) as error:
            raise IndexCorruptError(f"{path} has missing or unknown fields ({error})") from error
        return manifest, outer["blake2b"]


def _text(outer: dict[str, Any]) -> bytes:
    """Return the only text that a manifest of this content has."""
    return (json.dumps(outer, indent=1) + "\n").encode()


def _stamp(content: dict[str, Any]) -> str:
    return digest_text(json.dumps(content, sort_keys=True, separators=(",", ":")))
