"""List files: one image per line, with an optional label."""

import csv
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cbid.checks import check_choice
from cbid.data.decode import MAX_PIXELS, ImageError
from cbid.data.folders import SUFFIXES, report_problems
from cbid.data.image_sets import ImageFiles, Problems
from cbid.data.names import printable
from cbid.labels import encode_labels

__all__ = ["ImageList"]

_HEADERS = frozenset({"path", "file", "filename", "file_name", "image", "name"})


class ImageList(ImageFiles):
    """The images listed in a text file, in its order.

    Each line is a path, or a path and a label; paths are relative to the folder of the list. The first line sets the
    separator: a tab; else a comma, with CSV quotes; else the last blank (unless the text after it has the suffix
    of an image, so that a path can contain blanks). A first line such as "path,label" is a header. Empty lines are
    skipped; an empty label is a missing label.

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
        labelled: bool | None = None
        for number, fields in _rows(Path(path)):
            if labelled is None:
                labelled = len(fields) == 2
            if len(fields) != 1 + labelled or not fields[0]:
                expected = "a path and a label" if labelled else "a path alone"
                raise ImageError(f"{printable(path)}, line {number}: expected {expected}, as in the first line")
            reason = _missing(os.path.join(root, fields[0]))
            if reason is not None:
                problems.append((fields[0], reason))
                continue
            names.append(fields[0])
            given.append(fields[-1])
        if not names and not problems:
            raise ImageError(
                f"{printable(path)} lists no images: expected a path, or a path and a label, in each line"
            )
        report_problems(path, problems, on_error)
        if not names:
            raise ImageError(f"{printable(path)}: all of its {len(problems)} images are missing")
        classes, labels = (
            encode_labels([label or None for label in given], missing=True) if labelled else (None, None)
        )
        super().__init__(root, names, labels, classes, max_pixels=max_pixels)
        self.problems = problems


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) without header and empty lines; bytes that are not UTF-8 are preserved."""
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
                if any(fields) and not (number == 1 and fields[0].lower() in _HEADERS):
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
