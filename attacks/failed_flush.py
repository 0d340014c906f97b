"""The device fails right after the commit. Expected: the images are there, and the error says so."""

import errno
import os

import numpy as np

from attacks.target import made_project
from cbid.project import Project


def main() -> None:
    """Run the attack."""
    real_replace, real_fsync, committed = os.replace, os.fsync, []

    def replace(*arguments: object) -> None:
        real_replace(*arguments)
        committed.append(True)

    def fsync(handle: int) -> None:
        if committed:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real_fsync(handle)

    with made_project() as path:
        with Project.open(path, write=True) as project:
            os.replace, os.fsync = replace, fsync
            told = ""
            try:
                project.add(np.zeros((1, 6), np.float32))
            except OSError as error:
                told = f"{error} {error.__notes__}"
            finally:
                os.replace, os.fsync = real_replace, real_fsync
            assert "was saved" in told, told
            assert "took place" in told, told
            assert project.record(40).id == 40
        assert Project.check(path)[0] == []
        with Project.open(path) as project:
            assert len(project) == 41


if __name__ == "__main__":
    main()
