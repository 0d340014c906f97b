"""Labels with escape sequences and formulas. Expected: they are escaped, and the report is made."""

import contextlib
import io

from attacks.target import made_project
from cbid.cli import run
from cbid.project import Project
from cbid.report.page import confusion_plot


def main() -> None:
    """Run the attack."""
    with made_project(("a\x07\x1b]0;title\x07", r"$\foo$")) as path:
        shown, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
            run(["evaluate", "--project", str(path)])
            run(["evaluate", "no\x07such", "--project", str(path)])
        assert not {"\x07", "\x1b"} & set(shown.getvalue() + errors.getvalue())
        with Project.open(path) as project:
            assert r"$\foo$" in confusion_plot(project.confusion)


if __name__ == "__main__":
    main()
