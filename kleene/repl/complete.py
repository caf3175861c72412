"""Whether what was typed can be run when Enter is pressed."""

from __future__ import annotations

import re

from kleene.repl.scan import scan

COMMAND = re.compile(r"\s*(?:\\|/(?![*/]))\S*")
BARE = frozenset({"exit", "quit", "help"})


def is_command(text: str) -> bool:
    r"""Whether a text is a command of the prompt, not SQL.

    >>> is_command(r"\d mails"), is_command("/run Why?"), is_command("exit"), is_command("/* a comment */ SELECT 1")
    (True, True, True, False)
    """
    return COMMAND.match(text) is not None or text.strip().rstrip(";").strip().lower() in BARE


def is_complete(text: str) -> bool:
    """Whether Enter runs the text: it is empty, a command, or ends in a semicolon that stands in no string or comment.

    >>> [is_complete(t) for t in ("", "SELECT 1", "SELECT 1; -- done", "SELECT ';", "/* ;")]
    [True, False, True, False, False]
    """
    if not text.strip() or is_command(text):
        return True
    pieces = scan(text)
    if any(p.open and not p.text.startswith("--") for p in pieces):
        return False
    matters = [p for p in pieces if p.matters]
    return bool(matters) and matters[-1].kind == "end"
