"""Word documents as Markdown, through python-docx for the package and over its XML for the text.

The library's own ``paragraph.text`` leaves out text that was inserted with tracked changes. Here the text is as if all changes were accepted,
and the changes follow as a section of their own, as do notes, headers and footers, and comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kleene.tools.documents import archive
from kleene.tools.documents.base import Cell, Page, Source, Table, explained, library, markdown_table
from kleene.tools.documents.kinds import Kind
from kleene.tools.documents.sections import sections

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_NOTES = ("footnotes", "endnotes")
_GONE = frozenset({f"{_W}del", f"{_W}moveFrom", f"{_W}instrText", f"{_W}delText", f"{_W}rPr", f"{_W}pPr", _FALLBACK})
_CONTAINERS = frozenset({f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins", f"{_W}moveTo", f"{_W}smartTag", f"{_W}customXml"})
CHECKED = 200


def pages(source: Source) -> Iterator[Page]:
    """The document has no pages before it is printed: its sections."""
    with explained(source, Kind.DOCX.value):
        text = _markdown(source)
    yield from sections(text)


def tables(source: Source) -> Iterator[Table]:
    """The tables of the body in their order, those within tables left out."""
    with explained(source, Kind.DOCX.value):
        document = _open(source)
        for number, element in enumerate((e for e in _body(document.element.body) if e.tag == f"{_W}tbl"), 1):
            source.check()
            yield Table(f"table {number}", list(enumerate(_rows(element), 1)))


def _open(source: Source) -> Any:
    docx = library("docx", "Word documents")
    archive.checked(source, Kind.DOCX.value)
    return docx.Document(source.stream)


def _markdown(source: Source) -> str:
    document = _open(source)
    styles = {style.style_id: style.name or "" for style in document.styles if style.style_id}
    parts: list[str] = []
    for count, element in enumerate(_body(document.element.body)):
        if count % CHECKED == 0:
            source.check()
        if element.tag == f"{_W}tbl":
            parts.append(markdown_table(_rows(element)))
        elif text := _paragraph(element, styles):
            if parts and text.lstrip().startswith("- ") and parts[-1].startswith("- "):
                parts[-1] += "\n" + text
            else:
                parts.append(text)
    parts += _notes(document)
    parts += _section("Headers and footers", _edges(document))
    parts += _section("Comments", _comments(document))
    parts += _section("Tracked changes", _changes(document.element.body))
    return "\n\n".join(part for part in parts if part)


def _body(element: Any) -> Iterator[Any]:
    """The paragraphs and tables, also those inside content controls and of inserted blocks."""
    for child in element:
        if child.tag in (f"{_W}p", f"{_W}tbl"):
            yield child
        elif child.tag in _CONTAINERS:
            yield from _body(child)


def _paragraph(element: Any, styles: dict[str, str]) -> str:
    text = _text(element).strip()
    if not text:
        return ""
    properties = element.find(f"{_W}pPr")
    if properties is None:
        return text
    style = properties.find(f"{_W}pStyle")
    name = styles.get(style.get(f"{_W}val"), "") if style is not None else ""
    heading = re.fullmatch(r"[Hh]eading ([1-9])", name)
    if name == "Title" or heading is not None:
        level = min(6, int(heading[1])) if heading else 1
        return "#" * level + " " + " ".join(text.split())
    listed = properties.find(f"{_W}numPr")
    if listed is not None or name.startswith("List"):
        depth = listed.find(f"{_W}ilvl") if listed is not None else None
        indent = int(depth.get(f"{_W}val") or 0) if depth is not None else 0
        return "  " * indent + "- " + text
    return text


def _text(element: Any) -> str:
    """The text below an element as it stands with all changes accepted."""
    out: list[str] = []
    _collect(element, out)
    return "".join(out)


def _collect(element: Any, out: list[str]) -> None:
    for child in element:
        tag = child.tag
        if tag == f"{_W}t":
            out.append(child.text or "")
        elif tag == f"{_W}tab":
            out.append("\t")
        elif tag in (f"{_W}br", f"{_W}cr"):
            out.append("\n")
        elif tag == f"{_W}noBreakHyphen":
            out.append("-")
        elif tag in (f"{_W}footnoteReference", f"{_W}endnoteReference"):
            out.append(f"[^{'e' if 'end' in tag else ''}{child.get(f'{_W}id')}]")
        elif tag == f"{_W}txbxContent":
            out.append("\n" + "\n".join(filter(None, map(_text, child.iter(f"{_W}p")))) + "\n")
        elif tag not in _GONE and isinstance(tag, str):
            _collect(child, out)


def _rows(table: Any) -> list[list[Cell]]:
    """The cells of each row; one that spans several columns is followed by empty ones."""
    rows: list[list[Cell]] = []
    for row in table.iter(f"{_W}tr"):
        if next(row.iterancestors(f"{_W}tbl")) is not table:
            continue
        properties = row.find(f"{_W}trPr")
        if properties is not None and properties.find(f"{_W}del") is not None:
            continue
        cells: list[Cell] = []
        for cell in row.iter(f"{_W}tc"):
            if next(cell.iterancestors(f"{_W}tr")) is not row:
                continue
            cells.append("\n".join(filter(None, (_text(p).strip() for p in cell.iter(f"{_W}p")))))
            span = cell.find(f"{_W}tcPr/{_W}gridSpan")
            if span is not None:
                cells += [""] * (min(int(span.get(f"{_W}val") or 1), 1_000) - 1)
        rows.append(cells)
    return rows


def _part(document: Any, name: str) -> Any:
    """The XML of a part that the document refers to, None where there is none."""
    oxml = library("docx.oxml", "Word documents")
    for relation in document.part.rels.values():
        if relation.reltype.endswith("/" + name) and not relation.is_external:
            return oxml.parse_xml(relation.target_part.blob)
    return None


def _notes(document: Any) -> list[str]:
    found = []
    for kind in _NOTES:
        root = _part(document, kind)
        for note in () if root is None else root:
            if note.get(f"{_W}type") in (None, "normal") and (text := _text(note).strip()):
                found.append(f"[^{'e' if kind == 'endnotes' else ''}{note.get(f'{_W}id')}]: {text}")
    return found


def _edges(document: Any) -> list[str]:
    """What stands above and below the pages, each text once; a page's number is a field and no text."""
    found: dict[str, None] = {}
    for kind in ("header", "footer"):
        for relation in document.part.rels.values():
            if relation.reltype.endswith(f"/{kind}") and not relation.is_external:
                root = relation.target_part.element
                lines = (" ".join(_text(p).split()) for p in root.iter(f"{_W}p"))
                found |= {f"{kind}: {line}": None for line in lines if line}
    return list(found)


def _comments(document: Any) -> list[str]:
    root = _part(document, "comments")
    return [] if root is None else [f"{_by(note)}: {text}" for note in root if (text := _text(note).strip())]


def _changes(body: Any) -> list[str]:
    found = []
    for change in body.iter(f"{_W}ins", f"{_W}del", f"{_W}moveFrom", f"{_W}moveTo"):
        kind = change.tag.removeprefix(_W)
        texts = [t.text or "" for t in change.iter(f"{_W}t", f"{_W}delText")]
        if text := "".join(texts):
            word = {"ins": "inserted", "del": "deleted", "moveFrom": "moved from here", "moveTo": "moved to here"}[kind]
            found.append(f"{_by(change)} {word}: {text}")
    return found


def _by(element: Any) -> str:
    date = (element.get(f"{_W}date") or "")[:10]
    author = element.get(f"{_W}author") or "someone"
    return f"{author} ({date})" if date else author


def _section(title: str, items: list[str]) -> list[str]:
    return [f"# {title}", "\n".join(f"- {' '.join(item.split())}" for item in items)] if items else []
