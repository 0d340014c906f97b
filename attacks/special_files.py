"""FIFOs, sockets and devices in the place of data files block or never end. Expected: an error at once."""

import os
import signal
import socket
from pathlib import Path

from attacks.target import made_project
from cbid.data import open_source
from cbid.project import Project


def main() -> None:
    """Run the attack."""
    with made_project() as path:
        signal.alarm(30)  # ends the script if it blocks
        for make in (os.mkfifo, _socket, _device):
            for file in [*path.glob("*.*"), *path.glob("*/*.*")]:
                good = file.read_bytes()
                file.unlink()
                make(file)
                _expect_error(Project.check, path)
                file.unlink()
                file.write_bytes(good)
            for suffix in ("-journal", "-wal"):  # SQLite would open them, too
                make(path / f"images.sqlite{suffix}")
                _expect_error(Project.check, path)
                (path / f"images.sqlite{suffix}").unlink()
            for name in ("a.npy", "a.npz", "a.csv", "a.png", "a.parquet", "a"):
                make(path.parent / name)
                _expect_error(open_source, path.parent / name)
                (path.parent / name).unlink()
        signal.alarm(0)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _expect_error(call, path) -> None:
    try:
        found = call(path)
    except (OSError, ValueError):
        return
    assert isinstance(found, tuple), f"{path} was accepted"
    assert found[0], f"{path} was accepted"


if __name__ == "__main__":
    main()
