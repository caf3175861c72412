"""Documents made by the libraries that people make them with."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any

import docx
import fpdf
import openpyxl
import pptx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls


def pdf(pages: Sequence[str], *, outline: bool = False, password: str | None = None, owner: str | None = None) -> bytes:
    document = fpdf.FPDF()
    document.set_font("Helvetica")
    for number, text in enumerate(pages, 1):
        document.add_page()
        if outline:
            document.start_section(f"Part {number}")
        document.multi_cell(0, 8, text)
    if password is not None or owner is not None:
        document.set_encryption(owner_password=owner or "owner", user_password=password)
    return bytes(document.output())


def word(*, changes: bool = False) -> bytes:
    document = docx.Document()
    document.add_heading("Supply agreement", 0)
    document.add_paragraph("Between A & B <Ltd>.\tSigned.")
    document.add_heading("1. Term", 1)
    document.add_paragraph("First", style="List Bullet")
    document.add_paragraph("Second", style="List Bullet")
    document.add_heading("1.1 Details", 3)
    table = document.add_table(rows=0, cols=2)
    for cells in (("Part", "Price | USD"), ("Housing", "41.50"), ("Müller\nsecond line", "")):
        for cell, text in zip(table.add_row().cells, cells, strict=True):
            cell.text = text
    if changes:
        paragraph = document.add_paragraph("The cap is ")
        author = 'w:id="1" w:author="Counsel" w:date="2025-03-04T00:00:00Z"'
        for xml in (
            f"<w:del {nsdecls('w')} {author}><w:r><w:delText>six</w:delText></w:r></w:del>",
            f"<w:ins {nsdecls('w')} {author}><w:r><w:t>twelve</w:t></w:r></w:ins>",
            f'<w:r {nsdecls("w")}><w:t xml:space="preserve"> months.</w:t></w:r>',
        ):
            paragraph._p.append(parse_xml(xml))
        document.add_comment(paragraph.runs[0], text="Is this right?", author="Ada")
    return saved(document)


def letter() -> bytes:
    """Two sections with headers and footers, one header for both and one of the first page."""
    document = docx.Document()
    first = document.sections[0]
    first.header.paragraphs[0].text = "Confidential"
    first.footer.paragraphs[0].text = "Ada & Sons"
    first.different_first_page_header_footer = True
    first.first_page_header.paragraphs[0].text = "Draft 3"
    document.add_paragraph("Dear Bob,")
    document.add_section().footer.is_linked_to_previous = False
    document.sections[1].footer.paragraphs[0].text = "Ada & Sons"
    return saved(document)


def workbook(sheets: dict[str, Sequence[Sequence[Any]]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return saved(book)


PRICES = {
    "Prices": [
        ["Price list 2025"],
        [],
        ["Part", "Unit price", "Since", "Sold", "Unit price", None],
        ["Housing", 41.5, dt.datetime(2024, 3, 1), True, 3, "extra"],
        ["Impeller", 18, dt.datetime(2024, 3, 1, 14, 30), False, None],
    ],
    "Rebates": [["From", "Percent"], [0, 0.015], [1_000_000, "=B2*2"]],
    "Empty": [],
}


def slides() -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    slide.placeholders[1].text = "First\nSecond"
    slide.notes_slide.notes_text_frame.text = "Say it slowly"
    other = deck.slides.add_slide(deck.slide_layouts[6])
    frame = other.shapes.add_table(2, 2, 0, 0, 100, 100)
    for (row, column), text in {(0, 0): "Role", (0, 1): "Count", (1, 0): "Driver", (1, 1): "34"}.items():
        frame.table.cell(row, column).text = text
    group = other.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 10, 10).text_frame.text = "In a group"
    return saved(deck)


def charts() -> bytes:
    """A slide with a chart of two series, one of them with a gap, and one of points without a title."""
    from pptx.chart.data import CategoryChartData, XyChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["2024", "2025"]
    data.add_series("Pumps", (12.5, 14))
    data.add_series("Seals | all", (None, 0.1))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 100, 100, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Sold by year"
    points = XyChartData()
    series = points.add_series("Run")
    series.add_data_point(1, 2.5)
    slide.shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, 100, 100, points)
    return saved(deck)


def mail(*attachments: tuple[str, bytes], html: str | None = None, subject: str = "Größe der Kiste") -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ada <ada@x.example>", "Bob <bob@x.example>", subject
    message["Date"] = "Mon, 10 Mar 2025 09:12:00 -0500"
    if html is None:
        message.set_content("Please look.\n\nAda\n")
    else:
        message.set_content(html, subtype="html")
    for name, data in attachments:
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


HTML = """<!DOCTYPE html><html><head><title>Rates</title><style>p {color: red}</style></head><body>
<script>alert(1)</script><!-- hidden --><h2>Now</h2><p>A <b>bold</b> word &amp; a <a href="https://x.example/a">link</a>.</p>
<ul><li>one</li><li>two</li></ul>
<table><tr><th>Part</th><th>Price</th></tr><tr><td>Housing</td><td>41.50</td></tr></table></body></html>"""


def saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def archive(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in parts.items():
            made.writestr(name, data)
    return out.getvalue()


def word_with(body: bytes) -> bytes:
    """A Word file with another content."""
    with zipfile.ZipFile(io.BytesIO(word())) as made:
        return archive({name: made.read(name) for name in made.namelist()} | {"word/document.xml": body})


def sheet(rows: bytes) -> bytes:
    """A workbook with one sheet of these rows."""
    with zipfile.ZipFile(io.BytesIO(workbook({"S": [[1]]}))) as made:
        parts = {name: made.read(name) for name in made.namelist()}
    head = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    head += b'<dimension ref="A1"/><sheetData>'
    return archive(parts | {"xl/worksheets/sheet1.xml": head + rows + b"</sheetData></worksheet>"})
