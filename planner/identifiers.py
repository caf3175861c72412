"""Names as SQL must have them: with quotes where DuckDB would read something else without."""

from __future__ import annotations

import re

_WORDS = """
all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate collation column
columns concurrently constraint create cross default deferrable desc describe distinct do else end except false fetch for foreign freeze
from full generated glob group having ilike in initially inner intersect into is isnull join lambda lateral leading left like limit map
natural not notnull null offset on only or order outer overlaps pivot pivot_longer pivot_wider placing positional primary qualify
references returning right select semi show similar some struct summarize symmetric table tablesample then to trailing true try_cast tuple
union unique unpack unpivot using variadic verbose when where window with
alter between cube drop force grant insert install lock revoke rollback rollup
"""
WORDS = frozenset(_WORDS.split())
"""DuckDB's keywords that name nothing without quotes (``duckdb_keywords()``: reserved and type_function), and those of the last line, which
CallSQL's reader takes for something else."""


def written(name: str) -> str:
    """The name of a table or column as it is written in a statement.

    >>> [written(n) for n in ("total", "Ünï", "order", "unit price", '5" pipe')]
    ['total', 'Ünï', '"order"', '"unit price"', '"5"" pipe"']
    """
    if re.fullmatch(r"[^\W\d]\w*", name) and name.casefold() not in WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
