"""Parts of a self-contained HTML report: the page with its style sheet, tables, lists of facts, embedded images."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape
from importlib.metadata import PackageNotFoundError, version

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
p { max-width: 45rem; } dt { font-weight: 600; } dd { margin: 0 0 .5rem 0; }
svg, img { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; } .scroll svg { max-width: none; }
table { border-collapse: collapse; }
th, td { padding: .25rem .75rem .25rem 0; text-align: right; font-variant-numeric: tabular-nums; }
td { border-bottom: 1px solid #8884; } th, thead td { border-bottom: 1px solid #767676; font-weight: 600; }
th:first-child, td:first-child, .text th, .text td { text-align: left; vertical-align: top; }
td { white-space: nowrap; } .text td { white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 48rem) { table { font-size: .8rem; } th, td { padding-right: .3rem; } }
"""


def page(title: str, sections: Sequence[str], *, style: str = "") -> str:
    """Return a whole HTML document that refers to nothing outside itself.

    Parameters
    ----------
    title : str
        Plain text; it is escaped.
    sections : sequence of str
        HTML. Empty sections are skipped.
    style : str
        CSS that follows the common style sheet.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, text: bool = False, escaped: bool = False) -> str:
    """Return a table that scrolls sideways on a narrow screen.

    Parameters
    ----------
    header : sequence of str
        Column names, plain text; one may be empty. If all are, the table has no header.
    rows : sequence of sequences of str
        Cells. The first column is aligned left, the others right.
    text : bool, default=False
        Align all columns left and break long words.
    escaped : bool, default=False
        Whether the cells are HTML already.
    """
    names = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in header)
    head = f"<thead><tr>{names}</tr></thead>" if any(header) else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{cell if escaped else escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    kind = "scroll text" if text else "scroll"
    return f'<div class="{kind}" tabindex="0"><table>{head}<tbody>{body}</tbody></table></div>'


def definitions(facts: Mapping[str, str]) -> str:
    """Return a list of names and values, both plain text; empty values are skipped."""
    items = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value)
    return f"<dl>{''.join(items)}</dl>"


def embedded_image(content: bytes, alt: str, *, format: str = "png") -> str:
    """Return an ``<img>`` element that holds the bytes of an image file; ``alt`` is plain text."""
    name = escape(alt)
    data = base64.b64encode(content).decode()
    return f'<img src="data:image/{format};base64,{data}" alt="{name}" title="{name}">'


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
