"""Counters and times in the text format of Prometheus."""

from cbid.web.middleware import Metrics


def test_every_kind_of_line():
    metrics = Metrics()
    metrics.request("GET", "/health", 200, 0.01)
    metrics.request("GET", "/health", 200, 0.01)
    metrics.search("plain", 0.001)
    metrics.rejected(429)
    text = metrics.text({"cbid_images": ("Images.", 12.0)})
    assert 'cbid_requests_total{method="GET",route="/health",status="200"} 2.0\n' in text
    assert 'cbid_search_seconds_count{how="plain"} 1.0\n' in text
    assert 'cbid_refused_total{status="429"} 1.0\n' in text
    assert "# TYPE cbid_images gauge\ncbid_images 12.0\n" in text


def test_memory_of_this_process():
    lines = dict(line.rsplit(" ", 1) for line in Metrics().text({}).splitlines() if not line.startswith("#"))
    assert float(lines["process_resident_memory_bytes"]) > 10 * 2**20
    assert float(lines["process_open_fds"]) >= 3


def test_unknown_methods_are_counted_together():
    metrics = Metrics()
    for i in range(100):
        metrics.request(f"M{i}", "page", 405, 0.01)
    assert 'cbid_requests_total{method="other",route="page",status="405"} 100.0\n' in metrics.text({})
    assert "M7" not in metrics.text({})
