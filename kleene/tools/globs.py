"""Which paths a pattern means, in ``files``, ``grep``, ``search`` and in write allow-lists alike.

``*`` and ``?`` stand for anything but ``/``, ``**`` for any folders, ``[a-z]`` and ``[!a-z]`` for one character, ``{a,b}`` for either, a backslash
takes the next character as it is. A pattern without ``/`` is a name at any depth (``*.md``); one with ``/`` is a path from the workspace
(``src/*.py``, ``./*.md``). A pattern that names a folder means all that lies in it where it ends in ``/``.
"""

from __future__ import annotations

import re

import attrs

from kleene.planner.errors import ToolError

MAX_ALTERNATIVES = 1_000


@attrs.frozen
class Globs:
    """Several patterns; a path matches when one of them does. No pattern: nothing matches."""

    patterns: tuple[str, ...]
    regex: re.Pattern[str] = attrs.field(eq=False, repr=False)

    @classmethod
    def of(cls, *patterns: str) -> Globs:
        """Raises ``ToolError`` (invalid arguments) for a pattern that cannot be read."""
        sources = [_anchored(alternative) for pattern in patterns for alternative in _braces(pattern)]
        return cls(patterns, re.compile("|".join(sources) or r"(?!)", re.DOTALL))

    def match(self, path: str) -> bool:
        """
        >>> [Globs.of("*.md").match(p) for p in ("a.md", "docs/a.md", "a.mdx")]
        [True, True, False]
        >>> [Globs.of("src/**/*.{py,pyi}").match(p) for p in ("src/a.py", "src/x/y/a.pyi", "a.py")]
        [True, True, False]
        """
        return self.regex.fullmatch(path) is not None


def _anchored(pattern: str) -> str:
    if not pattern:
        raise ToolError("a glob is empty", kind="invalid arguments", hint="** is every file, *.md every Markdown file")
    rooted = "/" in pattern.rstrip("/")
    body = pattern.removeprefix("./").removeprefix("/")
    if body.endswith("/"):
        body += "**"
    return translate(body) if rooted or body.startswith("**") else "(?:.*/)?" + translate(body)


def translate(pattern: str) -> str:
    """A pattern without braces as the source of a regular expression.

    >>> translate("a/**/b*")
    'a/(?:[^/]+/)*b[^/]*'
    """
    out, i, n = [], 0, len(pattern)
    while i < n:
        char = pattern[i]
        i += 1
        if char == "*":
            stars = 1
            while i < n and pattern[i] == "*":
                i, stars = i + 1, stars + 1
            before = i - stars == 0 or pattern[i - stars - 1] == "/"
            if stars > 1 and before and i < n and pattern[i] == "/":
                out.append("(?:[^/]+/)*")
                i += 1
            elif stars > 1 and before and i == n:
                out.append(".*")
            else:
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            source, i = character_class(pattern, i)
            out.append(source)
        elif char == "\\" and i < n:
            out.append(re.escape(pattern[i]))
            i += 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def character_class(pattern: str, i: int) -> tuple[str, int]:
    """The class that begins before ``i`` as the source of a regular expression, and where the pattern goes on. Without an end it is a bracket."""
    end = i + 1 if i < len(pattern) and pattern[i] in "!^" else i
    end = end + 1 if end < len(pattern) and pattern[end] == "]" else end
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    if end >= len(pattern):
        return re.escape("["), i
    body, negated = pattern[i:end], pattern[i] in "!^"
    body = re.sub(r"\\(.)|([\[\\&~|])", lambda m: "\\" + (m[1] or m[2]), body[1:] if negated else body)
    if body.startswith("]"):
        body = "\\" + body
    source = f"(?!/)[{'^' if negated else ''}{body}]"
    try:
        re.compile(source)
    except re.error:  # a range that runs backwards matches nothing
        return "(?!)", end + 1
    return source, end + 1


def _braces(pattern: str) -> list[str]:
    """The patterns that ``{a,b}`` stands for; a brace without its fellow is itself."""
    done, todo = [], [pattern]
    while todo:
        text = todo.pop()
        found = re.search(r"(?<!\\)\{([^{}]*,[^{}]*)\}", text)
        if found is None:
            done.append(text)
        else:
            todo.extend(
                text[: found.start()] + choice + text[found.end() :] for choice in reversed(found[1].split(","))
            )
        if len(todo) + len(done) > MAX_ALTERNATIVES:
            raise ToolError(f"a glob has more than {MAX_ALTERNATIVES:,} alternatives", kind="invalid arguments")
    return done
