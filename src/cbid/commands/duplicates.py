"""``cbid duplicates``: groups of near-identical images; it can move or link the copies, and deletes nothing."""

import os
import shutil
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbid.commands.options import JobsOption, JsonOption, echo, echo_json, echo_skipped, open_photographs, table
from cbid.text import count, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cbid.data import ImageSet

_N_BITS = 1024
_SIDE = 32  # pixels of the small image whose gradients the bits are made of


def duplicates(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A folder of images, or a list file.")],
    radius: Annotated[
        int, typer.Option(min=0, max=_N_BITS, help=f"Bits of {_N_BITS} in which the codes of two copies may differ.")
    ] = 64,
    html: Annotated[Path | None, typer.Option(help="Write a page with the groups side by side to this file.")] = None,
    move: Annotated[
        Path | None, typer.Option(help="Move the copies, all but one image of each group, to this folder.")
    ] = None,
    link: Annotated[
        Path | None, typer.Option(help="Make a folder of links for each group in this new folder.")
    ] = None,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find groups of near-identical images: resized, recompressed or slightly cropped copies.

    The first image of a group is the one with the most pixels; the others are its copies. Nothing is deleted.

    Example: cbid duplicates photos/ --html duplicates.html
    """
    import numpy as np

    from cbid.coders import LSH
    from cbid.data.isolated import DecodeLimits
    from cbid.descriptors import HOG, describe
    from cbid.search import CodeIndex

    for name, folder in (("--move", move), ("--link", link)):
        _check_folder(name, folder, source)
    if move and link and (_is_in(move, link) or _is_in(link, move)):
        raise ValueError(f"--move={move} and --link={link}: expected two folders, neither inside the other")
    if html is not None and (html.is_dir() or not html.parent.is_dir()):
        raise ValueError(f"--html={html}: expected a file in a folder that exists")
    images = open_photographs(source)
    if (move or link) and any(images.path(i) is None for i in range(len(images))):
        raise ValueError(f"{printable(source)} holds arrays: --move and --link need files")
    files = _files(images, source if source.is_dir() else source.parent)
    if html is not None and os.path.realpath(html) in files:
        raise ValueError(f"--html={html}: is one of the images; expected another file")
    failures = list(images.problems)
    if files:
        kept = sorted(files.values())
        again = sorted(set(range(len(images))).difference(kept))
        failures += [(str(images.names[i]), "a link to another of the images, or listed twice") for i in again]
        images = images.take(kept)
    small, extra = HOG(size=(_SIDE, _SIDE)), _size if html is None else _size_and_thumbnail
    found = describe(images, small, on_error="skip", n_jobs=n_jobs, extra=extra, limits=DecodeLimits())
    values = np.asarray(found.values)
    textured = values.any(axis=1)  # an image of one colour has no gradients to compare
    failures += found.failures
    failures += [(str(images.names[row]), "one colour only") for row in found.rows[~textured]]
    index = CodeIndex(_N_BITS)
    if textured.any():
        vectors = values[textured]
        coder = LSH(n_bits=_N_BITS, center=False, random_state=0).fit(vectors)
        index.add(coder.encode(vectors), ids=found.rows[textured])
    extras = dict(zip(found.rows.tolist(), found.extras))
    groups = [sorted(group.ids, key=lambda id: (-extras[id][0], id)) for group in index.groups(radius)]
    if html is not None:
        _write_page(html, [[(str(images.names[id]), extras[id][1]) for id in group] for group in groups])
    answer: dict[str, Any] = {
        "n_images": len(index),
        "groups": [[printable(images.names[id]) for id in group] for group in groups],
    }
    paths = [[Path(os.fsdecode(images.path(id) or "")) for id in group] for group in groups]
    if move is not None:
        names = [[str(images.names[id]) for id in group] for group in groups]
        paths = _move(move, paths, names)
        answer["moved"] = [str(path) for group_paths in paths for path in group_paths[1:]]
    if link is not None:
        answer["linked"] = _link(link, paths)
    if as_json:
        echo_json(answer)
    else:
        rows = [
            (number if place == 0 else "", "keep" if place == 0 else "copy", name)
            for number, group in enumerate(answer["groups"], 1)
            for place, name in enumerate(group)
        ]
        n_copies = sum(len(group) - 1 for group in groups)
        echo(f"{len(index):,} images, {count(len(groups), 'group')}, {count(n_copies, 'copy', 'copies')}")
        if rows:
            echo("\n" + table(["group", "", "image"], rows, right=["group"]))
    echo_skipped(failures)


def _size(image: "NDArray[np.uint8]") -> tuple[int, bytes]:
    """Return the number of pixels, and no thumbnail."""
    return image.shape[0] * image.shape[1], b""


def _size_and_thumbnail(image: "NDArray[np.uint8]") -> tuple[int, bytes]:
    """Return the number of pixels, and a small JPEG."""
    from cbid.data.images import thumbnail

    return image.shape[0] * image.shape[1], thumbnail(image)


def _files(images: "ImageSet", folder: Path) -> dict[str, int]:
    """Return the files of a set, each with its row: that of the file itself rather than that of a link to it."""
    root, found = os.path.realpath(folder), []
    for i in range(len(images)):
        path = images.path(i)
        if path is not None:
            file = os.path.realpath(path)
            by_link = file != os.path.normpath(os.path.join(root, os.fsdecode(images.names.raw(i))))
            found.append((by_link, i, file))
    rows: dict[str, int] = {}
    for _, i, file in sorted(found):
        rows.setdefault(file, i)
    return rows


def _is_in(folder: Path, other: Path) -> bool:
    return folder.resolve().is_relative_to(other.resolve())


def _check_folder(option: str, folder: Path | None, source: Path) -> None:
    if folder is None:
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{option}={folder}: exists; expected a new or empty folder")
    if source.is_dir() and _is_in(folder, source):
        raise ValueError(f"{option}={folder}: is in the source; expected a folder outside of it")


def _write_page(path: Path, groups: list[list[tuple[str, bytes]]]) -> None:
    from html import escape

    from cbid.report.html import embedded_image, page
    from cbid.storage.atomic import whole_file

    sections = [f"<h1>Duplicates: {count(len(groups), 'group')}</h1>"]
    for number, group in enumerate(groups, 1):
        figures = "".join(
            f"<figure>{embedded_image(small, name, format='jpeg')}<figcaption>{escape(name)}</figcaption></figure>"
            for name, small in group
        )
        sections.append(f'<h2>Group {number}</h2>\n<div class="group">{figures}</div>')
    style = ".group { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; max-width: 12rem; }"
    style += " figcaption { overflow-wrap: anywhere; font-size: .8rem; }"
    with whole_file(path) as temporary:
        temporary.write_text(page("Duplicates", sections, style=style), encoding="utf-8", errors="replace")


def _link(folder: Path, groups: list[list[Path]]) -> list[str]:
    """Make a folder of symbolic links for each group; return the links."""
    made = []
    for number, group in enumerate(groups, 1):
        inner = folder / f"{number:04}"
        inner.mkdir(parents=True)
        for place, path in enumerate(group, 1):
            target = inner / f"{place:02}-{path.name}"
            target.symlink_to(path.resolve())
            made.append(str(target))
    return made


def _move(folder: Path, groups: list[list[Path]], names: list[list[str]]) -> list[list[Path]]:
    """Move all but the first of each group, under their names below the source; return where all are now."""
    moved = []
    for paths, group_names in zip(groups, names):
        now = paths[:1]
        for path, name in zip(paths[1:], group_names[1:]):
            parts = [part for part in PurePath(os.path.normpath(name)).parts if part not in ("/", "..")]
            target = folder.joinpath(*parts)
            number = 1
            while os.path.lexists(target):
                number += 1
                target = folder.joinpath(*parts[:-1], f"{path.stem}-{number}{path.suffix}")
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():  # elsewhere, a relative link would lead to nothing
                target.symlink_to(path.resolve())
                path.unlink()
            else:
                shutil.move(path, target)
            now.append(target)
        moved.append(now)
    return moved
