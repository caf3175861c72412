"""Finds every call in a statement: which function, which arguments, and whether a lookup or a call on demand serves it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import sqlglot
from sqlglot import exp

from kleene.planner import declarations, sessions, tools
from kleene.planner.arguments import arguments_of, asked_text
from kleene.planner.callplan import CallPlan, Site
from kleene.planner.calls import (
    Call,
    all_in,
    calls_in,
    carrier_kind,
    copied,
    has_call,
    new_call,
    nodes,
    released,
    shape,
)
from kleene.planner.catalog import Catalog
from kleene.planner.dialect import CallSQL, spreads
from kleene.planner.errors import PlanError
from kleene.planner.rules.cascade import ORACLE, PROXY, described
from kleene.planner.settings import EFFORTS, Settings
from kleene.planner.specs import AnswerType, CallSpec, FunctionSpec, Span, Volatility
from kleene.planner.statements import Statement, max_recursion, span_of
from kleene.planner.views import unplaced
from kleene.planner.volatile import has_effect, is_suspicious, is_volatile

MAX_EXPANSIONS = 64
WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
AGGREGATE_SEPARATOR = "\n\n"


def resolve(statement: Statement, tree: exp.Expr, catalog: Catalog, settings: Settings) -> CallPlan | None:
    """The plan of a statement before any rule, None when it makes no call. ``tree`` is the statement's, with the views that make calls opened.

    Raises ``PlanError`` for a wrong number or kind of arguments, an unknown option, or a call where none can be.
    """
    usual = _usual(tree, catalog)
    bounded = any(max_recursion(c) is not None for c in nodes(usual) if isinstance(c, exp.CTE))
    if not bounded and not _mentions_function(usual, catalog):
        return None
    tree, fired = _expand(copied(usual), statement, catalog, settings)
    resolver = _Resolver(statement, catalog, settings)
    tree = resolver.run(tree)
    if not resolver.sites:
        return None if tree == statement.tree and not bounded else CallPlan(tree, (), kind=_kind(tree))
    _refuse_where_no_call_can_be(tree, statement, resolver.sites[0].span)
    plan = CallPlan(
        tree,
        tuple(resolver.sites),
        kind=_kind(tree),
        suspicious=any(is_suspicious(n) for n in nodes(tree)),
        rules=fired,
    )
    return _fence(plan, changes_between_runs(tree))


def _expand(
    tree: exp.Expr, statement: Statement, catalog: Catalog, settings: Settings
) -> tuple[exp.Expr, tuple[str, ...]]:
    """The tree with SQL functions inlined and declarations applied, and the rules that did. Each may bring calls that the other expands: a
    body may call a function with a proxy, and a proxy may be an SQL function."""
    fired: dict[str, None] = {}
    for _ in range(MAX_EXPANSIONS):
        tree = _inline_pure(_inline_sql_functions(tree, catalog, statement), catalog, statement)
        declared = declarations.declared_calls(tree, catalog)
        if not declared:
            break
        _name_outputs(declared)
        tree, now = declarations.apply(tree, catalog, settings)
        if not now:
            break
        fired.update(dict.fromkeys(now))
    else:
        raise PlanError(
            f"{declared[0].name} is declared by itself, through a proxy or a label",
            hint="a proxy and a label must not call the function that they stand for",
            span=span_of(statement, declared[0]) or statement.span,
            source=statement.source,
        )
    return tree, tuple(fired)


def _mentions_function(tree: exp.Expr, catalog: Catalog) -> bool:
    return any(isinstance(n, exp.Anonymous) and catalog.function(n.name) is not None for n in nodes(tree))


def _usual(tree: exp.Expr, catalog: Catalog) -> exp.Expr:
    """The tree with ``x.f(y)`` as ``f(x, y)`` for functions of ours, and FETCH FIRST as LIMIT; the same tree where neither stands in it."""

    def is_chained(node: exp.Expr) -> bool:
        last = node.expression if isinstance(node, exp.Dot) else None
        return isinstance(last, exp.Anonymous) and not isinstance(node.this, exp.Identifier) and _is_ours(last, catalog)

    def is_plain_fetch(node: exp.Expr) -> bool:
        options = node.args.get("limit_options") if isinstance(node, exp.Fetch) else None
        return options is not None and not (options.args.get("percent") or options.args.get("with_ties"))

    if not any(is_chained(n) or is_plain_fetch(n) for n in nodes(tree)):
        return tree
    root = exp.Tuple(expressions=[copied(tree)])
    for node in reversed([n for n in nodes(root) if is_chained(n)]):  # inner ones first
        call = node.expression
        call.set("expressions", [node.this, *call.expressions])
        node.replace(call)
    for node in [n for n in nodes(root) if is_plain_fetch(n)]:
        node.replace(exp.Limit(expression=node.args.get("count") or exp.Literal.number(1)))
    return released(root)


def _is_ours(node: exp.Anonymous, catalog: Catalog) -> bool:
    return catalog.function(node.name) is not None


def _kind(tree: exp.Expr) -> str:
    if isinstance(tree, WRITES) or (isinstance(tree, exp.Create) and tree.args.get("kind") in ("TABLE",)):
        return "write"
    return "query" if isinstance(tree, exp.Query | exp.Values) else "other"


# -- SQL functions ---------------------------------------------------------------------------------------------------------------------


def _inline_sql_functions(tree: exp.Expr, catalog: Catalog, statement: Statement) -> exp.Expr:
    """Replace every call of an AS SQL function by its body, innermost definitions last. Raises ``PlanError`` on endless recursion."""
    first: Span | None = None
    last = ""
    for _ in range(MAX_EXPANSIONS):
        node = next(
            (n for n in nodes(tree) if isinstance(n, exp.Anonymous) and _is_sql(catalog.function(n.name))), None
        )
        if node is None:
            return tree
        spec = catalog.function(node.name)
        assert spec is not None and spec.text is not None
        first, last = first or span_of(statement, node), spec.name
        arguments = arguments_of(node, spec, statement)
        body = _substitute(unplaced(sqlglot.parse_one(spec.text, read=CallSQL)), spec, arguments)
        parent = node.parent
        if isinstance(parent, exp.Table | exp.Lateral) and parent.this is node:
            alias = parent.args.get("alias") or exp.TableAlias(this=exp.to_identifier(spec.name))
            parent.replace(exp.Subquery(this=body, alias=copied(alias)))
        else:
            node.replace(exp.Subquery(this=body))
    raise PlanError(
        f"the SQL function {last} calls itself, directly or through others",
        hint="a function must not call itself; use WITH RECURSIVE",
        span=first,
        source=statement.source,
    )


def _is_sql(spec: FunctionSpec | None) -> bool:
    return spec is not None and spec.body == "sql"


def _inline_pure(tree: exp.Expr, catalog: Catalog, statement: Statement) -> exp.Expr:
    """Replace what DuckDB does by itself under another name (``similarity``) by DuckDB's function, its arguments as they were declared."""
    root = exp.Tuple(expressions=[tree])
    for node in reversed([n for n in nodes(tree) if isinstance(n, exp.Anonymous)]):
        spec = catalog.function(node.name)
        if spec is None or spec.body != "pure":
            continue
        given = arguments_of(node, spec, statement)
        arguments = [
            exp.Cast(this=copied(given[p.name]), to=exp.DataType.build(p.type, dialect=CallSQL)) for p in spec.params
        ]
        _name_outputs([node])
        node.replace(exp.Anonymous(this=spec.text, expressions=arguments))
    result = root.expressions[0]
    result.pop()
    return result  # type: ignore[no-any-return]


