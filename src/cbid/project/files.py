"""The files of a project directory: their names, the manifest that commits a fit, and the file of raw vectors."""

import contextlib
import json
import mmap
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.search.manifest import is_index_file
from cbid.storage.atomic import check_no_link, check_regular, whole_file
from cbid.storage.digests import digest_file, digest_text
from cbid.text import printable

MANIFEST = "project.json"
IMAGES = "images.sqlite"
VECTORS = "vectors.f32"
CHECKPOINT = "learning.safetensors"  # a coder whose learning is not finished
STARTED = "started.json"  # the descriptor of a project whose first fit is not finished
JOURNAL = "unfinished.json"  # the files of a fit that is not committed or not cleaned up, and those it replaces
LOCK = "lock"
FORMAT, VERSION, _UNSEALED = "cbid-project", 2, 1  # 0.1.0 wrote version 1, without checksums
_NAMES = {
    "coder": re.compile(r"coder-[0-9a-f]{12}\.safetensors"),
    "index": re.compile(r"index-[0-9a-f]{12}"),
    "evaluation": re.compile(r"evaluation-[0-9a-f]{12}\.json"),
}
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.tmp")  # of ``whole_file``


class ProjectError(ValueError):
    """The directory is not a project, or the project is damaged. The message says what to do."""


class ProjectWarning(UserWarning):
    """A choice of the fit, or something it skipped, that the user should know."""


@dataclass(frozen=True)
class ProjectManifest:
    """The content of project.json: the settings, and the names of the files of the committed fit."""

    n_features: int
    coder: str  # file names, unique to each fit
    index: str
    evaluation: str
    descriptor: dict[str, Any] | None
    settings: dict[str, Any]
    source: str
    fit: dict[str, Any] = field(default_factory=dict)  # statistics of the last fit: counts, seconds, failures
    checksums: dict[str, str] = field(default_factory=dict)  # of coder and evaluation; empty in version 1

    @classmethod
    def read(cls, directory: Path) -> "ProjectManifest":
        """Read and check project.json."""
        path = directory / MANIFEST
        if not directory.exists():
            raise FileNotFoundError(f"{printable(directory)} does not exist; cbid fit makes a project")
        if not path.is_file():
            if (directory / STARTED).is_file():
                raise ProjectError(f"the first fit of {printable(directory)} is not finished; run cbid fit again")
            raise ProjectError(f"{printable(directory)} is not a project: it has no {MANIFEST}")
        try:
            text = path.read_bytes()
            saved = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProjectError(f"{printable(path)} is damaged: it is not JSON") from error
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            raise ProjectError(f"{printable(path)} is not the manifest of a cbid project")
        version = saved.get("version")
        if version not in (_UNSEALED, VERSION) or isinstance(version, bool):
            raise ProjectError(
                f"{printable(path)} has format version {version!r}; "
                f"this cbid reads versions {_UNSEALED} and {VERSION}"
            )
        if version == _UNSEALED:
            saved["checksums"] = {}
        elif _sealed_text(saved) != text:
            raise ProjectError(f"{printable(path)} is damaged or was modified: its checksum differs")
        kinds = {
            "n_features": int,
            "source": str,
            "coder": str,
            "index": str,
            "evaluation": str,
            "settings": dict,
            "fit": dict,
            "checksums": dict,
        }
        wrong = [name for name, kind in kinds.items() if type(saved.get(name)) is not kind]
        wrong += [name for name, pattern in _NAMES.items() if not pattern.fullmatch(str(saved.get(name)))]
        if not wrong and not 1 <= saved["n_features"] < 2**31:
            wrong.append("n_features")
        if not wrong and version == VERSION and set(saved["checksums"]) != {saved["coder"], saved["evaluation"]}:
            wrong.append("checksums")
        wrong += [] if _is_descriptor(saved.get("descriptor")) else ["descriptor"]
        wrong += [] if "fit" in wrong or _is_fit(saved["fit"]) else ["fit"]
        if wrong:
            raise ProjectError(f"{printable(path)} is damaged: {', '.join(wrong)} is not valid")
        return cls(**{entry.name: saved.get(entry.name, "") for entry in fields(cls)})

    def write(self, directory: Path) -> None:
        """Replace project.json, with checksums of the files that are written. This commits a fit."""
        checksums = {name: digest_file(directory / name) for name in (self.coder, self.evaluation)}
        content = {"format": FORMAT, "version": VERSION, **asdict(self), "checksums": checksums}
        with whole_file(directory / MANIFEST) as temporary:
            temporary.write_bytes(_sealed_text(content))

    def check_file(self, directory: Path, name: str) -> None:
        """Compare a file with its checksum, if the project has checksums."""
        if self.checksums and digest_file(directory / name) != self.checksums.get(name):
            raise ProjectError(f"{printable(directory / name)} is damaged or was modified: its checksum differs")


def _sealed_text(content: dict[str, Any]) -> bytes:
    """Return the text of project.json: its content and the checksum of it. Any other text is damaged."""
    content = {name: value for name, value in content.items() if name != "blake2b"}
    digest = digest_text(json.dumps(content, sort_keys=True))
    return (json.dumps({**content, "blake2b": digest}, indent=1, sort_keys=True) + "\n").encode()


def _is_descriptor(saved: Any) -> bool:
    kinds = {"kind": str, "params": dict, "fingerprint": str}
    return saved is None or (
        isinstance(saved, dict) and all(isinstance(saved.get(name), kind) for name, kind in kinds.items())
    )


