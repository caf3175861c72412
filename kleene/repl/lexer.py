"""Colours of what is typed. Classes only: the style gives them the terminal's own sixteen colours."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from kleene.repl.complete import is_command
from kleene.repl.scan import Piece, scan
from kleene.repl.words import KEYWORDS, TYPES

LONGEST = 100_000  # characters; a longer paste stays plain, so that typing stays quick
CALLS = frozenset(
    [
        "llm",
        "llm_bool",
        "llm_json",
        "llm_score",
        "llm_agg",
        "expand",
        "embed",
        "rlm",
        "spawn",
        "spawn_async",
        "await",
        "send",
        "inbox",
    ]
)


class CallSQLLexer(Lexer):
    """Keeps the last text that it coloured: the screen is drawn more often than the text changes."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._lines: list[StyleAndTextTuples] = []

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        if document.text != self._text:
            self._text = document.text
            self._lines = coloured(document.text)
        lines = self._lines
        return lambda number: lines[number] if number < len(lines) else []


def coloured(text: str) -> list[StyleAndTextTuples]:
    """The lines of a text as styled fragments."""
    if is_command(text):
        word, blank, rest = text.partition(" ")
        return _in_lines([("class:command", word), ("", blank + rest)])
    if len(text) > LONGEST:
        return _in_lines([("", text)])
    pieces = scan(text)
    called = {p.start for p, following in pairwise(pieces) if following.text == "("}
    return _in_lines([(class_of(p, p.start in called), p.text) for p in pieces])


def class_of(piece: Piece, called: bool = False) -> str:
    """
    >>> class_of(Piece("word", "select", 0)), class_of(Piece("word", "llm", 0), called=True), class_of(Piece("word", "body", 0))
    ('class:keyword', 'class:call', '')
    """
    if piece.kind == "word":
        word = piece.text
        if called and word.lower() in CALLS:
            return "class:call"
        if word.upper() in KEYWORDS:
            return "class:keyword"
        if word.upper() in TYPES:
            return "class:type"
        return "class:function" if called else ""
    return f"class:{piece.kind}" if piece.kind in ("string", "comment", "number", "parameter") else ""


def _in_lines(fragments: list[tuple[str, str]]) -> list[StyleAndTextTuples]:
    lines: list[StyleAndTextTuples] = [[]]
    for style, text in fragments:
        for number, line in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if line:
                lines[-1].append((style, line))
    return lines
