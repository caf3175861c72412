"""Which tables of a document are meant, which row of one names its columns, and how."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from kleene.tools.documents.base import Cell, shown

HEADER_WITHIN = 20
"""So many rows are looked at for the one with the names of the columns."""


def is_wanted(name: str, number: int, wanted: str | None) -> bool:
    """Whether a table is the one that is asked for, by its name in any case or its number from 1; None: all are.

    >>> is_wanted("Prices", 2, "prices"), is_wanted("Prices", 2, "2"), is_wanted("Prices", 2, "1")
    (True, True, False)
    """
    return wanted is None or wanted.casefold() == name.casefold() or wanted == str(number)


def named(rows: Iterable[tuple[int, list[Cell]]], header: int | None) -> Iterator[tuple[int, dict[str, Cell]]]:
    """The rows below the header, their cells by its names, NULL where a row is shorter.

    Without a number the header is the first row with two filled cells (titles stand above it), or the first row where none has.
    """
    iterator = iter(rows)
    if header == 0:
        for number, cells in iterator:
            yield number, {letters(i): cell for i, cell in enumerate(cells)}
        return
    if header is None:
        first = list(itertools.islice(iterator, HEADER_WITHIN))
        wide = next((i for i, (_, cells) in enumerate(first) if sum(c not in (None, "") for c in cells) > 1), 0)
        iterator = itertools.chain(first[wide:], iterator)
    else:
        iterator = itertools.dropwhile(lambda row: row[0] < header, iterator)
    names: list[str] | None = None
    for number, cells in iterator:
        if names is None:
            names = column_names(cells)
            continue
        for i in range(len(names), len(cells)):
            names.append(_unused(letters(i), names))
        yield number, dict(itertools.zip_longest(names, cells))


def column_names(cells: list[Cell]) -> list[str]:
    """The names that a header gives, on one line each; an empty one is its column's letter, one that was there before gets a number.

    >>> column_names(["Part", None, "Price", "Price"])
    ['Part', 'B', 'Price', 'Price_2']
    """
    names: list[str] = []
    for i, cell in enumerate(cells):
        names.append(_unused(" ".join(shown(cell).split()) or letters(i), names))
    return names


def _unused(name: str, names: list[str]) -> str:
    if name not in names:
        return name
    return next(f"{name}_{n}" for n in itertools.count(2) if f"{name}_{n}" not in names)


def letters(index: int) -> str:
    """A column's letters as in a sheet, from index 0.

    >>> [letters(i) for i in (0, 25, 26, 701, 702)]
    ['A', 'Z', 'AA', 'ZZ', 'AAA']
    """
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
