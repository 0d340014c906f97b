"""List files: one image per line, with an optional label or several; and label files beside images."""

import csv
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cbid.checks import check_choice
from cbid.data.decode import MAX_PIXELS, ImageError
from cbid.data.folders import SUFFIXES, ImageFolder, report_problems
from cbid.data.image_sets import ImageFiles, Problems
from cbid.labels import encode_labels
from cbid.text import printable

SIDECAR = "labels.csv"  # beside images: their names and labels

_HEADERS = frozenset({"path", "file", "filename", "file_name", "image", "name"})


class ImageList(ImageFiles):
    """The images listed in a text file, in its order.

    Each line is a path, or a path and a label; paths are relative to the folder of the list. The first line sets the
    separator: a tab; else a comma, with CSV quotes; else the last blank (unless the text after it has the suffix
    of an image, so that a path can contain blanks). A first line such as "path,label" is a header. Empty lines are
    skipped; an empty label is a missing label. If the header calls the second column "labels", it holds any number of
    labels, separated by semicolons: they are in ``label_sets``.

    Parameters
    ----------
    path : path
        The list file.
    on_error : {"raise", "skip"}, default="raise"
        Raise an ``ImageError`` that names missing files, or list them in ``problems``.
    max_pixels : int
        As in ``read_image``.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, on_error: str = "raise", max_pixels: int = MAX_PIXELS
    ) -> None:
        check_choice("on_error", on_error, ("raise", "skip"))
        root = Path(path).parent
        problems: Problems = []
        names: list[str] = []
        given: list[str] = []
        labelled, several, rows = _read(Path(path))
        for name, label in rows:
            reason = _missing(os.path.join(root, name))
            if reason is not None:
                problems.append((name, reason))
                continue
            names.append(name)
            given.append(label)
        if not names and not problems:
            raise ImageError(
                f"{printable(path)} lists no images: expected a path, or a path and a label, in each line"
            )
        report_problems(path, problems, on_error)
        if not names:
            raise ImageError(f"{printable(path)}: all of its {len(problems)} images are missing")
        super().__init__(root, names, max_pixels=max_pixels)
        if labelled:
            _give_labels(self, given, several)
        self.problems = problems


def open_with_sidecar(folder: Path, *, on_error: str = "raise", max_pixels: int = MAX_PIXELS) -> ImageFiles | None:
    """Return the images of a folder with the labels of the file labels.csv in it.

    The file is a list of names and labels, as ``ImageList`` reads it. It is used if it is in the same folder as
    images. For a folder of class folders, the result is None. Images that it does not list have no label.
    """
    if not (folder / SIDECAR).is_file():
        return None
    images = ImageFolder(folder, labelled=False, on_error="skip", max_pixels=max_pixels)
    if all(os.path.dirname(name) for name in images.names):
        return None
    labelled, several, rows = _read(folder / SIDECAR)
    if not labelled:
        raise ImageError(f"{printable(folder / SIDECAR)} has no labels: expected a name and a label in each line")
    given = {os.path.normpath(name): label for name, label in rows}
    known = {os.path.normpath(name) for name in images.names}
    images.problems += [(name, f"no such image, but {SIDECAR} lists it") for name in given if name not in known]
    report_problems(folder, images.problems, on_error)
    _give_labels(images, [given.get(os.path.normpath(name), "") for name in images.names], several)
    return images


def _give_labels(images: ImageFiles, given: list[str], several: bool) -> None:
    if several:
        parts = [[label.strip() for label in labels.split(";")] for labels in given]
        images.label_sets = [list(dict.fromkeys(label for label in labels if label)) for labels in parts]
    else:
        images.classes, images.labels = encode_labels([label or None for label in given], missing=True)


def _read(path: Path) -> tuple[bool, bool, list[tuple[str, str]]]:
    """Return whether a list has labels, whether it has several for an image, and its paths and labels."""
    several, labelled = False, None
    found = []
    for number, fields in _rows(path):
        if number == 1 and fields[0].lower() in _HEADERS:
            several = len(fields) == 2 and fields[1].lower() == "labels"
            continue
        if labelled is None:
            labelled = len(fields) == 2
        if len(fields) != 1 + labelled or not fields[0]:
            expected = "a path and a label" if labelled else "a path alone"
            raise ImageError(f"{printable(path)}, line {number}: expected {expected}, as in the first line")
        found.append((fields[0], fields[-1] if labelled else ""))
    return bool(labelled), several, found


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) without empty lines; bytes that are not UTF-8 are preserved."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        first = file.readline()
        file.seek(0)
        rows: Iterator[list[str]]
        if "\t" in first:
            rows = (line.rstrip("\r\n").split("\t") for line in file)
        elif "," in first:
            rows = csv.reader(file)
        else:
            rows = (_split_at_blank(line) for line in file)
        try:
            for number, fields in enumerate(rows, 1):
                fields = [field.strip() for field in fields]
                if any(fields):
                    yield number, fields
        except csv.Error as error:
            raise ImageError(f"{printable(path)} is not a list of paths and labels: {error}") from error


def _split_at_blank(line: str) -> list[str]:
    path, _, label = line.strip().rpartition(" ")
    if not path or os.fsencode(os.path.splitext(label)[1].lower()) in SUFFIXES:
        return [line.strip()]
    return [path, label]


def _missing(path: str) -> str | None:
    try:
        return None if stat.S_ISREG(os.stat(path).st_mode) else "not a regular file"
    except (OSError, ValueError):  # ValueError: an invalid file name
        return "a broken link" if os.path.islink(path) else "no such file"
