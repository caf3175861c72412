"""The files of a workspace that a glob means, in the order of their paths, less what ``.gitignore`` leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import attrs

from kleene.planner.errors import ToolError
from kleene.tools.base import Work
from kleene.tools.gitignore import MAX_BYTES, NAME, Rules, ignored
from kleene.tools.globs import Globs
from kleene.tools.jail import Entry, File, Folder

MAX_DEPTH = 200
CHECKED = 64
"""So many entries pass between two looks at the clock."""


@attrs.frozen
class Found:
    """An entry that the glob means. ``folder`` is open until the next one is asked for."""

    path: str
    entry: Entry
    folder: Folder

    def open(self) -> File | None:
        """The file, or None where it vanished, changed its kind or may not be read since it was listed."""
        try:
            return self.folder.file(self.entry.name)
        except ToolError:
            return None


def walk(work: Work, glob: str | None) -> Iterator[Found]:
    """Everything that the glob means (None: all), folders before what lies in them; links are given but not followed.

    The part of a glob before its first wildcard is where the walk begins, and is itself not asked whether it is ignored: what is named
    is found. Raises ``ToolError`` for a glob that cannot be read and for folders nested more than 200 deep.
    """
    pattern = "**" if glob is None else glob
    globs = Globs.of(pattern)
    start, name = _start(pattern)
    root = work.workspace
    if start or name:
        path = "/".join((*start, name)) if name else "/".join(start)
        status = root.status(path)
        if status is None:
            return
    with root.folder() as folder:
        rules: tuple[Rules, ...] = ()
        above: list[Folder] = []
        try:
            for part in start:
                rules += _rules_of(folder)
                folder = folder.folder(part)
                above.append(folder)
            if name:
                entry = next((e for e in folder.entries() if e.name == name), None)
                if entry is not None:
                    yield Found("/".join((*folder.parts, name)), entry, folder)
                return
            yield from _below(work, folder, globs, rules)
        finally:
            for opened in above:
                opened.close()


def _below(work: Work, top: Folder, globs: Globs, rules: tuple[Rules, ...]) -> Iterator[Found]:
    # A list in place of recursion: each open folder with what is left of its entries, and the rules that hold in it.
    rules = rules + _rules_of(top)
    stack: list[tuple[Folder, Iterator[Entry], tuple[Rules, ...]]] = [(top, iter(top.entries()), rules)]
    seen = 0
    try:
        while stack:
            folder, entries, rules = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                if folder is not top:
                    folder.close()
                continue
            seen += 1
            if seen % CHECKED == 0:
                work.check()
            path = "/".join((*folder.parts, entry.name))
            if rules and ignored(rules, path, folder=entry.kind == "folder"):
                continue
            if globs.match(path):
                yield Found(path, entry, folder)
            if entry.kind == "folder":
                inner = _opened(folder, entry.name)
                if inner is None:
                    continue
                if len(stack) >= MAX_DEPTH:
                    inner.close()
                    raise ToolError(f"{path}: folders are nested more than {MAX_DEPTH} deep", kind="too large")
                stack.append((inner, iter(()), rules))
                stack[-1] = (inner, iter(inner.entries()), rules + _rules_of(inner))
    finally:
        for folder, _, _ in stack:
            if folder is not top:
                folder.close()


def _opened(folder: Folder, name: str) -> Folder | None:
    try:
        return folder.folder(name)
    except ToolError:
        return None


def _rules_of(folder: Folder) -> tuple[Rules, ...]:
    try:
        folder.status(NAME)
    except OSError:
        return ()
    with suppress(ToolError):
        with folder.file(NAME) as file:
            base = "".join(part + "/" for part in folder.parts)
            return (Rules.of(base, file.read(MAX_BYTES).decode("utf-8", "surrogateescape")),)
    return ()


def _start(pattern: str) -> tuple[tuple[str, ...], str | None]:
    """The folders before the first wildcard, and the name where the pattern has no wildcard at all.

    >>> _start("src/x/*.py"), _start("src/a.py"), _start("*.py"), _start("a.py"), _start("docs/")
    ((('src', 'x'), None), (('src',), 'a.py'), ((), None), ((), None), (('docs',), None))
    """
    if "/" not in pattern or re.search(r"[{\\]", pattern):
        return (), None
    parts = pattern.removeprefix("./").strip("/").split("/")
    plain = []
    for part in parts:
        if re.search(r"[*?\[]", part) or part in ("", "."):
            break
        plain.append(part)
    if len(plain) < len(parts) or pattern.endswith("/"):
        return tuple(plain), None
    return tuple(plain[:-1]), plain[-1]
