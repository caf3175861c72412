"""Finds the SQL in a model's reply.

One rule says which text runs. Fences are CommonMark's, line by line: an opening line has at most three spaces, then three or more backticks or
tildes and an info string; the closing line has the same character, at least as many of them, and nothing else. Every fence tagged as SQL runs,
joined in order. An untagged fence runs too, unless a tagged one is there and its own text does not begin as a statement does (a quoted
result, say). A reply without any fence runs when all of it has the form of a statement. Fences with other tags never run.
"""

from __future__ import annotations

import re

import attrs

SQL_TAGS = frozenset({"sql", "callsql", "postgresql", "duckdb"})

_OPEN = re.compile(r" {0,3}(?P<bar>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)$")
_THINKING = re.compile(r"\A\s*<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL)
_NOTHING = re.compile(r"(?>[\s;\ufeff]|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*+\Z", re.DOTALL)
_COMMENTS = re.compile(r"(?:[\s;\ufeff(]|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(\$\w*\$).*?\1|--[^\n]*|/\*.*?\*/", re.DOTALL)

# The form a statement has after its first word. Prose that begins with the same word ("Select the best ...") has not.
_FORMS = {
    "SELECT": r".*(?:[(*='0-9$]|\bfrom\s+[\w\"]).*",
    "WITH": r"(?:recursive\s+)?[\w\"]+\s*(?:\([^)]*\)\s*)?(?:using\s+key\s*\([^)]*\)\s*)?as\s+(?:(?:not\s+)?materialized\s*)?\(.*",
    "FROM": r"[\w\".]+(?:\([^)]*\))?(?:\s+(?:as\s+)?\w+)?\s*(?:\Z|;|,\s*[\w\"]+\s|(?:select|where|join|left|cross|limit|order|group)\b).*",
    "VALUES": r"\(.*",
    "CREATE": r"(?:or\s+replace\s+)?(?:temp\s+|temporary\s+)?(?:table|view|function|agent|macro)\b.*",
    "INSERT": r"into\s.*",
    "UPDATE": r"[\w\"]+\s+set\s.*=.*",
    "DELETE": r"from\s.*",
    "MERGE": r"into\s.*",
    "DROP": r"(?:table|view|function|agent)\s.*",
    "ALTER": r"table\s.*",
    "DESCRIBE": r"(?:[\w\"]+|select\b.*)\s*;?",
    "SUMMARIZE": r"(?:[\w\"]+|select\b.*)\s*;?",
    "SHOW": r"(?:all\s+)?(?:tables|functions|agents|budget)\s*;?",
    "EXPLAIN": r"(?:analyze\s+)?(?:\([^)]*\)\s*)?(?:select|with|from|values|create|insert|final|call)\b.*",
    "SET": r"[\w.]+\s*(?:=|to\s).*",
    "RESET": r"[\w.]+\s*;?",
    "CALL": r"\w+\s*\(.*",
    "CALIBRATE": r"\w+\s.*\bfrom\b.*",
    "FINAL": r"(?:\(|from\s*\(|from\s+(?:select|with)\b).*",
    "PIVOT": r".*\bon\b.*",
    "UNPIVOT": r".*\bon\b.*",
}
_FIRST_WORD = re.compile(r"([A-Za-z]+)\b\s*(.*)\Z", re.DOTALL)
_PROSE = re.compile(
    r"\b(?:the|an|this|these|those|your|our|my|should|would|could|will|you|we|let|please|need|want)\b|[\w)][.?!]\s+[A-Z]|[\w)'][.?!:]\s*\Z",
    re.IGNORECASE,
)


@attrs.frozen
class Extraction:
    """``sql`` is what to run, or None, in which case ``reason`` says why, as the model is told it.

    ``cut``: the reply ended at its token limit before its SQL did.
    """

    sql: str | None
    reason: str | None = None
    cut: bool = False


@attrs.frozen
class Fence:
    """A fenced block: the first word of its info string in lower case, its text, and whether it has a closing line."""

    tag: str
    text: str
    closed: bool


def extract(reply: str, *, cut: bool = False) -> Extraction:
    """The SQL of a reply. ``cut`` is true when the reply ended at its token limit (stop ``length``). Never raises."""
    text = _THINKING.sub("", reply)
    if not text.strip():
        return Extraction(
            None, "the reply ended at its token limit before any SQL" if cut else "the reply was empty", cut
        )
    found = fences(text)
    if cut and found and not found[-1].closed:
        return Extraction(None, "the reply ended at its token limit inside its fence", cut=True)
    if not found:
        return _unfenced(text, cut)
    running = _running(found)
    if not running:
        tags = ", ".join(dict.fromkeys(f.tag for f in found))
        return Extraction(None, f"the reply has no fence tagged sql (only: {tags})", cut)
    texts = [f.text for f in running if not is_blank(f.text)]
    if not texts:
        return Extraction(None, "the fence holds no statement")
    return Extraction(_join(texts))


def fences(text: str) -> tuple[Fence, ...]:
    """The fenced blocks of a text, by CommonMark's rules. Lines end at LF, CRLF or CR."""
    found: list[Fence] = []
    opening: re.Match[str] | None = None
    body: list[str] = []
    for line in re.split(r"\r\n|\n|\r", text):
        if opening is None:
            opening = _OPEN.match(line)
            body = []
        elif _closes(line, opening["bar"]):
            found.append(Fence(_tag(opening["info"]), "\n".join(body), closed=True))
            opening = None
        else:
            body.append(_unindent(line, opening.start("bar")))
    if opening is not None:
        found.append(Fence(_tag(opening["info"]), "\n".join(body), closed=False))
    return tuple(found)


def is_blank(sql: str) -> bool:
    """True when the text holds only white space, comments and semicolons.

    >>> is_blank("-- later;\\n ;"), is_blank("SELECT 1 -- one")
    (True, False)
    """
    return _NOTHING.match(sql) is not None


def looks_like_sql(text: str) -> bool:
    """True when the text has the form of a statement, and none of prose. It may still fail to parse.

    >>> looks_like_sql("select count(*) from ctx"), looks_like_sql("Select the best of the three.")
    (True, False)
    """
    bare = _QUOTED.sub(
        lambda m: " " if m[0].startswith(("--", "/*")) else ('"q"' if m[0][0] == '"' else "'q'"), text
    ).strip()
    first = _FIRST_WORD.match(bare.lstrip("\ufeff("))
    if first is None:
        return False
    form = _FORMS.get(first[1].upper())
    if form is None or not re.match(form + r"\Z", first[2], re.IGNORECASE | re.DOTALL):
        return False
    return _PROSE.search(bare) is None


def _unfenced(text: str, cut: bool) -> Extraction:
    if is_blank(text):
        return Extraction(None, "the reply holds no statement", cut)
    if not looks_like_sql(text):
        return Extraction(
            None, "the reply ended at its token limit before any SQL" if cut else "the reply has no SQL fence", cut
        )
    if cut:
        return Extraction(None, "the reply ended at its token limit inside its SQL", cut=True)
    return Extraction(text.strip())


def _running(found: tuple[Fence, ...]) -> list[Fence]:
    tagged = any(f.tag in SQL_TAGS for f in found)
    return [f for f in found if f.tag in SQL_TAGS or (not f.tag and (not tagged or _begins_statement(f.text)))]


def _begins_statement(text: str) -> bool:
    first = _FIRST_WORD.match(_COMMENTS.sub("", text, count=1))
    return first is not None and first[1].upper() in _FORMS


def _join(texts: list[str]) -> str:
    # A statement that ends a fence without its semicolon must not run into the next; the last line may be a comment, hence the new line.
    return "\n".join(t if i == len(texts) - 1 or t.rstrip().endswith(";") else t + "\n;" for i, t in enumerate(texts))


def _closes(line: str, bar: str) -> bool:
    closing = re.fullmatch(rf" {{0,3}}({re.escape(bar[0])}{{{len(bar)},}})[ \t]*", line)
    return closing is not None


def _tag(info: str) -> str:
    words = info.split()
    return words[0].lower() if words else ""


def _unindent(line: str, width: int) -> str:
    return line[min(width, len(line) - len(line.lstrip(" "))) :]
