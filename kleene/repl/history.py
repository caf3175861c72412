"""What was typed, kept across starts in a file of the user's own; prompt_toolkit's form, so that its search works on it.

Inputs that hold a secret, and those that begin with a blank, are remembered until the program ends and never written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

from kleene.repl.secrets import holds_secret

NAME = "history"
MOST = 10_000  # inputs that are kept
LONGEST = 50_000  # characters of one


class KeptHistory(History):
    """``path`` None keeps nothing. A file that cannot be read or written is no error: ``problem`` says why nothing is kept."""

    def __init__(self, path: Path | None):
        super().__init__()
        self.path = path
        self.problem: str | None = None

    def load_history_strings(self) -> Iterable[str]:
        """The latest first."""
        if self.path is None:
            return []
        try:
            entries = read_entries(self.path.read_text(encoding="utf-8", errors="replace"))
            if len(entries) > 2 * MOST:
                self._replace(entries[-MOST:])
        except FileNotFoundError:
            return []
        except OSError as error:
            self.problem = f"the history cannot be read: {error.strerror}: {self.path}"
            return []
        return reversed(entries[-MOST:])

    def store_string(self, string: str) -> None:
        if self.path is None or not is_kept(string):
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # One write to a file that is open for appending: two prompts at once do not mix their lines.
            with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(as_entry(string).encode("utf-8", "replace"))
        except OSError as error:
            self.problem = f"the history is not kept: {error.strerror}: {self.path}"

    def _replace(self, entries: list[str]) -> None:
        assert self.path is not None
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write("".join(as_entry(e) for e in entries).encode("utf-8", "replace"))
        os.replace(beside, self.path)


def is_kept(text: str) -> bool:
    return bool(text.strip()) and not text.startswith(" ") and len(text) <= LONGEST and not holds_secret(text)


def as_entry(text: str) -> str:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"\n# {stamp}\n" + "".join(f"+{line}\n" for line in text.split("\n"))


def read_entries(text: str) -> list[str]:
    r"""
    >>> read_entries("\n# 2026-01-01\n+SELECT 1\n+;\n\n# 2026-01-02\n+\\d\n")
    ['SELECT 1\n;', '\\d']
    """
    entries: list[list[str]] = []
    goes_on = False
    for line in text.split("\n"):
        if not line.startswith("+"):
            goes_on = False
        elif goes_on:
            entries[-1].append(line[1:])
        else:
            entries.append([line[1:]])
            goes_on = True
    return ["\n".join(lines) for lines in entries]
