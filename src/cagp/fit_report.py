"""HTML reports about a fitted model: what it is and how well it does, and whether its error bars are right."""

from __future__ import annotations

from .reports.check_page import CheckReport, write_check_report
from .reports.fit_page import FitReport, write_fit_report
from .reports.names import Names

__all__ = ["CheckReport", "FitReport", "Names", "write_check_report", "write_fit_report"]
