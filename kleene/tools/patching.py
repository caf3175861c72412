"""Replaces one piece of a text by another, where the piece is given as somebody remembers it.

The text itself is the judge: the piece must occur exactly once. Where it does not occur to the letter, white space and typographic quotes are
taken loosely; indentation and line ends are then those of the text. Nothing else of the text changes, not a byte.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import attrs

from kleene.planner.errors import ToolError

QUOTES = str.maketrans("‘’‚‛′“”„‟″", "'''''" + '"' * 5)
MOST_PLACES = 1_000
SHOWN_LINES = 5
COMPARED_LINES = 20_000
DIFF_BYTES = 200_000


@attrs.frozen
class Patched:
    """``text`` after the change; ``line``: where it was, from 1; ``exact``: found to the letter."""

    text: str
    line: int
    exact: bool


def patched(text: str, old: str, new: str, *, name: str = "the text") -> Patched:
    """Puts ``new`` in the place of the one occurrence of ``old``. Line ends of ``new`` become those of the text.

    Raises ``ToolError`` (invalid arguments) where ``old`` is empty, equal to ``new``, occurs more than once, or not at all; it then shows the
    lines that are nearest.

    >>> patched("a\\r\\nb\\r\\n", "b", "c\\nd").text
    'a\\r\\nc\\r\\nd\\r\\n'
    >>> patched("if x:\\n\\treturn  “no”\\n", 'return "no"', 'y = 1\\nreturn "yes"').text
    'if x:\\n\\ty = 1\\n\\treturn "yes"\\n'
    """
    if not old.strip():
        raise ToolError(
            "old is empty", kind="invalid arguments", hint="use write_file or append_file, or give the lines to replace"
        )
    if old == new:
        raise ToolError("old and new are the same", kind="invalid arguments")
    end = line_end(text)
    for form in dict.fromkeys((old, _with_ends(old, end))):
        found = list(islice(_exact(text, form), MOST_PLACES))
        if found:
            at = _only(text, found, name, exact=True)
            made = text[:at] + _with_ends(new, end) + text[at + len(form) :]
            return Patched(made, _line(text, at), exact=True)
    spans = list(islice(_loose(text, old), MOST_PLACES))
    if not spans:
        raise _absent(text, old, name)
    at = _only(text, [start for start, _ in spans], name, exact=False)
    stop = dict(spans)[at]
    return Patched(_put(text, at, stop, old, new, end), _line(text, at), exact=False)


def line_end(text: str) -> str:
    """The line end that most lines of a text have; LF where there are none.

    >>> line_end("a\\r\\nb\\r\\nc\\n"), line_end("a")
    ('\\r\\n', '\\n')
    """
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def unified(before: str, after: str, name: str) -> str:
    """The change as a unified diff with three lines around it; long ones are cut with a note."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    if len(text) > DIFF_BYTES:
        return f"{text[:DIFF_BYTES]}\n[{len(text) - DIFF_BYTES:,} characters of the diff left out]\n"
    return text


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only LF ends a line: ``splitlines`` knows a dozen more."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _with_ends(text: str, end: str) -> str:
    plain = text.replace("\r\n", "\n")
    return plain if end == "\n" else plain.replace("\n", end)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _exact(text: str, old: str) -> Iterator[int]:
    """Where it occurs, overlapping ones too: ``aa`` in ``aaa`` is no single place."""
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + 1)


def _loose(text: str, old: str) -> Iterator[tuple[int, int]]:
    """Spans of the text that are ``old`` but for the amount of white space and the form of quotes, without white space at their ends."""
    words = old.translate(QUOTES).split()
    plain = text.translate(QUOTES)  # one character for one: places stay
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    at = 0
    while found := pattern.search(plain, at):
        yield found.span()
        at = found.start() + 1


def _only(text: str, places: list[int], name: str, *, exact: bool) -> int:
    if len(places) > 1:
        lines = [_line(text, at) for at in places[:8]]
        shown = ", ".join(map(str, lines)) + (", ..." if len(places) > 8 else "")
        count = f"{len(places):,}" if len(places) < MOST_PLACES else f"{MOST_PLACES:,} or more"
        loosely = "" if exact else " but for white space and quotes"
        raise ToolError(
            f"old occurs {count} times in {name}{loosely}: on lines {shown}",
            kind="invalid arguments",
            hint="give more of the lines around the one that is meant",
        )
    return places[0]


def _put(text: str, start: int, stop: int, old: str, new: str, end: str) -> str:
    """``new`` in the place of a span that was found loosely: with the indentation of the text, and without a blank line where all went."""
    begin = text.rfind("\n", 0, start) + 1
    indent = text[begin:start]
    body = (new.lstrip("\r\n") if old[0] in "\r\n" else new).replace("\r\n", "\n")
    if not indent.strip():
        first = next(line for line in old.replace("\r\n", "\n").split("\n") if line.strip())
        body = _indented(body, first[: len(first) - len(first.lstrip())], indent)
    else:
        body = body.lstrip() if old[:1].isspace() else body
    if old[-1:].isspace():
        body = body.rstrip()
    if not body.strip() and not indent.strip():
        rest = re.compile(r"[^\S\n]*(\n|\Z)").match(text, stop)
        if rest:
            return text[:begin] + text[rest.end() :]
    return text[:start] + _with_ends(body, end) + text[stop:]


def _indented(body: str, given: str, wanted: str) -> str:
    """The lines with ``given`` at their beginning replaced by ``wanted``; the first one without, for it stands after the text's own."""
    lines = body.split("\n")
    moved = [wanted + line[len(given) :] if line.strip() and line.startswith(given) else line for line in lines]
    return "\n".join(moved).removeprefix(wanted) if moved[0].startswith(wanted) else "\n".join(moved).lstrip()


def _absent(text: str, old: str, name: str) -> ToolError:
    near = nearest(text, old)
    if near is None:
        return ToolError(f"old does not occur in {name}", kind="invalid arguments", hint="read the file again")
    lines = _lines(text)
    size = min(len(_lines(old.strip("\r\n"))), SHOWN_LINES)
    shown = "\n".join(f"{n + 1}: {lines[n].rstrip()[:200]}" for n in range(near, min(near + size, len(lines))))
    return ToolError(
        f"old does not occur in {name}; the nearest lines are:\n{shown}",
        kind="invalid arguments",
        hint="give the lines as they are in the file, without line numbers",
    )


def nearest(text: str, old: str) -> int | None:
    """The line (from 0) at which as many lines as ``old`` has share most words with it; None where no word is shared.

    >>> nearest("alpha\\nbeta gamma\\ndelta\\n", "beta gamma!")
    1
    """
    wanted = Counter(_words(old))
    size = max(1, len(_lines(old.strip("\r\n"))))
    lines = [_words(line) for line in _lines(text)[:COMPARED_LINES]]
    window: Counter[str] = Counter()
    best, place, total = 0.0, None, 0
    for n, line in enumerate(lines):
        total += len(line) - (len(lines[n - size]) if n >= size else 0)
        for word in wanted.keys() & line:
            window[word] += line.count(word)
        for word in wanted.keys() & lines[n - size] if n >= size else ():
            window[word] -= lines[n - size].count(word)
        shared = sum(min(count, wanted[word]) for word, count in window.items())
        score = 2 * shared / (wanted.total() + total) if shared else 0.0
        if score > best:
            best, place = score, max(0, n - size + 1)
    return place


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.translate(QUOTES).casefold())
