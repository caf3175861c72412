"""What a statement without rows of its own does, in words."""

from __future__ import annotations

from sqlglot import exp


def done(tree: object, rows: int | None) -> str | None:
    """``created table t with 7 rows``, ``inserted 2 rows``, ``dropped view v``; None for a statement that answers with rows.

    ``rows`` is the count that DuckDB gave, None where it gave none.

    >>> import sqlglot
    >>> done(sqlglot.parse_one("CREATE TABLE t AS SELECT 1", read="duckdb"), 1)
    'created table t with 1 row'
    """
    counted = "" if rows is None else f"{rows:,} row{'' if rows == 1 else 's'}"
    if isinstance(tree, exp.Create):
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        kind = str(tree.args.get("kind") or "").lower()
        filled = f" with {counted}" if counted and kind == "table" and tree.expression is not None else ""
        return f"created {kind} {target.name}{filled}"
    if isinstance(tree, exp.Drop):
        return f"dropped {str(tree.args.get('kind') or '').lower()} {tree.this.name}"
    if not counted or not isinstance(tree, exp.Insert | exp.Update | exp.Delete) or tree.args.get("returning"):
        return None
    verb = {exp.Insert: "inserted", exp.Update: "updated", exp.Delete: "deleted"}[type(tree)]
    return f"{verb} {counted}"
