"""The figures on the page equal the raw results."""

import pytest

from benchmarks import scale_report


@pytest.mark.parametrize("block", scale_report.BLOCKS)
def test_the_page_shows_the_stored_results(block):
    assert scale_report.page_with(block, scale_report.raw(block)) == scale_report.PAGE.read_text()


@pytest.mark.parametrize("block", ["memory", "encode", "milvus"])
def test_what_was_claimed_was_measured(block):
    claims = scale_report.raw(block)["claims"]
    assert all(claims.values()), claims
