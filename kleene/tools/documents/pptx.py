"""PowerPoint files, slide by slide, through python-pptx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kleene.tools.documents import archive
from kleene.tools.documents.base import Cell, Page, Source, Table, explained, library, markdown_table
from kleene.tools.documents.kinds import Kind

MAX_NESTED = 50
"""Groups in groups; deeper ones are left out."""


def pages(source: Source) -> Iterator[Page]:
    """Each slide: the texts of its shapes in their order, its tables, its charts' titles and figures, its notes."""
    with explained(source, Kind.PPTX.value):
        for number, slide in enumerate(_slides(source), 1):
            source.check()
            title = slide.shapes.title
            named = " ".join(title.text_frame.text.split()) if title is not None and title.has_text_frame else ""
            parts = [text for shape in _flat(slide.shapes) if (text := _text(shape))]
            if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
                notes = slide.notes_slide.notes_text_frame.text.strip()
                parts += [f"Notes: {notes}"] if notes else []
            yield Page(number, named or None, "\n\n".join(parts))


def tables(source: Source) -> Iterator[Table]:
    with explained(source, Kind.PPTX.value):
        count = 0
        for slide in _slides(source):
            for shape in _flat(slide.shapes):
                if shape.has_table:
                    source.check()
                    count += 1
                    yield Table(f"table {count}", list(enumerate(_rows(shape), 1)))


def _slides(source: Source) -> Any:
    pptx = library("pptx", "PowerPoint files")
    archive.checked(source, Kind.PPTX.value)
    return pptx.Presentation(source.stream).slides


def _flat(shapes: Any, depth: int = 0) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            if depth < MAX_NESTED:
                yield from _flat(shape.shapes, depth + 1)
        else:
            yield shape


def _text(shape: Any) -> str:
    if shape.has_table:
        return markdown_table(_rows(shape))
    if getattr(shape, "has_chart", False):
        return _chart(shape.chart)
    text: str = shape.text_frame.text if shape.has_text_frame else ""
    return text.replace("\v", "\n").strip()


def _rows(shape: Any) -> list[list[Cell]]:
    return [[cell.text.strip() for cell in row.cells] for row in shape.table.rows]


def _chart(chart: Any) -> str:
    """The title, and a table of the series by category; a chart of points has no categories."""
    title = chart.chart_title.text_frame.text.strip() if chart.has_title and chart.chart_title.has_text_frame else ""
    series = [(one.name, list(one.values)) for plot in chart.plots for one in plot.series]
    categories = next((list(plot.categories) for plot in chart.plots), [])
    longest = max((len(values) for _, values in series), default=0)
    rows = [["", *(name for name, _ in series)]]
    for n in range(longest):
        label = str(categories[n]) if n < len(categories) else ""
        rows.append([label, *(_figure(values[n]) if n < len(values) else "" for _, values in series)])
    return "\n\n".join(filter(None, [f"Chart: {title}".rstrip(": "), markdown_table(rows) if series else ""]))


def _figure(value: Any) -> str:
    return "" if value is None else f"{value:.15g}"
