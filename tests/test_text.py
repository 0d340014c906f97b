"""Names that can be printed, and counts."""

import os

from hypothesis import given
from hypothesis import strategies as st

from cbid.text import count, escaped, printable


@given(st.binary(min_size=1, max_size=20).filter(lambda b: b"\0" not in b))
def test_any_name_can_be_shown(raw):
    shown = printable(os.fsdecode(raw))
    shown.encode()
    assert shown.isprintable()
    assert "\n" not in shown


def test_what_is_kept_is_not_escaped():
    assert escaped("a\tb\x1b[0m") == r"a\tb\x1b[0m"
    assert escaped("a\tb\x1b[0m", kept="\t") == "a\tb\\x1b[0m"
    assert escaped("\udcff") == r"\udcff"  # an undecodable byte


def test_counts_have_their_noun():
    assert [count(n, "cell") for n in (0, 1, 2, 1500)] == ["0 cells", "1 cell", "2 cells", "1,500 cells"]
    assert [count(n, "copy is", "copies are") for n in (1, 3)] == ["1 copy is", "3 copies are"]
