"""Counters and times in the text format of Prometheus."""

from cbid.web.metrics import Histogram, Metrics, resident_bytes


def test_a_histogram_counts_values_at_or_below_each_edge():
    histogram = Histogram()
    for value in (0.0005, 0.0006, 3.0, 100.0):
        histogram.observe(value)
    lines = dict(line.rsplit(" ", 1) for line in histogram.lines("t", 'a="b"'))
    assert lines['t_bucket{a="b",le="0.0005"}'] == "1"
    assert lines['t_bucket{a="b",le="0.001"}'] == "2"
    assert lines['t_bucket{a="b",le="2.0"}'] == "2"
    assert lines['t_bucket{a="b",le="5.0"}'] == "3"
    assert lines['t_bucket{a="b",le="+Inf"}'] == lines['t_count{a="b"}'] == "4"
    assert float(lines['t_sum{a="b"}']) == 103.0011


def test_every_kind_of_line():
    metrics = Metrics()
    metrics.request("GET", "/health", 200, 0.01)
    metrics.request("GET", "/health", 200, 0.01)
    metrics.search("plain", 0.001)
    metrics.rejected(429)
    text = metrics.text({"cbid_images": ("Images.", 12.0)})
    assert 'cbid_requests_total{method="GET",route="/health",status="200"} 2\n' in text
    assert 'cbid_search_seconds_count{how="plain"} 1\n' in text
    assert 'cbid_refused_total{status="429"} 1\n' in text
    assert "# TYPE cbid_images gauge\ncbid_images 12\n" in text


def test_memory_of_this_process():
    assert resident_bytes() > 10 * 2**20


def test_unknown_methods_are_counted_together():
    metrics = Metrics()
    for i in range(100):
        metrics.request(f"M{i}", "page", 405, 0.01)
    assert 'cbid_requests_total{method="other",route="page",status="405"} 100\n' in metrics.text({})
    assert "M7" not in metrics.text({})
