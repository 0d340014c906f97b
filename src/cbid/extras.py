"""Optional dependencies: the error for a missing one names the command that installs it."""

import os
import re
import shlex
import sys

_EXTRA = re.compile(r"""\s*extra\s*==\s*["']([\w-]+)["']""")
_OWN = re.compile(r"cbid\s*\[([\w,\s-]+)\]")


def missing_extra(what: str, extra: str) -> ImportError:
    """Return the error to raise if a package of an extra is missing.

    >>> str(missing_extra("the report", "plots"))  # doctest: +ELLIPSIS
    "the report needs the extra 'plots': ... -m pip install 'matplotlib>=3.9'"
    """
    return ImportError(f"{what} needs the extra {extra!r}: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra into this environment.

    It names the packages, not ``cbid[extra]``, which would need cbid itself on a package index.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        listed = requires("cbid") or []
    except PackageNotFoundError:  # cbid runs from its sources and is not installed
        listed = []
    wanted = list(dict.fromkeys(_packages(extra, listed)))
    if not wanted:
        return f"install the packages that pyproject.toml lists as {extra!r}"
    return " ".join([shlex.quote(_python()), "-m pip install", *(shlex.quote(name) for name in wanted)])


def _packages(extra: str, listed: list[str]) -> list[str]:
    """Return the requirements of an extra; those of the extras that it includes come first."""
    found: list[str] = []
    for entry in listed:
        requirement, _, marker = entry.partition(";")
        named = _EXTRA.search(marker)
        if named is None or named[1] != extra:
            continue
        own = _OWN.match(requirement)
        if own is None:
            found.append(requirement.strip())
        else:
            for inner in own[1].split(","):
                found += _packages(inner.strip(), listed)
    return found


def _python() -> str:
    """Return the interpreter, relative if it is in the current folder."""
    inside = os.path.join(os.getcwd(), "")
    return sys.executable.removeprefix(inside) or "python"
