"""The figures of the page are those of the raw results."""

from benchmarks import scale_milvus_report


def test_the_page_tells_the_stored_results():
    results = scale_milvus_report.raw()
    assert results["claims"] == {"nothing_acknowledged_is_lost": True, "nothing_removed_comes_back": True}
    assert scale_milvus_report.page_with(results) == scale_milvus_report.PAGE.read_text()
