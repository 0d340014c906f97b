"""Saving that cannot be done: a full disk, limits, read-only directories; and what killed writers leave."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from cbid.search import CodeIndex
from cbid.search import manifest as manifest_module
from cbid.search.manifest import is_index_file
from tests.search.stored import content, listing


@pytest.mark.parametrize("moment", range(6))
@pytest.mark.parametrize("new", [False, True])
def test_full_disk(saved, index, tmp_path, monkeypatch, moment, new):
    """The disk fills up at the first, second, ... write: a clear error, and the directory as it was."""
    target = tmp_path / "new" if new else saved
    index.add(np.zeros((5000, 3), np.uint8), labels=np.zeros(5000, int))
    before = None if new else listing(saved)
    real, left = manifest_module._write_fully, [moment]

    def write(file, data):
        if left[0] == 0:
            real(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        real(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(manifest_module, "_write_fully", write)
        with pytest.raises(OSError, match=r"was not saved.*: No space left") as error:
            index.save(target)
    assert error.value.errno == errno.ENOSPC
    assert not target.exists() if new else listing(saved) == before
    index.save(target)
    assert content(CodeIndex.open(target)) == content(index)


def test_failed_first_save_into_an_empty_directory_leaves_it_empty(tmp_path, index, monkeypatch):
    def fail(self, directory):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(manifest_module.IndexManifest, "write", fail)
    with pytest.raises(OSError, match="was not saved"):
        index.save(tmp_path)
    assert not list(tmp_path.iterdir())


LIMITED = """
import resource, signal, sys
import numpy as np
from cbid.search import CodeIndex
index = CodeIndex.open(sys.argv[1])
index.add(np.zeros((50_000, 3), np.uint8), labels=np.zeros(50_000, int))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    index.save()
except OSError as error:
    print(error)
"""


def test_a_limit_on_the_size_of_files(saved):
    before = listing(saved)
    done = subprocess.run([sys.executable, "-c", LIMITED, str(saved)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert listing(saved) == before


READ_ONLY = """
import os, sys
import numpy as np
from cbid.search import CodeIndex
CodeIndex.open(sys.argv[1]).search(np.zeros(3, np.uint8), 1)  # imports all that others may not read
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
index = CodeIndex.open(sys.argv[1])
print(index.search(np.zeros(3, np.uint8), 1).ids.tolist())
index.remove(index.ids[:1])
path, new = sys.argv[1:]
for act in (index.save, lambda: CodeIndex.open(path, writable=True), lambda: CodeIndex(8).save(new)):
    try:
        act()
    except PermissionError as error:
        print(error)
"""


def test_read_only_directory(index):
    # Not under tmp_path, which other users cannot enter: the check has to run as a user without privileges.
    with tempfile.TemporaryDirectory() as outer:
        saved = Path(outer) / "index"
        index.save(saved)
        before = listing(saved)
        for directory in (saved, Path(outer)):
            directory.chmod(0o555)
        try:
            done = subprocess.run(
                [sys.executable, "-c", READ_ONLY, str(saved), str(Path(outer) / "new")],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        finally:
            for directory in (saved, Path(outer)):
                directory.chmod(0o755)
        lines = done.stdout.splitlines()
        assert len(lines) == 4, done.stdout + done.stderr
        assert "Permission denied" in lines[1]
        assert "index cannot be opened for writing" in lines[2]
        assert "new was not saved" in lines[3]
        assert listing(saved) == before


def test_litter_of_a_killed_writer_is_removed_by_the_next(saved, index):
    litter = ["segment-0123456789abcdef.codes.npy", "manifest.json.tmp", "weights-0123456789abcdef.npy"]
    for name in [*litter, "notes.txt"]:
        (saved / name).write_text("begun")
    assert all(is_index_file(name) for name in litter)
    index.remove(0)
    index.save()
    names = set(listing(saved))
    assert not names & set(litter)
    assert "notes.txt" in names
    shutil.copytree(saved, saved.parent / "first save killed")
    (saved.parent / "first save killed" / "manifest.json").unlink()
    (saved.parent / "first save killed" / "notes.txt").unlink()
    index.save(saved.parent / "first save killed")
    assert content(CodeIndex.open(saved.parent / "first save killed")) == content(index)