def _is_fit(saved: dict[str, Any]) -> bool:
    """Return whether the statistics of a fit have the types that readers expect."""
    kinds = {"images": dict, "seconds": dict, "failures": list, "n_failures": int}
    return (
        all(isinstance(saved.get(name), kind) for name, kind in kinds.items())
        and all(type(count) is int for count in saved["images"].values())
        and all(type(seconds) in (int, float) for seconds in saved["seconds"].values())
        and all(isinstance(entry, list) and len(entry) == 2 for entry in saved["failures"])
    )


def new_name(kind: str, suffix: str = "") -> str:
    """Return a file name that no other fit has used."""
    return f"{kind}-{secrets.token_hex(6)}{suffix}"


def is_project_file(name: str) -> bool:
    """Return whether a project may contain a file of this name."""
    temporary = _TEMPORARY.fullmatch(name)
    if temporary is not None:
        name = temporary[1]
    fixed = (MANIFEST, IMAGES, VECTORS, CHECKPOINT, STARTED, JOURNAL, LOCK)
    database = (f"{IMAGES}-journal", f"{IMAGES}-wal", f"{IMAGES}-shm")
    return name in fixed or name in database or any(pattern.fullmatch(name) for pattern in _NAMES.values())


def make_directory(directory: Path) -> None:
    """Make the directory, or check that it contains nothing but a project."""
    if directory.exists() and not directory.is_dir():
        raise FileExistsError(f"{printable(directory)} is a file; expected a directory")
    directory.mkdir(parents=True, exist_ok=True)
    is_project = (directory / MANIFEST).exists() or started(directory) is not None
    own = is_project_file if is_project else _may_precede_a_project
    foreign = sorted(entry.name for entry in directory.iterdir() if not own(entry.name))
    if foreign:
        raise ProjectError(
            f"{printable(directory)} contains other files ({printable(foreign[0])}); "
            "expected a new name, an empty directory or a project"
        )


def started(directory: Path) -> dict[str, Any] | None:
    """Return the content of started.json, or None if no fit has begun here."""
    try:
        check_regular(directory / STARTED)
        found = json.loads((directory / STARTED).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "descriptor" in found else None


def _may_precede_a_project(name: str) -> bool:
    """Return whether a fit that was killed before it wrote started.json may have left this file."""
    return name in (LOCK, STARTED) or (name.startswith(f".{STARTED}.") and is_project_file(name))


# Removing files: only those that a fit has noted before it wrote them, or that the manifest named.


def note_files(directory: Path, names: Iterable[str]) -> None:
    """Write down the files that a fit is going to write or to replace; ``remove_unused`` removes no others."""
    with whole_file(directory / JOURNAL) as temporary:
        temporary.write_text(json.dumps({"files": sorted(names)}) + "\n")


def remove_unused(directory: Path) -> None:
    """Remove the noted files that the committed manifest does not name, and then the note."""
    try:
        check_regular(directory / JOURNAL)
        noted = json.loads((directory / JOURNAL).read_bytes())["files"]
        names = {name for name in noted if isinstance(name, str)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        names = set()
    names = {name for name in names if any(pattern.fullmatch(name) for pattern in _NAMES.values())}
    if (directory / MANIFEST).exists():
        manifest = ProjectManifest.read(directory)
        names -= {manifest.coder, manifest.index, manifest.evaluation}
        (directory / STARTED).unlink(missing_ok=True)
    for name in names:
        _remove(directory / name)
    targets = {MANIFEST, STARTED, JOURNAL, CHECKPOINT, *names}
    for entry in list(directory.iterdir()):
        temporary = _TEMPORARY.fullmatch(entry.name)
        if temporary is not None and temporary[1] in targets:
            entry.unlink(missing_ok=True)
    (directory / JOURNAL).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    """Remove a file, or a directory of index files; a directory that holds anything else stays."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for entry in list(path.iterdir()):
        if is_index_file(entry.name):
            entry.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.rmdir()


# The raw vectors: float32 rows (n, d) without a header; the row number is the id of the image.


def write_vectors(path: Path, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Write rows (n, d) at the row numbers ``ids`` and flush them to the device.

    The ids are new, so no reader uses these rows yet, and leftovers of a killed writer do no harm. The file only
    grows, because readers map it.
    """
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    check_no_link(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        edges = np.flatnonzero(np.diff(ids) != 1) + 1
        for run in np.split(np.arange(len(ids)), edges):
            if len(run):
                _write_all(descriptor, rows[run[0] : run[-1] + 1], int(ids[run[0]]) * rows.shape[1] * 4)
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, rows: NDArray[np.float32], offset: int) -> None:
    content = memoryview(rows.data).cast("B")
    while len(content):
        written = os.pwrite(descriptor, content, offset)
        content, offset = content[written:], offset + written


def map_vectors(path: Path, n_features: int) -> NDArray[np.float32]:
    """Return all complete rows of the file, (rows, d), read-only and memory-mapped."""
    width = 4 * n_features
    check_no_link(path)
    check_regular(path)
    with open(path, "rb") as file:
        rows = os.fstat(file.fileno()).st_size // width
        if not rows:
            return np.empty((0, n_features), np.float32)
        mapped = mmap.mmap(file.fileno(), rows * width, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, np.float32).reshape(rows, n_features)


def check_rows(path: Path, vectors: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
    """Raise a ``ProjectError`` if the mapped file ends before the row of one of the ids."""
    missing = ids[ids >= len(vectors)]
    if len(missing):
        raise ProjectError(f"{path} is too short: it has no vector for id={missing.min()}")
