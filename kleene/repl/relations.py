"""The tables that a statement names, and by which names their columns can be reached. Read from pieces: the statement may be unfinished."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kleene.repl.scan import Piece
from kleene.repl.words import KEYWORDS

BEFORE = ("from", "join", "into", "update", "table", "describe", "summarize", "using")


@attrs.frozen
class Relation:
    """``table`` as written, without quotes; ``alias`` is what qualifies its columns. ``common``: it is defined in WITH."""

    table: str
    alias: str
    common: bool = False


def relations_of(pieces: Sequence[Piece]) -> list[Relation]:
    """
    >>> from kleene.repl.scan import scan
    >>> [(r.table, r.alias) for r in relations_of(scan("SELECT m. FROM mails m JOIN shop.people AS p USING (id), tags"))]
    [('mails', 'm'), ('shop.people', 'p'), ('tags', 'tags')]
    """
    matters = [p for p in pieces if p.matters]
    found = []
    listing = False
    for i, piece in enumerate(matters):
        if piece.says(*BEFORE) or (listing and piece.text == ","):
            table, after = _name(matters, i + 1)
            if table:
                alias, after = _alias(matters, after)
                found.append(Relation(table, alias or table.rpartition(".")[2]))
                listing = True
                continue
        elif piece.kind == "word" and piece.text.upper() in KEYWORDS and not piece.says("as"):
            listing = False
        if piece.says("as") and i and i + 1 < len(matters) and matters[i + 1].text == "(" and is_name(matters[i - 1]):
            found.append(Relation(plain(matters[i - 1]), plain(matters[i - 1]), common=True))
    return found


def is_name(piece: Piece) -> bool:
    return piece.kind == "name" or (piece.kind == "word" and piece.text.upper() not in KEYWORDS)


def plain(piece: Piece) -> str:
    """A name without its quotes."""
    if piece.kind != "name":
        return piece.text
    return piece.text.removeprefix('"').removesuffix("" if piece.open else '"').replace('""', '"')


def _name(pieces: Sequence[Piece], at: int) -> tuple[str, int]:
    parts = []
    while at < len(pieces) and is_name(pieces[at]):
        parts.append(plain(pieces[at]))
        at += 1
        if at + 1 < len(pieces) and pieces[at].text == "." and is_name(pieces[at + 1]):
            at += 1
            continue
        break
    return ".".join(parts), at


def _alias(pieces: Sequence[Piece], at: int) -> tuple[str, int]:
    if at < len(pieces) and pieces[at].says("as"):
        at += 1
    if at < len(pieces) and is_name(pieces[at]):
        return plain(pieces[at]), at + 1
    return "", at
