"""What a run did, read from the store into values of bounded size: the report's content, without its form."""

from __future__ import annotations

from kleene.reports.read import read_report
from kleene.reports.report import Report

__all__ = ["Report", "read_report"]
