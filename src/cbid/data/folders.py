"""Image files in folders: one folder per class, or one folder without classes."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from cbid.checks import check_choice, check_integer
from cbid.data.decode import MAX_PIXELS, ImageError, reason_of
from cbid.data.image_sets import ImageFiles, Problems
from cbid.labels import encode_labels
from cbid.text import printable

SUFFIXES = frozenset(
    b".jpg .jpeg .jpe .jfif .png .webp .gif .bmp .tif .tiff .ppm .pgm .pbm .pnm .avif .heic .heif .hif".split()
)  # of image files; their format is detected from the content
_UNKNOWN = frozenset(
    b".arw .cr2 .cr3 .dng .nef .orf .raf .raw .rw2 .jp2 .j2k .jxl .psd .xcf .svg .tga .exr .hdr".split()
)  # images that cannot be read: they are reported as skipped
_NOT_CLASSES = frozenset(
    b"@eadir @__thumb @recycle #recycle #snapshot $recycle.bin __macosx lost+found thumbnails".split()
)  # folders of file servers, systems and cameras, in lower case


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
    label_depth : int, default=1
        Which folder of the path is the label: 1 for the class folders in the folder, 2 for the folders in these, as
        in 2024/cats/1.jpg. Images in fewer folders have no label.
    label : str, optional
        A regular expression that finds the label in the path of each image, such as ``"([a-z]+)_[0-9]+"`` for
        cat_001.jpg: its first group, or the whole match. Images without a match have no label.
    on_error : {"raise", "skip"}, default="raise"
        What to do about broken links and loops of links, unreadable folders, classes without images, and images
        next to the class folders: raise an ``ImageError`` that lists them, or list them in ``problems``.
    max_pixels : int
        As in ``read_image``.

    Notes
    -----
    Hidden files and folders, folders of thumbnails and of systems (``@eaDir``, ``__MACOSX``, ``#recycle``), and files
    without the suffix of an image are ignored. Images of formats that cannot be read count as problems. Links are
    followed, but no folder is read twice for one class, so loops of links end.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        labelled: bool | None = None,
        tree: bool = False,
        label_depth: int = 1,
        label: str | None = None,
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
        by_path = _path_labels(label, label_depth, tree=tree, labelled=labelled)
        if labelled is False or by_path is not None:
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
                    scan.problem(name, "an image next to the class folders")
        if not files:
            raise ImageError(_nothing(root, scan))
        super().__init__(
            root,
            files,
            np.array(labels, dtype=np.int64) if classes else None,
            np.array(classes) if classes else None,
            max_pixels=max_pixels,
        )
        if by_path is not None:
            given = [by_path(file.decode("utf-8", "backslashreplace")) for file in files]
            if not any(given):
                chosen = f"label={label!r}" if label is not None else f"label_depth={label_depth}"
                raise ImageError(f"{printable(root)}: {chosen} gives no image a label, such as {self.names[0]!r}")
            self.classes, self.labels = encode_labels(given, missing=True)
        if tree and classes:
            folders_of = [os.path.dirname(file).decode("utf-8", "backslashreplace") for file in files]
            self.classes, self.labels = np.unique(folders_of, return_inverse=True)
        self.problems = scan.problems
        report_problems(root, scan.problems, on_error)


def _path_labels(
    label: str | None, depth: int, *, tree: bool, labelled: bool | None
) -> Callable[[str], str | None] | None:
    """Return the function from the path of an image to its label, or None if the class folders give it."""
    check_integer("label_depth", depth, 1)
    if label is None and depth == 1:
        return None
    if tree or labelled is False or (label is not None and depth != 1):
        raise ValueError("label, label_depth, tree and labelled=False exclude each other: expected one of them")
    if label is None:
        return lambda path: path.split("/")[depth - 1] if path.count("/") >= depth else None
    try:
        pattern = re.compile(label)
    except re.error as error:
        raise ValueError(f"label={label!r}: expected a regular expression ({error})") from error

    def find(path: str) -> str | None:
        match = pattern.search(path)
        return (match and (match[1] if pattern.groups else match[0])) or None

    return find


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
            suffix = os.path.splitext(entry.name)[1].lower()
            if stat.S_ISDIR(mode):
                if entry.name.lower() not in _NOT_CLASSES:
                    folders.append(name)
            elif suffix in _UNKNOWN:
                self.problem(name, f"images of the format {suffix.decode()} cannot be read")
            elif suffix not in SUFFIXES:
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
