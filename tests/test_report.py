"""The figures that people read are those of the raw results."""

from benchmarks import report, rivals_report


def test_docs_and_readme_show_the_stored_results():
    assert report.TARGET.read_text() == report.document(), "run python -m benchmarks.report"
    assert report.RIVALS.read_text() == rivals_report.document(), "run python -m benchmarks.report"
    assert report.MARKS[0] + report.figures() + report.MARKS[1] in report.README.read_text()