def _substitute(body: exp.Expr, spec: FunctionSpec, arguments: dict[str, exp.Expr]) -> exp.Expr:
    names = {p.name.lower(): p for p in spec.params}
    for column in all_in(body, exp.Column):
        name = column.name.lower()
        if column.table or name not in names:
            continue
        value = exp.Cast(this=copied(arguments[name]), to=exp.DataType.build(names[name].type, dialect=CallSQL))
        column.replace(value)
    return body


# -- call sites ------------------------------------------------------------------------------------------------------------------------


class _Resolver:
    """Replaces calls by ``Call`` nodes, inner ones first, and numbers the sites in order of appearance."""

    def __init__(self, statement: Statement, catalog: Catalog, settings: Settings):
        self.statement = statement
        self.catalog = catalog
        self.settings = settings
        self.sites: list[Site] = []
        self._known: dict[tuple[object, ...], int] = {}

    def run(self, tree: exp.Expr) -> exp.Expr:
        found = [n for n in nodes(tree) if isinstance(n, exp.Anonymous) and self.catalog.function(n.name) is not None]
        root = exp.Tuple(expressions=[tree])  # so that the tree itself may be replaced
        _name_outputs(found)
        for node in reversed(found):
            spec = self.catalog.function(node.name)
            assert spec is not None
            self._replace(node, spec)
        self._renumber(root)
        result = root.expressions[0]
        result.pop()
        return result  # type: ignore[no-any-return]

    def _replace(self, node: exp.Anonymous, spec: FunctionSpec) -> None:
        place = node.parent
        in_from = isinstance(place, exp.Table | exp.Lateral) and place.this is node
        if tools.has_effects(spec):
            raise self._error(
                node, f"{spec.name} has effects and is a statement of its own", f"CALL {spec.name}(...) [FROM query]"
            )
        if spec.table is not None and not in_from:
            raise self._error(
                node, f"{spec.name} returns rows and stands in FROM", f"FROM t, LATERAL {spec.name}(...) AS x"
            )
        if spec.table is None and in_from:
            raise self._error(node, f"{spec.name} returns one value, not rows", f"SELECT {spec.name}(...)")
        self._check_place(node, spec)
        given = arguments_of(node, spec, self.statement)
        if spec.body == "session":
            spec, given = self._session(node, spec, given)
        elif spec.body in ("tool", "shell"):
            given = tools.given_arguments(given, spec)
            spec = tools.shaped(spec, given)
        call_spec, values = self._specify(node, spec, given)
        if spec.body == "tool":
            values = [(tools.as_argument(v, t), "VARCHAR" if tools.is_nested(t) else t) for v, t in values]
        if spec.body == "session":
            call_spec = sessions.specified(call_spec, spec, given, self.catalog)
        elif spec.body in ("tool", "shell"):
            call_spec = tools.specified(call_spec, spec, given)
        if spec.aggregate:
            self._aggregate(node, spec, call_spec, values)
            return
        arguments = [as_text(v, t) for v, t in values] or [exp.Literal.string("")]
        site = self._site(node, spec, call_spec, arguments)
        call = new_call(site, arguments, spec.answer.carrier)
        if spec.table is not None:
            limit = copied(values[1][0]) if spec.name == "expand" else None
            assert place is not None
            self._table(place, spec, call, limit)
        else:
            node.replace(_typed(call, spec.answer))

    def _check_place(self, node: exp.Anonymous, spec: FunctionSpec) -> None:
        around = node.parent
        if isinstance(around, exp.Window) and around.this is node:
            if spec.aggregate:
                raise self._error(node, f"{spec.name} cannot be a window function", "group by the partition instead")
            raise self._error(
                node, f"{spec.name} is called row by row and takes no OVER", f"SELECT {spec.name}(...) without OVER"
            )
        if isinstance(around, exp.Filter) and around.this is node and not spec.aggregate:
            raise self._error(
                node,
                f"{spec.name} is called row by row and takes no FILTER",
                f"CASE WHEN condition THEN {spec.name}(...) END",
            )
        if any(isinstance(a, exp.Star) for a in node.expressions):
            raise self._error(node, f"{spec.name} takes values, not *", spec.signature())

    def _specify(
        self, node: exp.Anonymous, spec: FunctionSpec, given: dict[str, exp.Expr]
    ) -> tuple[CallSpec, list[tuple[exp.Expr, str]]]:
        """The call's specification (constant options applied) and its remaining arguments with their declared types."""
        answer, alias, effort = spec.answer, spec.model, spec.effort
        values: list[tuple[exp.Expr, str]] = []
        for param in spec.params:
            value = given.get(param.name.lower())
            if spec.body == "builtin" and param.name in ("model", "effort", "schema"):
                if value is None:
                    continue
                text = self._constant(node, spec, param.name, value)
                if param.name == "model":
                    alias = text
                elif param.name == "effort":
                    effort = self._effort(node, text)
                else:
                    answer = AnswerType(answer.kind, answer.sql, text)
            elif value is not None:
                values.append((value, param.type))
        return call_spec(spec, self.settings, answer=answer, alias=alias, effort=effort), values

    def _session(
        self, node: exp.Anonymous, spec: FunctionSpec, given: dict[str, exp.Expr]
    ) -> tuple[FunctionSpec, dict[str, exp.Expr]]:
        """The call of a session, a relation as context made one text."""
        given = sessions.with_defaults(spec, given)
        try:
            return sessions.shaped(spec, given, self.catalog), given
        except PlanError as problem:
            raise self._error(node, problem.message, problem.hint or "") from None

    def _effort(self, node: exp.Anonymous, text: str) -> str:
        if text.lower() not in EFFORTS:
            raise self._error(node, f"unknown effort {text}", f"effort is one of {', '.join(EFFORTS)}")
        return text.lower()

    def _constant(self, node: exp.Anonymous, spec: FunctionSpec, name: str, value: exp.Expr) -> str:
        by_place = not any(isinstance(a, exp.PropertyEQ) and a.this.name.lower() == name for a in node.expressions)
        is_text = isinstance(value, exp.Literal) and value.is_string
        # a name has no blank, so that llm('Sum up', 'the text') is the mistake that llm('Sum up', body) is
        if is_text and not (by_place and name == "model" and " " in value.name.strip()):
            return str(value.this)
        hint = f"write {name} := '...' in the statement itself"
        if by_place and spec.params[0].name == "prompt":
            hint = f"one prompt holds all: {self._joined(node, spec, value)}"
        raise self._error(
            node,
            f"{name} of {spec.name} is {'no name' if is_text else 'not a text literal'}: {self._text(value)}",
            hint,
        )

    def _joined(self, node: exp.Anonymous, spec: FunctionSpec, value: exp.Expr) -> str:
        """The call with the argument that took the place of an option as a part of its prompt."""
        first = node.expressions[0]
        asked = f"{self._text(first)} || ' '"
        if isinstance(first, exp.Literal) and first.is_string:
            words = first.name.rstrip()
            asked = exp.Literal.string(words + (" " if words[-1:] in ":?!." else ": ")).sql(CallSQL)
        schema = """, '{"name": "string"}'""" if spec.name == "llm_json" else ""
        return f"{spec.name}({asked} || {self._text(value)}{schema})"

    def _text(self, node: exp.Expr) -> str:
        """A part of the statement as it was written, on one line, at most 60 characters."""
        span = span_of(self.statement, node)
        text = " ".join((self.statement.source[span.start : span.end] if span else node.sql(CallSQL)).split())
        return text if len(text) <= 60 else text[:57] + "..."

    def _aggregate(
        self, node: exp.Anonymous, spec: FunctionSpec, call_spec: CallSpec, values: list[tuple[exp.Expr, str]]
    ) -> None:
        """``llm_agg(i, t ORDER BY k) FILTER (WHERE p)`` is a call over ``string_agg(t, separator ORDER BY k) FILTER (WHERE p)``."""
        instruction, text = values[0][0], values[1][0]
        order = text if isinstance(text, exp.Order) else None
        inner = order.this if order is not None else text
        distinct = isinstance(inner, exp.Distinct)
        if distinct:
            inner = inner.expressions[0]
        item: exp.Expr = as_text(inner, "VARCHAR")
        if distinct:
            item = exp.Distinct(expressions=[item])
        separator = exp.Literal.string(AGGREGATE_SEPARATOR)
        joined: exp.Expr = exp.AnonymousAggFunc(this="string_agg", expressions=[item, separator])
        if order is not None:
            joined = exp.AnonymousAggFunc(
                this="string_agg", expressions=[item, exp.Order(this=separator, expressions=order.expressions)]
            )
        target: exp.Expr = node
        if isinstance(node.parent, exp.Filter) and node.parent.this is node:
            target = node.parent
            joined = exp.Filter(this=joined, expression=copied(node.parent.expression))
        arguments = [as_text(instruction, "VARCHAR"), joined]
        site = self._site(node, spec, call_spec, arguments)
        target.replace(new_call(site, arguments, spec.answer.carrier))

    def _table(self, place: exp.Expr, spec: FunctionSpec, call: Call, limit: exp.Expr | None) -> None:
        """A table function is its list of rows, unnested."""
        assert spec.table is not None
        rows = _typed(call, spec.answer)
        if limit is not None:
            rows = exp.Anonymous(this="list_slice", expressions=[rows, exp.Literal.number(1), limit])
        if len(spec.table) == 1 and spec.answer.sql.upper().endswith("VARCHAR[]"):
            items: exp.Expr = exp.alias_(exp.Anonymous(this="unnest", expressions=[rows]), spec.table[0].name)
        else:
            depth = exp.PropertyEQ(this=exp.to_identifier("max_depth"), expression=exp.Literal.number(2))
            items = exp.Anonymous(this="unnest", expressions=[rows, depth])
        query = exp.Select(expressions=[items])
        alias = place.args.get("alias") or exp.TableAlias(this=exp.to_identifier(spec.name))
        subquery = exp.Subquery(this=query)
        if isinstance(place, exp.Lateral):
            place.replace(exp.Lateral(this=subquery, alias=copied(alias)))
        else:
            subquery.set("alias", copied(alias))
            place.replace(subquery)

    def _site(self, node: exp.Anonymous, spec: FunctionSpec, call_spec: CallSpec, arguments: list[exp.Expr]) -> int:
        key: tuple[object, ...] = (call_spec, tuple(map(shape, arguments)))
        if spec.volatility is Volatility.VOLATILE:
            key = (*key, len(self.sites))
        if key in self._known:
            return self._known[key]
        number = len(self.sites) + 1
        depends = frozenset(c.site for a in arguments for c in calls_in(a))
        self.sites.append(
            Site(
                number=number,
                spec=call_spec,
                volatility=spec.volatility,
                label=_label(node, self.statement),
                arity=len(arguments),
                depends=depends,
                span=span_of(self.statement, node),
                cascade=described(spec) if ORACLE in node.meta else None,
                asks=asked_text(call_spec, arguments),
            )
        )
        self._known[key] = number
        return number

    def _renumber(self, root: exp.Expr) -> None:
        """Number sites by their first appearance in the text, so that EXPLAIN and traces read in the order of the statement."""
        order: dict[int, int] = {}
        calls = [n for n in nodes(root) if isinstance(n, Call)]
        for call in calls:
            order.setdefault(call.site, len(order) + 1)
        for call in calls:
            call.set("this", order[call.site])
        renamed = [
            attrs.evolve(s, number=order[s.number], depends=frozenset(order[d] for d in s.depends))
            for s in self.sites
            if s.number in order
        ]
        self.sites = sorted(renamed, key=lambda s: s.number)

    def _error(self, node: exp.Expr, message: str, hint: str) -> PlanError:
        return PlanError(message, hint=hint, span=span_of(self.statement, node), source=self.statement.source)


