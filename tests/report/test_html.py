"""Parts of a report: escaping and structure."""

import subprocess
import sys

from cbid.report.html import definitions, embedded_image, page, table


def test_text_is_escaped():
    assert "<title>a &lt;b&gt;</title>" in page("a <b>", [])
    assert "<td>&lt;b&gt;</td>" in table(["<h>"], [["<b>"]])
    assert "&lt;h&gt;</th>" in table(["<h>"], [["<b>"]])
    assert "<td><b>x</b></td>" in table([""], [["<b>x</b>"]], escaped=True)
    assert definitions({"<k>": "<v>", "empty": ""}) == "<dl><dt>&lt;k&gt;</dt><dd>&lt;v&gt;</dd></dl>"
    assert 'alt="&quot;"' in embedded_image(b"", '"')


def test_structure():
    text = page("t", ["<p>one</p>", "", "<p>two</p>"], style="p { color: red; }")
    assert "<p>one</p>\n<p>two</p>" in text
    assert "p { color: red; }</style>" in text
    assert "<thead>" not in table(["", ""], [["a", "b"]])
    assert 'class="scroll text"' in table(["a"], [["b"]], text=True)
    assert embedded_image(b"abc", "x", format="jpeg").startswith('<img src="data:image/jpeg;base64,YWJj"')


def test_the_parts_load_without_a_project():
    code = "import sys, cbid.report.html; assert 'cbid.project' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
