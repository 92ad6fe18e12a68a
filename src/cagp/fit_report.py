"""HTML reports about a fitted model: what it is and how well it does, and whether its error bars are right."""

from __future__ import annotations

from .reports.names import Names
from .reports.pages import CheckReport, FitReport, write_check_report, write_fit_report

__all__ = ["CheckReport", "FitReport", "Names", "write_check_report", "write_fit_report"]
