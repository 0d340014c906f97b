"""``cbid data``: which data sets are on this machine."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.data.names import printable
from cbid.paper.sets import CATALOGUE, ROOT_VARIABLE, DataAbsent, SetInfo, open_set

__all__ = ["show_data"]


def show_data(
    name: Annotated[str | None, typer.Argument(help="One data set, to see all about it.")] = None,
    root: Annotated[
        Path | None, typer.Option(help=f"The folder that holds data sets; otherwise what {ROOT_VARIABLE} says.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the data sets that are known, and which of them are here."""
    if name is not None:
        if name not in CATALOGUE:
            raise typer.BadParameter(f"{name!r} is not known; choose one of {', '.join(CATALOGUE)}")
        found = _found(CATALOGUE[name], root)
        typer.echo(json.dumps(found, indent=1) if as_json else _card(found))
        return
    everything = [_found(info, root) for info in CATALOGUE.values()]
    typer.echo(json.dumps(everything, indent=1) if as_json else _table(everything))


def _found(info: SetInfo, root: Path | None) -> dict[str, Any]:
    """All that is known of a set, here and in general, as JSON values."""
    found: dict[str, Any] = {
        "name": info.name,
        "title": info.title,
        "state": "present",
        "path": None,
        "images": None,
        "classes": None,
        "problem": None,
        "layout": info.layout,
        "get": info.get,
        "licence": info.licence,
        "caution": info.caution,
        "protocols": {name: {"repeats": p.repeats, "text": p.text} for name, p in info.protocols.items()},
    }
    try:
        found["path"] = printable(info.find(root))
        opened = open_set(info.name, root)
        found["images"] = len(opened)
        found["classes"] = None if opened.classes is None else len(opened.classes)
    except DataAbsent as error:
        found |= {"state": "absent", "problem": str(error)}
    except (ValueError, OSError) as error:
        found |= {"state": "damaged", "problem": str(error)}
    return found


def _table(everything: list[dict[str, Any]]) -> str:
    head = ("name", "state", "images", "classes", "where")
    rows = [
        (
            f["name"],
            f["state"],
            *("" if f[k] is None else f"{f[k]:,}" for k in ("images", "classes")),
            f["path"] or "",
        )
        for f in everything
    ]
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(4)]
    lines = [
        f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  {row[4]}".rstrip()
        for row in (head, *rows)
    ]
    return "\n".join([*lines, "", "cbid data NAME tells what a set is, how it must lie, and how it is split."])


def _card(found: dict[str, Any]) -> str:
    here = found["path"] if found["state"] == "present" else found["problem"]
    lines = [found["title"], f"  {found['state']}: {here}"]
    if found["images"] is not None:
        lines.append(f"  {found['images']:,} images, {found['classes']} classes")
    lines += [f"  {word}: {found[word]}" for word in ("layout", "get", "licence", "caution") if found[word]]
    lines.append("  protocols:")
    lines += [
        f"    {name} ({p['repeats']} {'repeats' if p['repeats'] > 1 else 'repeat'}): {p['text']}"
        for name, p in found["protocols"].items()
    ]
    return "\n".join(lines)