def call_spec(
    spec: FunctionSpec,
    settings: Settings,
    *,
    answer: AnswerType | None = None,
    alias: str | None = None,
    effort: str | None = None,
) -> CallSpec:
    """The call that a function makes, its options as they are now; ``answer``, ``alias`` and ``effort`` are those of one call."""
    assert spec.template is not None
    return CallSpec(
        function=spec.name,
        template=spec.template,
        answer=answer or spec.answer,
        alias=alias or spec.model or settings.model_default,
        effort=effort or spec.effort or settings.effort,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        batch=spec.batch if spec.batch != 1 else settings.batch,
    ).as_asked()


def as_text(value: exp.Expr, declared: str) -> exp.Expr:
    """The argument as its declared type, then as text: keys are the same in every run and for every input type."""
    value = copied(value)
    if declared.upper() not in ("VARCHAR", "TEXT", "STRING"):
        value = exp.Cast(this=value, to=exp.DataType.build(declared, dialect=CallSQL))
    if isinstance(value, exp.Literal) and value.is_string:
        return value
    return exp.Cast(this=value, to=carrier_kind("VARCHAR"))


def _typed(call: exp.Expr, answer: AnswerType) -> exp.Expr:
    """The call cast from its carrier to the function's type."""
    if answer.kind in ("text", "bool", "double", "score"):
        wanted = {
            "text": ("VARCHAR", "TEXT", "STRING"),
            "bool": ("BOOLEAN", "BOOL"),
            "double": ("DOUBLE",),
            "score": ("DOUBLE",),
        }
        if answer.sql.upper() in wanted[answer.kind]:
            return call
    if answer.kind == "bigint" and answer.sql.upper() in ("BIGINT", "LONG", "INT8"):
        return call
    kind = exp.DataType.build(answer.sql, dialect=CallSQL)
    nested = kind.is_type(exp.DType.STRUCT, exp.DType.LIST, exp.DType.ARRAY, exp.DType.MAP) or answer.kind == "list"
    if nested:
        call = exp.Cast(this=call, to=exp.DataType.build("JSON", dialect=CallSQL))
    return exp.Cast(this=call, to=kind)


