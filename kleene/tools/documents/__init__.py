"""Documents as text, pages and tables: PDF, DOCX, XLSX, PPTX, EML, HTML, CSV, Markdown and plain text.

The libraries that read them are the extra ``kleene[documents]``, imported when a document of their kind is first read.
"""

from __future__ import annotations

from kleene.tools.documents.base import Page, Source, Table
from kleene.tools.documents.headers import is_wanted
from kleene.tools.documents.kinds import Kind, can_read, is_container, is_plain, kind_of
from kleene.tools.documents.read import pages, tables, text

__all__ = [
    "Kind",
    "Page",
    "Source",
    "Table",
    "can_read",
    "is_container",
    "is_plain",
    "is_wanted",
    "kind_of",
    "pages",
    "tables",
    "text",
]
