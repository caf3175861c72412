"""Which call sites wait for which others: where a missing answer could make up an argument that the full answers would not.

Most of a statement is monotone in what is known: a filter whose answer is missing drops its row, and the row comes when the answer does. A
count, a window, an outer join, EXCEPT, NOT EXISTS, a LIMIT are not: with answers missing they give values and rows that are not the
statement's, and a call over them would be paid for nothing. So a site waits while a site that reaches it through such a construct lacks
answers. Waiting saves calls and never decides rows: a statement whose sites wait for each other asks them all.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import Call, Ready, aggregates, all_in, calls_in, conjuncts, has_call, has_own, unparen

Sites = set[int]


def waits(tree: exp.Expr) -> dict[int, frozenset[int]]:
    """Site → the sites whose answers it waits for, itself included where it stands below itself; sites that wait for none are left out."""
    ctes = {c.alias.lower(): c.this for c in all_in(tree, exp.CTE)}
    found: dict[int, Sites] = {}
    for call in calls_in(tree):
        found.setdefault(call.site, set()).update(_Place(ctes).of(call))
    return {site: frozenset(below) for site, below in found.items() if below}


def _sites(*nodes: exp.Expr | list[exp.Expr] | None) -> Sites:
    found: Sites = set()
    for node in nodes:
        for one in node if isinstance(node, list) else [node]:
            if one is not None:
                found.update(c.site for c in calls_in(one))
    return found


class _Place:
    def __init__(self, ctes: dict[str, exp.Expr]):
        self._ctes = ctes
        self._open: set[str] = set()

    def of(self, call: Call | Ready) -> Sites:
        """Everything around one occurrence that could make up its argument, or reach it wrongly."""
        found: Sites = set()
        for argument in call.expressions:
            found |= self._made_up(argument)
        aggregated = any(has_own(a, exp.AggFunc) for a in call.expressions)
        windowed = any(has_own(a, exp.Window) for a in call.expressions)
        child: exp.Expr = call
        parent = call.parent
        while parent is not None:
            if isinstance(parent, exp.If) and child is not parent.this:
                found |= self._made_up(parent.this)
            elif isinstance(parent, exp.AggFunc | exp.Window):
                aggregated = windowed = False
            elif isinstance(parent, exp.Select):
                if child.arg_key not in ("with_", "from_", "joins", "laterals"):
                    found |= self._sources(parent) | self._conditions(parent, call)
                    if child.arg_key != "where" and (aggregated or windowed or aggregates(parent)):
                        below = ("from_", "joins", "where", "group", *(("having",) if windowed else ()))
                        found |= _sites(*(parent.args.get(k) for k in below))
                aggregated = windowed = False
            child, parent = parent, parent.parent
        return found

    def _conditions(self, block: exp.Select, call: exp.Expr) -> Sites:
        """What the other conjuncts of a block's WHERE could make TRUE."""
        found: Sites = set()
        where = block.args.get("where")
        for conjunct in conjuncts(where.this) if where is not None else []:
            if not any(node is call for node in conjunct.walk()):
                found |= self._risky(conjunct)
        return found

    # -- what missing answers could make up --------------------------------------------------------------------------------------------

    def _made_up(self, value: exp.Expr) -> Sites:
        """Sites inside a value's subqueries, aggregates and windows."""
        if not has_call(value):
            return set()
        if isinstance(value, exp.Query | exp.AggFunc | exp.Window | exp.Filter):
            return _sites(value)
        found: Sites = set()
        for child in value.iter_expressions():
            found |= self._made_up(child)
        return found

    def _risky(self, condition: exp.Expr) -> Sites:
        """Sites whose missing answers could make a condition TRUE."""
        condition = unparen(condition)
        if isinstance(condition, exp.Exists) and isinstance(condition.this, exp.Query):
            return self._rows(condition.this)
        if isinstance(condition, exp.In) and isinstance(condition.args.get("query"), exp.Subquery):
            return self._rows(condition.args["query"].this) | self._made_up(condition.this)
        return self._made_up(condition)

    def _rows(self, query: exp.Expr) -> Sites:
        """Sites whose missing answers could add rows to a query, or change their values."""
        query = _inner(query)
        if isinstance(query, exp.SetOperation):
            if isinstance(query, exp.Except) or query.args.get("limit"):
                return _sites(query)
            return self._rows(query.left) | self._rows(query.right)
        if not isinstance(query, exp.Select):
            return _sites(query)
        windowed = any(has_own(e, exp.Window) for e in query.expressions)
        if aggregates(query) or windowed or query.args.get("limit") or query.args.get("qualify") or _distinct_on(query):
            return _sites(query) | self._sources(query)
        found = self._sources(query)
        where = query.args.get("where")
        for conjunct in conjuncts(where.this) if where is not None else []:
            found |= self._risky(conjunct)
        for item in query.expressions:
            found |= self._made_up(item)
        return found

    def _sources(self, block: exp.Select) -> Sites:
        found: Sites = set()
        joins = block.args.get("joins") or []
        from_ = block.args.get("from_")
        items = [from_.this] if from_ is not None else []
        items += [j.this for j in joins] + list(block.args.get("laterals") or [])
        for item in items:
            found |= self._source(item)
        if any(j.side in ("LEFT", "RIGHT", "FULL") or j.kind == "ANTI" for j in joins):
            found |= _sites(*items, *(j.args.get("on") for j in joins)) | self._behind(items)
        return found

    def _source(self, item: exp.Expr) -> Sites:
        if isinstance(item, exp.Subquery | exp.Lateral):
            return self._rows(item.this)
        cte = self._cte(item)
        if cte is None:
            return set()
        name, body = cte
        self._open.add(name)
        try:
            return self._rows(body)
        finally:
            self._open.discard(name)

    def _behind(self, items: list[exp.Expr]) -> Sites:
        """All sites of the CTEs that FROM items name."""
        bodies = [c[1] for c in (self._cte(i) for i in items) if c is not None]
        return _sites(*bodies)

    def _cte(self, item: exp.Expr) -> tuple[str, exp.Expr] | None:
        name = item.name.lower() if isinstance(item, exp.Table) and not item.args.get("db") else ""
        body = self._ctes.get(name)
        return None if body is None or name in self._open else (name, body)


def _inner(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.Subquery) and not any(query.args.get(k) for k in ("limit", "joins")):
        query = query.this
    return query


def _distinct_on(block: exp.Select) -> bool:
    distinct = block.args.get("distinct")
    return distinct is not None and distinct.args.get("on") is not None


__all__ = ["waits"]