def _name_outputs(found: list[exp.Anonymous]) -> None:
    """Alias every unaliased output column that holds a call, in its own block and in those around it, with the name the user would
    expect: a bare call is named by its function, anything else by its text."""
    for node in found:
        item: exp.Expr | None = node
        while item is not None:
            if (
                isinstance(item.parent, exp.Select)
                and item.arg_key == "expressions"
                and not isinstance(item, exp.Alias | exp.Star)
                and not isinstance(item.this, exp.Star)
                and not spreads(item)  # each has its column's name
            ):
                name = node.name.lower() if item is node else item.sql(CallSQL, normalize_functions=False)
                alias = exp.Alias(alias=exp.to_identifier(name, quoted=True))
                item.replace(alias)
                alias.set("this", item)
            item = item.parent


def _label(node: exp.Expr, statement: Statement) -> str:
    """The call as the user wrote it, or as the body of a function or view has it, on one line, at most 60 characters; a proxy's names the call that it answers for."""
    span = span_of(statement, node) if node.meta_get("start") is not None else None
    written = node.sql(CallSQL, normalize_functions=False) if node.meta_get("elsewhere") else node.name
    text = statement.source[span.start : span.end] if span else written
    text = " ".join(text.split())
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{node.name} for {text}" if PROXY in node.meta else text


