"""Symbolic links in the place of a project's files lead out of it. Expected: nothing is written through them."""

import os
import signal
from pathlib import Path

import numpy as np

from attacks.target import made_project
from cbid.project import Project

PRECIOUS = b"\0precious"  # the first byte makes SQLite keep a journal


def main() -> None:
    """Run the attack."""
    signal.alarm(60)  # ends the script if it blocks
    with made_project() as path:
        index = next(path.glob("index-*")).name
        names = sorted(entry.relative_to(path).as_posix() for entry in path.rglob("*"))
        temporary = [
            f"{index}/manifest.json.tmp",
            "images.sqlite-journal",
            "images.sqlite-wal",
            "lock",
            f"{index}/lock",
        ]
        for name in [*names, *temporary]:
            attack(path, path / name)
    signal.alarm(0)


def attack(path: Path, file: Path) -> None:
    """Replace one entry of the project by a link to its former content, or to another file, and write."""
    outside = path.parent / "outside"
    if os.path.lexists(file):
        file.rename(outside)
    else:
        outside.write_bytes(PRECIOUS)
    before = content(outside)
    file.symlink_to(outside)
    try:
        with Project.open(path, write=True) as project:
            project.add(np.full((1, 6), 9, np.float32), ["cat"], ["one more"])
            project.remove([int(project.ids[-1])])
    except (OSError, ValueError):
        pass
    assert content(outside) == before, f"{file.relative_to(path)} was written through a link"
    file.unlink(missing_ok=True)
    if before == PRECIOUS:
        outside.unlink()
    else:
        outside.rename(file)


def content(path: Path) -> object:
    """Return the bytes of a file, or of all files in a directory."""
    if path.is_dir():
        return {entry.name: entry.read_bytes() for entry in path.iterdir()}
    return path.read_bytes()


if __name__ == "__main__":
    main()
