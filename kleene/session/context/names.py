"""Names tables after the files they come from."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

import attrs


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
