"""What a project is and what was measured of it, as one HTML file that needs nothing else."""

from cbid.report.page import write_report

__all__ = ["write_report"]
