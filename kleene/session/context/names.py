"""Names tables after the files they come from, and files for whoever reads of them."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

import attrs


@attrs.frozen
class Called:
    """A source as it is written in errors, for whoever gave it (``label``), and in the tables and notes that a model reads (``shown``)."""

    label: str
    shown: str


@attrs.define
class Names:
    """Gives each table a name that needs no quotes and is taken once, compared without case: the second ``sales`` is ``sales_2``."""

    reserved: Container[str] = ()
    _taken: set[str] = attrs.field(factory=set)

    def take(self, wanted: str) -> str:
        base = identifier(wanted, self.reserved)
        name, number = base, 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name.casefold())
        return name

    def keep(self, names: Iterable[str]) -> None:
        """Marks names as taken."""
        self._taken.update(n.casefold() for n in names)


def identifier(wanted: str, reserved: Container[str] = ()) -> str:
    """The wanted name as an SQL identifier.

    >>> identifier("Q3 sales-2024"), identifier("2024"), identifier("order", {"order"}), identifier("!?")
    ('Q3_sales_2024', 't_2024', 't_order', 'data')
    """
    name = re.sub(r"\W+", "_", wanted).strip("_") or "data"
    return f"t_{name}" if name[0].isdigit() or name.casefold() in reserved else name


def stem(file_name: str) -> str:
    """A file's name without its endings: ``sales.csv.gz`` is ``sales``; a name that begins with a dot keeps its first part.

    >>> stem("sales.v2.csv.gz"), stem(".csv")
    ('sales.v2', 'csv')
    """
    bare = re.sub(r"\.(?:gz|zst)\Z", "", file_name, flags=re.IGNORECASE).lstrip(".")
    return bare.rpartition(".")[0] or bare


def called(path: Path, shown: Mapping[Path, str]) -> Called:
    label = as_text(path)
    return Called(label, shown.get(path, label))


def shown_names(paths: Iterable[Path]) -> dict[Path, str]:
    """What to show of absolute paths: the name, with as many of its folders as tell it from the others. Others are shown as they are given.

    >>> list(shown_names(map(Path, ["/a/b/x.txt", "/a/c/x.txt", "/a/y.txt", "z/x.txt"])).values())
    ['b/x.txt', 'c/x.txt', 'y.txt']
    """
    absolute = {path: path.parts[1:] for path in paths if path.is_absolute()}
    shown = {}
    for path, parts in absolute.items():
        others = [p for other, p in absolute.items() if other != path]
        size = next((n for n in range(1, len(parts)) if all(p[-n:] != parts[-n:] for p in others)), len(parts))
        shown[path] = as_text(Path(*parts[len(parts) - size :])) if parts else as_text(path)
    return shown


def as_text(path: Path) -> str:
    """A path as text that any sink can encode: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path.as_posix()).decode("utf-8", "replace")
