"""Reports and plans as one HTML file each: no script, nothing loaded, nothing that a document's text could become."""

from __future__ import annotations

from kleene.rendering.report.page import report_page
from kleene.rendering.report.planpage import plan_page

__all__ = ["plan_page", "report_page"]
