"""What a statement does to tables, told from its tree: whether it writes, and in words what it did."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.dialect import CallSQL
from kleene.planner.identifiers import written

_VERBS: dict[type[exp.Expr], str] = {exp.Insert: "inserted", exp.Update: "updated", exp.Delete: "deleted"}


def writes(tree: object) -> bool:
    """Whether running the statement twice differs from running it once: it creates, fills, changes or drops a table or view."""
    return isinstance(tree, exp.Create | exp.Drop | exp.Insert | exp.Update | exp.Delete | exp.Merge)


def created_table(tree: object) -> str | None:
    """The name of the table or view that a CREATE makes."""
    if not isinstance(tree, exp.Create):
        return None
    what = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return str(what.name) if isinstance(what, exp.Table) else None


def effect(tree: object, count: int | None, columns: str = "") -> str | None:
    """What a statement without rows of its own did, None for one that has rows. ``count`` is the number of rows DuckDB answers with,
    ``columns`` describes the table it made.

    >>> from kleene.planner.statements import parse
    >>> effect(parse("CREATE TABLE t AS SELECT 1 AS a")[0].tree, 1, "a INTEGER"), effect(parse("DELETE FROM t")[0].tree, 2)
    ('created table t(a INTEGER) with 1 row', 'deleted 2 rows')
    """
    rows = "" if count is None else f"{count:,} row{'' if count == 1 else 's'}"
    if isinstance(tree, exp.Create):
        what = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        kind = str(tree.args.get("kind") or "").lower()
        with_rows = f" with {rows}" if rows and kind == "table" and tree.expression else ""
        return f"created {kind} {written(what.name)}{f'({columns})' if columns else ''}{with_rows}"
    if isinstance(tree, exp.Drop):
        named = tree.args.get("tables") or [tree.this]
        names = ", ".join(written(n.name) if isinstance(n, exp.Table) else n.sql(CallSQL) for n in named)
        return f"dropped {str(tree.args.get('kind') or '').lower()} {names}"
    if not isinstance(tree, exp.Expr) or count is None or tree.args.get("returning"):
        return None
    verb = _VERBS.get(type(tree))
    if verb is None:
        return None
    return f"{verb} {rows}"