# -- what forbids a lookup -------------------------------------------------------------------------------------------------------------


def unfenced(plan: CallPlan) -> CallPlan:
    """The plan as if nothing around its calls changed from run to run."""
    return _fence(attrs.evolve(plan, sites=tuple(attrs.evolve(s, demand=None) for s in plan.sites)), None)


def _fence(plan: CallPlan, changing: str | None) -> CallPlan:
    """Mark the sites whose calls are made inside DuckDB's run, with the reason."""
    reasons: dict[int, str] = {}
    for site in plan.sites:
        if site.volatility is Volatility.VOLATILE:
            reasons[site.number] = "volatile function"
        elif changing:
            reasons[site.number] = changing
    for term in _recursive_terms(plan.tree):
        for call in all_in(term, Call):
            reasons.setdefault(call.site, "recursive term")
    if not reasons:
        return plan
    # What a site on demand depends on must be answered in the same run.
    todo = list(reasons)
    while todo:
        for number in plan.site(todo.pop()).depends:
            if number not in reasons:
                reasons[number] = "inside an argument of a call on demand"
                todo.append(number)
    return attrs.evolve(plan, sites=tuple(attrs.evolve(s, demand=reasons.get(s.number)) for s in plan.sites))


def changes_between_runs(tree: exp.Expr) -> str | None:
    """Something random could reach a call's argument or decide which rows reach it; harmless in the outermost select list."""
    outermost: Iterable[exp.Expr] = ()
    if isinstance(tree, exp.Select) and not tree.args.get("distinct"):
        outermost = [e for e in tree.expressions if not has_call(e)]
    harmless = {id(n) for e in outermost for n in nodes(e)}
    for node in nodes(tree):
        if is_volatile(node) and (id(node) not in harmless or has_effect(node)):
            name = node.sql(CallSQL) if not isinstance(node, exp.TableSample) else "a sample"
            return f"{name.lower()} changes from run to run"
    return None


