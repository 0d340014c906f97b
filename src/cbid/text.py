"""Text for messages and terminals: names that can be printed, and counts. It imports nothing that is slow to load."""

import os


def printable(path: str | bytes | os.PathLike[str]) -> str:
    """Return a path as one line of printable text; other characters and undecodable bytes are escaped."""
    return escaped(os.fsdecode(path))


def escaped(text: str, *, kept: str = "") -> str:
    r"""Return a text with escapes such as \x1b for the characters that are neither printable nor ``kept``."""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> count(1, "file"), count(2000, "copy", "copies")
    ('1 file', '2,000 copies')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
