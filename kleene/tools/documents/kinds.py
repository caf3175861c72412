"""Which kind of document a file is: by its first bytes, and by its name where the bytes leave it open."""

from __future__ import annotations

import enum
import importlib.util
import re
import zipfile

from kleene.planner.errors import ToolError
from kleene.tools.documents.base import Source
from kleene.tools.texts import SNIFFED, is_binary


class Kind(enum.Enum):
    PDF = "a PDF file"
    DOCX = "a Word document"
    XLSX = "an Excel workbook"
    PPTX = "a PowerPoint file"
    EML = "a mail"
    HTML = "an HTML page"
    CSV = "a CSV file"
    TEXT = "a text"


LIBRARIES = {
    Kind.PDF: "pypdf",
    Kind.DOCX: "docx",
    Kind.XLSX: "openpyxl",
    Kind.PPTX: "pptx",
    Kind.HTML: "markdownify",
}
"""What must be installed to read a kind; the others need nothing."""

_OFFICE = {"word/": Kind.DOCX, "xl/": Kind.XLSX, "ppt/": Kind.PPTX}
_BY_NAME = {
    ".eml": Kind.EML,
    ".htm": Kind.HTML,
    ".html": Kind.HTML,
    ".xhtml": Kind.HTML,
    ".csv": Kind.CSV,
    ".tsv": Kind.CSV,
}
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Without a way back into a comment that was passed: a text that begins with fifty of them could be cut into comments in 2 ** 50 ways.
_HTML = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*+<(?:!doctype\s+html|html[\s>])", re.I | re.S
)
_PDF_WITHIN = 1024
"""A PDF's mark may stand so far from its beginning."""


def is_container(source: Source) -> bool:
    """Whether only looking into the file says what it is."""
    return source.head(4).startswith((b"PK\x03\x04", _OLD_OFFICE[:4]))


def is_plain(source: Source) -> bool:
    """Whether the file is read without a library: a text, CSV, or nothing that can be read. Looks at its first bytes and its name only."""
    head = source.head(SNIFFED)
    if b"%PDF-" in head[:_PDF_WITHIN] or head.startswith((b"PK\x03\x04", _OLD_OFFICE)):
        return False
    return _BY_NAME.get(source.extension, Kind.TEXT) in (Kind.TEXT, Kind.CSV) and not _HTML.match(head)


def kind_of(source: Source) -> Kind | None:
    """None for a binary file of no kind known here. Raises ``ToolError`` for documents that are known and cannot be read: encrypted, or of
    an old format."""
    head = source.head(SNIFFED)
    if b"%PDF-" in head[:_PDF_WITHIN]:
        return Kind.PDF
    if head.startswith(b"PK\x03\x04"):
        return _office(source)
    if head.startswith(_OLD_OFFICE):
        raise _old(source)
    named = _BY_NAME.get(source.extension)
    if is_binary(head) and named is not Kind.EML:
        return None
    if named is None and _HTML.match(head):
        return Kind.HTML
    return named or Kind.TEXT


def can_read(kind: Kind) -> bool:
    """Whether the library that reads the kind is installed."""
    return kind not in LIBRARIES or importlib.util.find_spec(LIBRARIES[kind]) is not None


def _office(source: Source) -> Kind | None:
    try:
        with zipfile.ZipFile(source.stream) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        names = []
    if "[Content_Types].xml" in names:
        return next((kind for folder, kind in _OFFICE.items() if any(n.startswith(folder) for n in names)), None)
    by_name = {".docx": Kind.DOCX, ".xlsx": Kind.XLSX, ".pptx": Kind.PPTX}
    # A broken one is said to be broken by its reader.
    return by_name.get(source.extension)


def _old(source: Source) -> ToolError:
    content = source.bytes()
    if "EncryptedPackage".encode("utf-16-le") in content:
        return encrypted(source)
    return ToolError(
        f"{source.name} is of the format that Office had before 2007",
        kind="unsupported",
        hint="save it as .docx, .xlsx or .pptx",
    )


def encrypted(source: Source) -> ToolError:
    return ToolError(f"{source.name} is encrypted", kind="unsupported", hint="save it without a password")
