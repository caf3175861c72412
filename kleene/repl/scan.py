"""Typed text as pieces. Unlike the parser it never fails: what is not finished yet is a piece that is open."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

_PIECE = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*)
    | (?P<string>[eE]'(?:[^'\\]+|''|\\(?:.|\Z))*+'?|[xXbB]?'[^']*(?:''[^']*)*+'?)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<name>"[^"]*(?:""[^"]*)*+"?)
    | (?P<number>(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<parameter>[$?]\w*)
    | (?P<end>;)
    | (?P<symbol>:=|=>|::|->>|->|<>|!=|<=|>=|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


@attrs.frozen
class Piece:
    """``kind``: space, comment, string, name (quoted), number, word, parameter, end (a semicolon) or symbol. ``open``: its end is missing."""

    kind: str
    text: str
    start: int
    open: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def matters(self) -> bool:
        return self.kind not in ("space", "comment")

    def says(self, *words: str) -> bool:
        """Whether it is one of these words (lower case), or of these symbols."""
        return self.kind in ("word", "symbol") and self.text.lower() in words


def scan(text: str) -> list[Piece]:
    """The pieces of a text; put together they are the text.

    >>> [(p.kind, p.text) for p in scan("SELECT 'a;b") if p.matters]
    [('word', 'SELECT'), ('string', "'a;b")]
    >>> scan("'it''s'")[0].open, scan("'it''")[0].open
    (False, True)
    """
    pieces = []
    at = 0
    while at < len(text):
        found = _PIECE.match(text, at)
        assert found is not None and found.lastgroup is not None
        kind, end, is_open = found.lastgroup, found.end(), False
        if kind == "comment" and found[0] == "/*":
            end, is_open = _end_of_comment(text, end)
        elif kind == "comment":
            is_open = end == len(text)
        elif kind == "dollar":
            close = text.find(found[0], end)
            kind, is_open = "string", close < 0
            end = len(text) if close < 0 else close + len(found[0])
        elif kind == "string":
            is_open = not _is_closed(found[0])
        elif kind == "name":
            is_open = found[0][1:].count('"') % 2 == 0
        pieces.append(Piece(kind, text[at:end], at, is_open))
        at = end
    return pieces


def _end_of_comment(text: str, at: int) -> tuple[int, bool]:
    """Comments nest, as they do in DuckDB."""
    depth = 1
    for mark in _COMMENT.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end(), False
    return len(text), True


def _is_closed(literal: str) -> bool:
    body = literal[literal.index("'") + 1 :]
    if literal[0] in "eE":
        body = re.sub(r"\\(?:.|\Z)", "", body, flags=re.DOTALL)
    return body.count("'") % 2 == 1


def last_statement(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces behind the last semicolon."""
    ends = [i for i, p in enumerate(pieces) if p.kind == "end"]
    return list(pieces[ends[-1] + 1 if ends else 0 :])
