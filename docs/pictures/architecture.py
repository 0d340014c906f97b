"""Draw the packages of cbid from the layers in pyproject.toml: ``python docs/pictures/architecture.py``."""

import ast
import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGET = Path(__file__).with_name("architecture.svg")
HIDDEN = {"__main__"}
WORDS = {
    "cli": "entry point, exit status, errors in one line",
    "commands": "one module per command",
    "web": "search page and REST service",
    "paper": "experiments, named data sets, claims",
    "report": "HTML reports",
    "project": "a folder of images, fitted and searched",
    "scale": "more than memory, Dask",
    "detection": "sliding window, verification",
    "classify": "k-NN on codes, NBNN",
    "vector_index": "coder, codes and vectors in one index",
    "coders": "CBID, PatchCBID, rivals",
    "search": "CodeIndex, kernels, stores",
    "evaluation": "metrics",
    "pooling": "many vectors to one",
    "learning": "C-BID: rows, bits, weights",
    "descriptors": "from pixels to vectors, with a cache",
    "data": "folders, lists, arrays, tables; decoding",
    "storage": "files: models, arrays, digests, locks",
}
LEFT, WIDTH, HEIGHT, GAP = 90, 700, 46, 12
COLOURS = {"commands": "#fde2c8", "cli": "#fde2c8", "web": "#fde2c8", "storage": "#e4e4e4"}
COLOURS |= dict.fromkeys(("learning", "coders", "search"), "#c9e4e7")


def layers() -> list[list[str]]:
    """Return the packages of each layer, from top to bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rows = [[name for name in re.split(r"\s*[|:]\s*", layer) if name not in HIDDEN] for layer in found]
    return [row for row in rows if row]


def words(name: str) -> str:
    """Return the short description of a package: from the table, else the start of its docstring."""
    if name in WORDS:
        return WORDS[name]
    path = ROOT / "src" / "cbid" / name
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    summary = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
    return re.split(r"[:;,.]", summary)[0].lower()


def arrow(x: float, top: float, bottom: float, text: str, *, up: bool) -> str:
    """Draw a vertical arrow with its text beside it."""
    head = (
        f"M{x - 6} {top + 10}L{x} {top}L{x + 6} {top + 10}"
        if up
        else f"M{x - 6} {bottom - 10}L{x} {bottom}L{x + 6} {bottom - 10}"
    )
    middle = (top + bottom) / 2
    return (
        f'<path d="M{x} {top}V{bottom}{head}" fill="none" stroke="#666" stroke-width="2"/>'
        f'<text x="{x - 14}" y="{middle}" text-anchor="middle" fill="#444" '
        f'transform="rotate(-90 {x - 14} {middle})">{text}</text>'
    )


def box(name: str, left: float, top: float, width: float, *, with_words: bool) -> str:
    """Draw one package."""
    middle = left + width / 2
    colour = COLOURS.get(name, "#f2efe6")
    lines = [
        f'<rect x="{left:g}" y="{top}" width="{width:g}" height="{HEIGHT}" rx="6" fill="{colour}" stroke="#888"/>'
    ]
    name_at = top + (20 if with_words else 28)
    lines.append(
        f'<text x="{middle:g}" y="{name_at}" text-anchor="middle" font-weight="bold" fill="#111">{name}</text>'
    )
    if with_words:
        lines.append(
            f'<text x="{middle:g}" y="{top + 37}" text-anchor="middle" font-size="12" fill="#333">'
            f"{escape(words(name))}</text>"
        )
    return "\n".join(lines)


def draw() -> str:
    """Return the picture as SVG."""
    rows = layers()
    parts = []
    for number, row in enumerate(rows):
        width = (WIDTH - GAP * (len(row) - 1)) / len(row)
        top = 20 + number * (HEIGHT + GAP)
        for i, name in enumerate(row):
            parts.append(box(name, LEFT + i * (width + GAP), top, width, with_words=len(row) < 4))
    bottom = 20 + len(rows) * (HEIGHT + GAP) - GAP
    total = LEFT * 2 + WIDTH
    parts.append(arrow(60, 20, bottom, "a package imports only packages below it", up=False))
    parts.append(arrow(total - 40, 20, bottom, "data flows from files to answers", up=True))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {bottom + 20}" '
            'font-family="sans-serif" font-size="15">',
            "<title>The packages of cbid in layers</title>",
            f'<rect width="{total}" height="{bottom + 20}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(draw())
    print(f"written: {TARGET.relative_to(ROOT)}")
