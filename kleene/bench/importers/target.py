"""Where an importer puts what it makes: a pack's folder with contexts and documents beside ``pack.json``."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from kleene.planner.errors import ConfigError
from kleene.rendering.rows import sql_text

MOST_OF_NAME = 100  # characters of a text in the name of a file


@attrs.define
class Target:
    """``root`` is the folder that is imported, ``where`` are the rows that are wanted: values of fields as texts."""

    folder: Path
    root: Path
    where: Mapping[str, str] = attrs.field(factory=dict)
    _contexts: dict[str, bytes] = attrs.field(factory=dict, init=False)
    _copied: dict[Path, str] = attrs.field(factory=dict, init=False)

    def context(self, name: str, text: str, place: str) -> str:
        """Write a context, once for each name, and give its path from the pack's folder. Raises ``ConfigError`` where a name has two texts."""
        digest = hashlib.sha256(text.encode()).digest()
        path = f"contexts/{name}.txt"
        if name not in self._contexts:
            file = self.folder / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, "utf-8", newline="")
            self._contexts[name] = digest
        elif self._contexts[name] != digest:
            raise ConfigError(
                f"{place}: the text named {name} is another one than before", hint="a text needs a name of its own"
            )
        return path

    def note(self, name: str, line: Mapping[str, Any]) -> None:
        """Add a line of JSON to a file of the pack's folder."""
        with open(self.folder / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def documents(self, source: Path, name: str) -> str:
        """Copy a folder, once, and give its path from the pack's folder. Raises ``ConfigError`` for one that is not of what is imported: its
        files would be a model's to read."""
        source = source.resolve()
        if not source.is_relative_to(self.root):
            raise ConfigError(f"{source} lies outside of {self.root}", hint="import the folder that holds both")
        if source not in self._copied:
            path = f"documents/{name}"
            # Links are not followed: they could lead out of the bench's folder.
            shutil.copytree(source, self.folder / path, symlinks=True)
            self._copied[source] = path
        return self._copied[source]


def slug(text: str) -> str:
    """A part of an id: letters, digits, dots, dashes and underscores.

    >>> slug("Rofr/Rofo/Rofn"), slug("ADI/2009/page_49.pdf-1"), slug("  ")
    ('Rofr-Rofo-Rofn', 'ADI-2009-page_49.pdf-1', 'x')
    """
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "x"
    return (
        found
        if len(found) <= MOST_OF_NAME
        else f"{found[:MOST_OF_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    )


def in_prompt(text: str) -> str:
    """A text inside the PROMPT of a function, where braces name arguments."""
    return sql_text(text)[1:-1].replace("{", "{{").replace("}", "}}")
