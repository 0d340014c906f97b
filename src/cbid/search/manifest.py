"""The manifest: one small JSON file that says which files make up the committed state of an index."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cbid.search.errors import IndexCorruptError
from cbid.search.files import FileRecord, replace_text
from cbid.storage.digests import digest_text
from cbid.storage.lock import LOCK_NAME

__all__ = ["MANIFEST_NAME", "Manifest", "SegmentRecord", "is_ours"]

MANIFEST_NAME = "manifest.json"
FORMAT = "cbid-index"
VERSION = 1

_OUR_FILES = re.compile(
    r"(segment|weights|centres)-[0-9a-f]{16}(\.[a-z]+(-[0-9a-f]{16})?)?\.npy|manifest\.json(\.tmp)?"
)


def is_ours(name: str) -> bool:
    """Whether a file of this name can be part of an index (or the litter of a killed writer)."""
    return name == LOCK_NAME or _OUR_FILES.fullmatch(name) is not None


@dataclass
class SegmentRecord:
    """One immutable segment, and the file that says what was removed from it since."""

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
        every = (self.codes, self.ids, self.runs, self.labels, self.removed)
        return [record for record in every if record is not None]


@dataclass
class Manifest:
    """The committed state. ``generation`` grows by one with every commit."""

    n_bits: int
    generation: int = 0
    next_id: int = 0
    n_cells: int | None = None
    probes: int = 0
    n_weights: int | None = None  # None: no weights; 0: one vector; otherwise one vector for each of so many classes
    label_kind: str | None = None
    label_values: list[Any] = field(default_factory=list)
    weights: FileRecord | None = None
    centres: FileRecord | None = None
    segments: list[SegmentRecord] = field(default_factory=list)

    def files(self) -> list[FileRecord]:
        own = [record for record in (self.weights, self.centres) if record is not None]
        return own + [record for segment in self.segments for record in segment.files()]

    def write(self, directory: Path) -> str:
        """Commit: from here on this is the state. Returns the stamp that tells it from any other."""
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        stamp = _stamp(content)
        replace_text(directory / MANIFEST_NAME, json.dumps({"blake2b": stamp, "manifest": content}, indent=1) + "\n")
        return stamp

    @classmethod
    def read(cls, directory: Path) -> tuple["Manifest", str]:
        """The committed state of a directory and its stamp."""
        path = directory / MANIFEST_NAME
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            if not directory.exists():
                raise FileNotFoundError(f"{directory} does not exist; an index directory is accepted") from None
            raise IndexCorruptError(f"{directory} holds no index (there is no {MANIFEST_NAME} in it)") from None
        except NotADirectoryError:
            raise IndexCorruptError(f"{directory} is a file; an index is a directory") from None
        try:
            outer = json.loads(text)
        except ValueError as error:
            raise IndexCorruptError(f"{path} is not JSON ({error}); it is no manifest, or damaged") from error
        content = outer.get("manifest") if isinstance(outer, dict) else None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise IndexCorruptError(f"{path} is not the manifest of a cbid index")
        if outer.get("blake2b") != _stamp(content):
            raise IndexCorruptError(f"{path} was altered or damaged (its checksum differs)")
        if content.get("version") != VERSION:
            raise IndexCorruptError(
                f"{path} is of format version {content.get('version')}; this release reads version {VERSION}"
            )
        fields = {name: value for name, value in content.items() if name not in ("format", "version")}
        try:
            fields["segments"] = [SegmentRecord(**record) for record in fields["segments"]]
            manifest = cls(**fields)
        except (KeyError, TypeError) as error:
            raise IndexCorruptError(f"{path} lacks what a manifest holds ({error})") from error
        for record in manifest.files():
            if not is_ours(record["file"]):  # a name such as ../other must not lead out of the directory
                raise IndexCorruptError(f"{path} names {record['file']!r}, which is no file of an index")
        return manifest, outer["blake2b"]


def _stamp(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return digest_text(canonical)
