"""A search page without a server: codes, labels and thumbnails of a project in one HTML file, or in a folder."""

import base64
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.coders.learned import DIAL
from cbid.data import ImageError
from cbid.data.isolated import DecodeLimits, decode_all
from cbid.storage.atomic import whole_file
from cbid.text import printable

if TYPE_CHECKING:
    from cbid.project import Project

MAX_IMAGES = 100_000  # a browser searches and sorts them without delay
MAX_FILE_BYTES = 50 * 2**20
_SIDE, _QUALITY = 128, 70  # of the thumbnails
_IN_FOLDER = 1000  # thumbnails in one folder
_BATCH = 256  # thumbnails decoded by one process


class OfflinePage(NamedTuple):
    """What was written: the file to open, whether it is in its own folder, and the bytes of all files."""

    path: Path
    in_folder: bool
    n_bytes: int


def write_offline_page(
    project: "Project", path: str | os.PathLike[str], *, max_file_bytes: int = MAX_FILE_BYTES
) -> OfflinePage:
    """Write a page that searches the images of a project in the browser, without a server or other files.

    Parameters
    ----------
    project : Project
        An open project with at most 100,000 images.
    path : path
        The HTML file. An existing file is replaced. If the page is larger than ``max_file_bytes``, it becomes the
        folder of the same name without the suffix, which must not exist, with ``index.html`` in it.
    max_file_bytes : int, default=50 MiB
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{printable(target)}: expected a name that ends in .html")
    if len(project) > MAX_IMAGES:
        raise ValueError(f"{printable(project.path)} has {len(project):,} images: expected at most {MAX_IMAGES:,}")
    data = _data(project)
    thumbs: list[bytes] = []
    size = len(json.dumps(data)) + 4 * 10**4
    if project.has_thumbnails:
        thumbs = list(_small_thumbnails(project))
        size += sum(4 * ((len(jpeg) + 2) // 3) + 3 for jpeg in thumbs)
    if size > max_file_bytes:
        return _write_folder(target.with_suffix(""), data, thumbs)
    if thumbs:
        data["thumbs"] = [base64.b64encode(jpeg).decode() for jpeg in thumbs]
    text = _page(data["name"], f"<script>{_script(data)}</script>")
    with whole_file(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return OfflinePage(target, False, target.stat().st_size)


def _data(project: "Project") -> dict[str, Any]:
    """Return what the page needs, without pictures. Images are known by their place; ids are in the addresses."""
    ids = project.ids
    records = project.records_of(ids)
    classes = project.classes
    number = {name: i for i, name in enumerate(classes)}
    found = [tuple(number[name] for name in record.labels if name in number) for record in records]
    label_sets = sorted({*found} - {()})
    place = {labels: i for i, labels in enumerate(label_sets)}
    labels = np.array([place.get(labels, -1) for labels in found], dtype="<i4")
    likeness = float(project.coder.likeness_) if project.has_dial else 0.0
    points = sorted({*DIAL, likeness}) if project.has_dial else [0.0]
    weights = [project.weights(project.n_bits, likeness=at if project.has_dial else None) for at in points]
    return {
        "name": printable(project.path.resolve().name.removesuffix(".cbid")),
        "n_bits": project.n_bits,
        "ids": ids.tolist(),
        "names": [printable(record.name) for record in records],
        "classes": [printable(name) for name in classes],
        "label_sets": label_sets,
        "labels": _packed(labels.view(np.uint8)),
        "codes": _packed(project.index.reconstruct(ids)),
        "points": points,
        "weights": [[float(f"{w:.7g}") for w in row] for row in weights],
        "likeness": likeness,
    }


def _packed(values: NDArray[np.uint8]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _small_thumbnails(project: "Project") -> Iterator[bytes]:
    """Yield thumbnails of fewer bytes. Another process decodes them: a stranger may have made the project."""
    ids = project.ids.tolist()
    for first in range(0, len(ids), _BATCH):
        jpegs = [project.thumbnail(id) for id in ids[first : first + _BATCH]]
        for jpeg, values in zip(jpegs, decode_all(jpegs, DecodeLimits())):
            if isinstance(values, ImageError):
                raise values
            yield _smaller(jpeg, values)


def _smaller(jpeg: bytes, values: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    picture, buffer = Image.fromarray(values), io.BytesIO()
    picture.thumbnail((_SIDE, _SIDE))
    picture.save(buffer, "JPEG", quality=_QUALITY, optimize=True)
    return min(jpeg, buffer.getvalue(), key=len)


def _script(data: dict[str, Any]) -> str:
    """Return JavaScript that cannot close its own element, for any names of files."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return f"window.CBID={text};"


def _page(name: str, script: str) -> str:
    template = Path(__file__).with_name("offline.html").read_text(encoding="utf-8")
    before, after = template.split("\nDATA\n")
    return before.replace("TITLE", escape(name), 1) + "\n" + script + "\n" + after


def _write_folder(folder: Path, data: dict[str, Any], thumbs: list[bytes]) -> OfflinePage:
    """Write the page as a folder, whole or not at all."""
    if folder.exists():
        raise FileExistsError(f"{printable(folder)} exists; the page needs a new folder of this name")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir(parents=True)
    try:
        if thumbs:
            data["folder"] = "thumbs"
        (temporary / "data.js").write_text(_script(data), encoding="utf-8")
        (temporary / "index.html").write_text(
            _page(data["name"], '<script src="data.js"></script>'), encoding="utf-8"
        )
        for place, jpeg in enumerate(thumbs):
            part = temporary / "thumbs" / str(place // _IN_FOLDER)
            if place % _IN_FOLDER == 0:
                part.mkdir(parents=True)
            (part / f"{place}.jpg").write_bytes(jpeg)
        os.rename(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return OfflinePage(folder / "index.html", True, size)
