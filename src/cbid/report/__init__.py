"""Reports as self-contained HTML files: the report of a project, and the HTML parts that other reports share."""

from cbid.report.page import write_report

__all__ = ["write_report"]