def _recursive_terms(tree: exp.Expr) -> list[exp.Expr]:
    terms = []
    for with_ in [n for n in nodes(tree) if isinstance(n, exp.With)]:
        if not with_.args.get("recursive"):
            continue
        for cte in with_.expressions:
            name = cte.alias.lower()
            body = cte.this
            refers = any(t.name.lower() == name for t in all_in(body, exp.Table))
            if refers and isinstance(body, exp.SetOperation):
                terms.append(body.expression)
    return terms


def _refuse_where_no_call_can_be(tree: exp.Expr, statement: Statement, span: Span | None) -> None:
    def refuse(what: str, hint: str) -> PlanError:
        where = span or statement.span
        return PlanError(f"a call cannot stand in {what}", hint=hint, span=where, source=statement.source)

    if isinstance(tree, exp.Create):
        kind = str(tree.args.get("kind") or "").upper()
        if kind == "INDEX":
            raise refuse("an index", "store the answers in a column: CREATE TABLE ... AS SELECT *, llm(...) AS answer")
        schema = tree.this
        if kind == "TABLE" and isinstance(schema, exp.Schema) and has_call(schema):
            raise refuse("a DEFAULT, CHECK or generated column", "fill the column with INSERT ... SELECT llm(...)")
    if isinstance(tree, exp.Alter):
        raise refuse("ALTER TABLE", "add the column, then UPDATE ... SET column = llm(...)")
