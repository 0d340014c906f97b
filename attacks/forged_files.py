"""Files with right checksums and hostile content: endless views, names that lead out. Expected: an error at once."""

import contextlib
import shutil
import signal
import sqlite3

from attacks.target import made_project
from cbid.project import Project, ProjectError
from cbid.search import IndexCorruptError
from cbid.search.manifest import IndexManifest

ENDLESS = """
DROP TABLE seal;
CREATE VIEW seal (content, checksum) AS
    WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, x FROM n
"""


def main() -> None:
    """Run the attack."""
    with made_project() as path:
        signal.alarm(30)  # ends the script if it blocks
        copy = shutil.copytree(path, path.with_name("view.cbid"))
        with contextlib.closing(sqlite3.connect(copy / "images.sqlite")) as table:
            table.executescript(ENDLESS)
        expect_error(copy)
        copy = shutil.copytree(path, path.with_name("name.cbid"))
        index = next(copy.glob("index-*"))
        manifest, _ = IndexManifest.read(index)
        manifest.segments[0].name = "../../outside"  # a removal would write files that begin with this name
        manifest.write(index)
        expect_error(copy)
        signal.alarm(0)


def expect_error(path) -> None:
    """Open a project, which must fail."""
    try:
        Project.open(path, write=True)
    except (ProjectError, IndexCorruptError):
        return
    raise AssertionError(f"{path.name} was accepted")


if __name__ == "__main__":
    main()
