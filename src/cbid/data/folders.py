"""Image files in folders: one folder per class, or one folder without classes."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cbid.checks import check_choice
from cbid.data.decode import MAX_PIXELS, ImageError, reason_of
from cbid.data.image_sets import ImageFiles, Problems
from cbid.data.names import printable

__all__ = ["SUFFIXES", "ImageFolder", "report_problems"]

SUFFIXES = frozenset(
    b".jpg .jpeg .jpe .jfif .png .webp .gif .bmp .tif .tiff .ppm .pgm .pbm .pnm".split()
)  # of image files; their format is detected from the content


class ImageFolder(ImageFiles):
    """The images in a folder, sorted by name.

    Each subfolder is a class, including its own subfolders. If no subfolder holds images, the images of the folder
    itself are used, without labels.

    Parameters
    ----------
    path : path
        The folder.
    labelled : bool, optional
        False uses every image anywhere, without labels; True requires class folders; None decides by content.
    tree : bool, default=False
        True: nested class folders are a tree, and the label of an image is the path of its folder, such as
        "animal/dog".
    on_error : {"raise", "skip"}, default="raise"
        What to do about broken links and loops of links, unreadable folders, classes without images, and images
        beside the class folders: raise an ``ImageError`` that lists them, or list them in ``problems``.
    max_pixels : int
        As in ``read_image``.

    Notes
    -----
    Hidden files and files without the suffix of an image are ignored. Links are followed, but no folder is read twice
    for one class, so loops of links end.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        labelled: bool | None = None,
        tree: bool = False,
        on_error: str = "raise",
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        check_choice("on_error", on_error, ("raise", "skip"))
        check_choice("labelled", labelled, (None, True, False))
        if tree and labelled is False:
            raise ValueError("tree=True: expected labelled=None or True, because the folders are the labels")
        root = os.fspath(path)
        scan = _Scan(os.fsencode(root))
        files: list[bytes] = []
        labels: list[int] = []
        classes: list[str] = []
        if labelled is False:
            files = list(scan.files(b""))
        else:
            own, folders = scan.listing(b"")
            for folder in folders:
                scan.begin_class()
                found = list(scan.files(folder))
                if found:
                    labels += [len(classes)] * len(found)
                    classes.append(folder.decode("utf-8", "backslashreplace"))
                    files += found
                else:
                    scan.problem(folder, "a folder without images")
            if not classes and not labelled:
                files = own
            else:
                for name in own:
                    scan.problem(name, "an image beside the class folders")
        if not files:
            raise ImageError(_nothing(root, scan))
        super().__init__(
            root,
            files,
            np.array(labels, dtype=np.int64) if classes else None,
            np.array(classes) if classes else None,
            max_pixels=max_pixels,
        )
        if tree and classes:
            folders_of = [os.path.dirname(file).decode("utf-8", "backslashreplace") for file in files]
            self.classes, self.labels = np.unique(folders_of, return_inverse=True)
        self.problems = scan.problems
        report_problems(root, scan.problems, on_error)


def report_problems(where: str | os.PathLike[str], problems: Problems, on_error: str) -> None:
    """Raise an ``ImageError`` that lists the first problems if ``on_error="raise"``."""
    if problems and on_error == "raise":
        shown = "; ".join(f"{printable(name)}: {reason}" for name, reason in problems[:5])
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise ImageError(f"{printable(where)}: {shown}{more} (on_error='skip' skips them)")


def _nothing(root: str, scan: "_Scan") -> str:
    endings = " ".join(sorted(s.decode() for s in SUFFIXES))
    found = f"; it holds {scan.others} other files" if scan.others else ""
    problems = "".join(f"; {printable(name)}: {reason}" for name, reason in scan.problems[:5])
    return f"{printable(root)} holds no images (files with suffix {endings}){found}{problems}"


class _Scan:
    """A walk over folders that records visited folders and problems. Names are bytes relative to the root."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        # A link to a parent of the root would lead back to the root.
        above = Path(os.fsdecode(os.path.realpath(root)))
        self._above = {_identity(os.stat(folder)) for folder in (above, *above.parents)}
        self._seen: set[tuple[int, int]] = set()
        self.problems: Problems = []
        self.others = 0

    def begin_class(self) -> None:
        self._seen.clear()

    def problem(self, name: bytes, reason: str) -> None:
        self.problems.append((name.decode("utf-8", "backslashreplace"), reason))

    def files(self, folder: bytes) -> Iterator[bytes]:
        """Yield the images of a folder, then those of its subfolders."""
        waiting = [folder]
        while waiting:
            folder = waiting.pop()
            if folder and not self._is_new(folder):
                continue
            files, folders = self.listing(folder)
            yield from files
            waiting += reversed(folders)

    def listing(self, folder: bytes) -> tuple[list[bytes], list[bytes]]:
        """Return the sorted names of images and of subfolders in a folder."""
        files, folders = [], []
        try:
            with os.scandir(os.path.join(self._root, folder)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not folder:
                raise
            self.problem(folder, reason_of(error))
            return [], []
        for entry in found:
            if entry.name.startswith(b"."):
                continue
            name = os.path.join(folder, entry.name)
            try:
                mode = entry.stat().st_mode
            except OSError as error:
                self.problem(name, _broken(entry, error))
                continue
            if stat.S_ISDIR(mode):
                folders.append(name)
            elif os.path.splitext(entry.name)[1].lower() not in SUFFIXES:
                self.others += 1
            elif stat.S_ISREG(mode):
                files.append(name)
            else:
                self.problem(name, "not a regular file")
        return files, folders

    def _is_new(self, folder: bytes) -> bool:
        try:
            identity = _identity(os.stat(os.path.join(self._root, folder)))
        except OSError as error:
            self.problem(folder, reason_of(error))
            return False
        if identity in self._above:
            self.problem(folder, "a loop of links: it leads to one of its parents")
            return False
        if identity in self._seen:
            self.problem(folder, "a loop of links, or a second link to the same folder")
            return False
        self._seen.add(identity)
        return True


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _broken(entry: "os.DirEntry[bytes]", error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a loop of links"
    if entry.is_symlink() and error.errno == errno.ENOENT:
        return f"a broken link to {printable(os.readlink(entry.path))}"
    return reason_of(error)
