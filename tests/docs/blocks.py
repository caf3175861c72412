"""The fenced blocks of a page, and what their info strings say is to be done with them.

    ```sql                          statements, typed at the page's prompt
    ```python                       run in the page's namespace
    ```console                      lines after `$ ` are commands, the lines below each what it prints
    ```bash                         commands alone, to be copied
    ```text                         a picture; a transcript where it begins with `kleene> `
    ```text output                  what the block before prints
    ```LANGUAGE file=NAME           a file that the reader saves under this name
    ```LANGUAGE not run: REASON     read, not run

`json` and `toml` must be what they say. `<!-- run` before blocks and `-->` after them hide preparations from the reader, not from the tests.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs
from markdown_it import MarkdownIt

LANGUAGES = ("sql", "python", "console", "bash", "text", "csv", "json", "toml", "markdown")
PROMPT = "kleene> "
HIDDEN = re.compile(r"<!-- run\n(.*)-->\s*", re.DOTALL)
INFO = re.compile(r"(?P<language>\w+)(?: (?P<output>output)| file=(?P<file>\S+))?(?: not run: (?P<reason>\S.*))?")


class PageError(AssertionError):
    """A page is not written as the runner reads it."""


@attrs.frozen
class Block:
    """``line`` is that of the opening fence, from 1. ``reason`` says why the block is not run."""

    page: str
    line: int
    language: str
    text: str
    output: bool = False
    file: str | None = None
    reason: str | None = None
    hidden: bool = False

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_transcript(self) -> bool:
        return self.language == "text" and not self.output and self.text.startswith(PROMPT)


def read_page(path: Path, name: str) -> list[Block]:
    """The blocks in the order of the page. Raises ``PageError`` for an indented block and an info string that says nothing known."""
    return blocks_of(path.read_text(encoding="utf-8"), name)


def blocks_of(text: str, name: str, first_line: int = 1, *, hidden: bool = False) -> list[Block]:
    found: list[Block] = []
    for token in MarkdownIt().parse(text):
        line = first_line + (token.map[0] if token.map else 0)
        if token.type == "code_block":
            raise PageError(f"{name}:{line}: an indented block has no language: fence it")
        if token.type == "fence":
            found.append(block_of(token.info.strip(), token.content, name, line, hidden))
        elif token.type == "html_block" and (match := HIDDEN.fullmatch(token.content)):
            found += blocks_of(match[1], name, line + 1, hidden=True)
    return found


def block_of(info: str, text: str, name: str, line: int, hidden: bool) -> Block:
    match = INFO.fullmatch(info)
    if match is None or match["language"] not in LANGUAGES:
        raise PageError(f"{name}:{line}: the info string {info!r} is none of those in tests/docs/blocks.py")
    return Block(name, line, match["language"], text, bool(match["output"]), match["file"], match["reason"], hidden)
