"""CallSQL text to statements, each with its exact place in the text; and the specs that CREATE FUNCTION and CREATE AGENT declare."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, cast

import attrs
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from kleene.planner import nodes
from kleene.planner.calls import all_in
from kleene.planner.calls import nodes as tree_nodes
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import ParseError, PlanError, did_you_mean
from kleene.planner.foreign import form_in_duckdb
from kleene.planner.grammar import BUDGET_WORDS, FORMS, OwnGrammar, readable_reason
from kleene.planner.settings import EFFORTS
from kleene.planner.specs import AgentSpec, AnswerType, BudgetLimits, FunctionSpec, Param, Span, Template, Volatility

RESERVED_AGENTS = ("self", "root")
# what a statement may be; sqlglot also reads bare expressions ("reset threads" as a column with an alias) and opaque commands
_STATEMENTS: tuple[type[exp.Expr], ...] = (
    nodes.OwnStatement,
    exp.Query,
    exp.Values,
    exp.Pivot,
    exp.DML,
    exp.Create,
    exp.Drop,
    exp.Alter,
    exp.Merge,
    exp.Set,
    exp.Use,
    exp.Attach,
    exp.Detach,
    exp.Copy,
    exp.Describe,
    exp.Summarize,
    exp.Pragma,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Show,
    exp.Comment,
    exp.Install,
    exp.TruncateTable,
    exp.Analyze,
)
# how statements start that only CallSQL has
_OWN_START = re.compile(
    r"(final|calibrate)\b|create\s+(or\s+replace\s+)?(agent\b|function\b(?=[^']*\breturns\b))", re.IGNORECASE
)
_QUERY_STARTS = frozenset([TokenType.SELECT, TokenType.FROM, TokenType.WITH])
# Several statements, parameters, arrow lambdas (``has_own``)
_NOT_PLAIN = frozenset(
    [
        TokenType.SEMICOLON,
        TokenType.PARAMETER,
        TokenType.PLACEHOLDER,
        TokenType.ARROW,
        TokenType.DARROW,
        TokenType.COLON,
    ]
)
_NO_WORDS = frozenset([TokenType.STRING, TokenType.NUMBER])
# Writes behind a WITH, and what DuckDB does not know (``has_own``)
_NOT_PLAIN_WORDS = frozenset(
    ["insert", "update", "delete", "merge", "into", "maxrecursion", "call", "final", "pivot", "unpivot"]
)


@attrs.frozen
class Statement:
    """One statement of a text.

    ``source`` the whole text; ``text`` its exact slice, without the semicolon and the blanks and comments around it; ``span`` where.
    ``tree`` None means that the text cannot be read here and ``unreadable`` says why: DuckDB may still be able to. ``has_own``: the tree
    is, or holds, something DuckDB does not know (an own statement, MAXRECURSION, a lambda with an arrow). ``malformed``: it begins as an own statement and is
    none, so that DuckDB could say nothing better about it than ``unreadable``.
    """

    source: str
    text: str
    span: Span
    tree: exp.Expr | None = attrs.field(eq=False)
    unreadable: ParseError | None = attrs.field(default=None, eq=False)
    has_own: bool = False
    malformed: bool = False


def parse(source: str) -> tuple[Statement, ...]:
    """Split a text at its semicolons and read each statement; empty and comment-only pieces are dropped.

    A malformed own statement raises ``ParseError`` with its place in ``source`` and the right form, so that nothing of the text runs. Text
    that sqlglot cannot read, or would read with another meaning than DuckDB, gives a statement without a tree.
    """
    statements = read(source)
    for statement in statements:
        if statement.malformed and statement.unreadable is not None:
            raise statement.unreadable
    return statements


@attrs.frozen
class Words:
    """One query that its tokens alone show to be DuckDB's: nothing in it bears the name of a function of ours, nor of anything that DuckDB could
    not be given as it is. ``names`` are all words of it, among them those of its tables."""

    statement: Statement
    names: frozenset[str]


def plain_query(source: str, knows: Callable[[str], bool]) -> Words | None:
    """The text as one query without calls, where its words prove it; None where it has to be read. ``knows`` tells a function's name.

    A tenth of the price of reading. What this says of a text is what ``read`` and ``resolve`` would say: a call needs the function's name as a
    word of its own, quoted or not.
    """
    tokens, whole = CallSQL().scan(source)
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not whole or not tokens or tokens[0].token_type not in _QUERY_STARTS:
        return None
    names = set()
    for token in tokens:
        kind = token.token_type
        if kind in _NOT_PLAIN:
            return None
        if kind not in _NO_WORDS:
            names.add(token.text)
    if any(name.lower() in _NOT_PLAIN_WORDS or knows(name) for name in names):
        return None
    start, end = tokens[0].start, tokens[-1].end + 1
    statement = Statement(source, source[start:end], Span.at(source, start, end), None)
    return Words(statement, frozenset(names))


def read(source: str) -> tuple[Statement, ...]:
    """``parse`` for statements that are run one by one: a malformed own statement is one without a tree, and those before it can run."""
    dialect = CallSQL()
    tokens, whole = dialect.scan(source)
    if whole:
        return tuple(_read(dialect, source, piece) for piece in _pieces(tokens))
    last = max((i for i, t in enumerate(tokens) if t.token_type == TokenType.SEMICOLON), default=-1)
    read = tuple(_read(dialect, source, piece) for piece in _pieces(tokens[: last + 1]))
    return (*read, _unended(source, tokens[last].end + 1 if last >= 0 else 0))


def _pieces(tokens: list[Token]) -> list[list[Token]]:
    pieces: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [p for p in pieces if p]


def _read(dialect: CallSQL, source: str, tokens: list[Token]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    span, text = Span.at(source, start, end), source[start:end]
    parser = cast(OwnGrammar, dialect.parser(error_level=ErrorLevel.IMMEDIATE))
    try:
        trees = parser.parse(tokens, source)
    except SqlglotError as error:
        at = Span.at(source, *parser.failed_at) if parser.failed_at != (0, 0) else span
        details = getattr(error, "errors", None)
        reason = (
            readable_reason(str(details[0].get("description")), source[at.start : at.end]) if details else str(error)
        )
        return _unreadable(source, text, span, at, reason)
    except ParseError as error:  # an own statement's
        error.span, error.source = error.span or span, source
        return Statement(source, text, span, None, error, malformed=True)
    except RecursionError:
        return _unreadable(source, text, span, span, "it is nested too deeply")
    except LookupError:  # sqlglot reads past the end of SHOW ALL
        return _unreadable(source, text, span, span, "it ends too early")
    tree = trees[0] if len(trees) == 1 else None
    if tree is None or not _is_statement(tree):
        return _unreadable(source, text, span, span, "it is no statement")
    return Statement(source, text, span, tree, has_own=has_own(tree))


def _is_statement(tree: exp.Expr | None) -> bool:
    if isinstance(tree, (nodes.Explain, nodes.Prepare)):
        return _is_statement(tree.this if isinstance(tree, nodes.Explain) else tree.expression)
    if isinstance(tree, exp.Create) and isinstance(tree.expression, exp.Command):
        return False
    return isinstance(tree, _STATEMENTS)


def _unreadable(source: str, text: str, span: Span, at: Span, reason: str) -> Statement:
    hint = form_in_duckdb(text) or "Kleene plans only what it can read; write this part in another way."
    error = ParseError(f"this statement cannot be read: {reason}", hint=hint, span=at, source=source)
    own = _OWN_START.match(text)
    if own:
        # DuckDB could say nothing better about a statement that is ours alone
        error.hint = FORMS[own.group().split()[-1].lower()]
    return Statement(source, text, span, None, error, malformed=own is not None)


def _unended(source: str, at: int) -> Statement:
    """The rest of a text in which a string, quoted name or comment does not end."""
    rest = source[at:]
    start = at + len(rest) - len(rest.lstrip("\ufeff \t\r\n"))
    span = Span.at(source, start, len(source.rstrip()))
    text = source[start : span.end]
    return _unreadable(source, text, span, span, "a string, quoted name or comment does not end")


def has_own(tree: exp.Expr) -> bool:
    """Whether DuckDB cannot be given this tree as it is: it holds an own statement, a MAXRECURSION clause or an arrow lambda."""
    return any(
        isinstance(n, nodes.OwnStatement) or (n._meta and ("maxrecursion" in n._meta or "arrow" in n._meta))
        for n in tree_nodes(tree)
    )


def max_recursion(cte: exp.CTE) -> int | None:
    """The rounds that MAXRECURSION allows a recursive CTE, or None."""
    rounds = cte.meta_get("maxrecursion")
    return rounds if isinstance(rounds, int) else None


def with_tree(statement: Statement, tree: exp.Expr) -> Statement:
    """The statement with another tree, its text as it is."""
    return attrs.evolve(statement, tree=tree)


def span_of(statement: Statement, node: exp.Expr) -> Span | None:
    """Where a node of the statement's tree stands in its source, from its first to its last placed part; None where no part has a place
    (a node that a rewrite made)."""
    starts: list[int] = []
    ends: list[int] = []
    for part in tree_nodes(node):
        if not part._meta:
            continue
        start, end = part.meta_get("start"), part.meta_get("end")
        if isinstance(start, int) and isinstance(end, int):
            starts.append(start)
            ends.append(max(end, int(part.meta_get("close") or 0)) + 1)
    return Span.at(statement.source, min(starts), max(ends)) if starts else None


def number_placeholders(tree: exp.Expr) -> int:
    """Name the ``?`` of a tree ``$1``, ``$2``, ... in the order of the text, in place; returns how many there are.

    After this a parameter may be copied or moved. Raises ``ParseError`` where ``?`` stands beside numbered or named parameters.
    """
    found = all_in(tree, exp.Placeholder)
    bare = [p for p in found if p.this is None]
    if bare and len(bare) < len(found):
        raise ParseError("? cannot stand beside $ parameters", hint="Number all of them: $1, $2, ...")
    bare.sort(key=lambda p: int(p.meta.get("start") or 0))
    for number, placeholder in enumerate(bare, start=1):
        placeholder.set("this", str(number))
    return len(bare)


def fill_parameters(tree: exp.Expr, arguments: list[exp.Expr], statement: Statement) -> exp.Expr:
    """The tree of a prepared statement with the arguments of its EXECUTE in place of its parameters. Raises ``PlanError`` where one is
    missing or left over."""
    filled = exp.Tuple(expressions=[tree.copy()])
    number_placeholders(filled)
    given: dict[str, exp.Expr] = {}
    for position, argument in enumerate(arguments, start=1):
        named = isinstance(argument, exp.PropertyEQ)
        given[argument.this.name.lower() if named else str(position)] = argument.expression if named else argument
    used = set()
    for placeholder in all_in(filled, exp.Placeholder):
        name = str(placeholder.this).lower()
        if name not in given:
            raise PlanError(f"EXECUTE gives no value for ${name}", span=statement.span, source=statement.source)
        used.add(name)
        placeholder.replace(given[name].copy())
    if left := sorted(given.keys() - used):
        raise PlanError(
            f"the prepared statement has no parameter ${left[0]}", span=statement.span, source=statement.source
        )
    result: exp.Expr = filled.expressions[0]
    result.pop()
    return result


def final_query(tree: nodes.Final) -> exp.Expr:
    """The query whose rows are the answer: a value is a row of one column, named ``answer`` where it has no name."""
    query: exp.Expr | None = tree.args.get("query")
    if query is None:
        value = tree.this.copy()
        named = isinstance(value, exp.Alias | exp.Column | exp.Star)
        return exp.Select(expressions=[value if named else exp.alias_(value, "answer")])
    query = query.copy()
    while isinstance(query, exp.Subquery) and not query.alias:
        query = query.this
    return query


def setting_value(node: nodes.SetKey) -> str | None:
    """The text of the value of ``SET key = value``; None for NULL."""
    value = node.expression
    return None if isinstance(value, exp.Null) else value.name


# -- specs


def function_spec(node: nodes.CreateFunction, statement: Statement | None = None) -> FunctionSpec:
    """What a CREATE FUNCTION declares. Raises ``ParseError`` where it has no meaning; with ``statement`` the error has its place.

    ``answer.schema`` is None: the schema of ``json`` and ``typed`` answers is derived elsewhere. A table-valued function's answer is
    ``typed`` with ``sql`` the list of its rows.
    """
    args = node.args
    params = tuple(_param(p) for p in args.get("params") or ())
    _check_names(params, "argument", "function", statement, args.get("params") or ())
    table = tuple(_param(c) for c in args.get("columns") or ()) or None
    _check_names(table or (), "column", "function", statement, args.get("columns") or ())
    answer = answer_type(_type_text(args["returns"])) if args.get("returns") else _table_answer(table or ())
    kind = str(args["kind"])
    body: exp.Expr = args["body"]
    template = _template(params, body, kind, statement) if kind != "SQL" else None
    thresholds = _thresholds(args, statement)
    if args.get("proxy") and answer.kind != "bool":
        _bad("function", f"PROXY needs RETURNS BOOLEAN, not {answer.sql}", statement, args["proxy"])
    volatility = args.get("volatility") or {"PROMPT": "IMMUTABLE", "SQL": "STABLE", "SHELL": "VOLATILE"}[kind]
    return FunctionSpec(
        name=node.this.name,
        params=params,
        answer=answer,
        body=kind.lower(),
        template=template,
        text=_body_text(body, kind),
        model=_text(args.get("model")),
        effort=_effort(args.get("effort"), "function", statement),
        batch=_batch(args.get("batch"), kind, statement),
        volatility=Volatility(volatility),
        proxy=_text(args.get("proxy")),
        thresholds=thresholds,
        via=_text(args.get("via")),
        via_negated=bool(args.get("via_negated")),
        table=table,
    )


def agent_spec(node: nodes.CreateAgent, statement: Statement | None = None) -> AgentSpec:
    """What a CREATE AGENT declares. Raises ``ParseError`` for a reserved name, an unknown effort and numbers below zero."""
    args = node.args
    name = node.this.name
    if name.casefold() in RESERVED_AGENTS:
        _bad("agent", f"the name {name} is taken", statement, node.this)
    limits = {b.name: _limit(b.name, b.expression, statement) for b in args.get("budget") or ()}
    turns = args.get("turns")
    tools = args.get("tools")
    return AgentSpec(
        name=name,
        model=_text(args.get("model")) or "worker",
        effort=_effort(args.get("effort"), "agent", statement),
        tools=tuple(t.name for t in tools) if tools else () if args.get("no_tools") else None,
        budget=BudgetLimits(**limits) if limits else None,  # type: ignore[arg-type]
        turns=int(_limit("turns", turns, statement)) if turns is not None else None,
        prompt=_text(args.get("prompt")) or "",
        tables=tuple(t.name for t in args.get("tables") or ()),
        returns=_columns(args.get("returns"), statement),
    )


def _columns(declared: list[exp.Expr] | None, statement: Statement | None) -> tuple[Param, ...] | None:
    """The columns of a typed agent. A child's row has ``detail`` and ``session`` besides them."""
    if not declared:
        return None
    columns = tuple(_param(c) for c in declared)
    _check_names(columns, "column", "agent", statement, declared)
    for column, node in zip(columns, declared, strict=True):
        if column.name.casefold() in ("detail", "session"):
            _bad("agent", f"a child's row has a column {column.name} already", statement, node)
    return columns


def answer_type(declared: str) -> AnswerType:
    """How the reply of a call that returns this DuckDB type is read.

    >>> answer_type("INTEGER"), answer_type("VARCHAR[]").kind
    (AnswerType(kind='bigint', sql='INTEGER', schema=None), 'typed')
    """
    word = re.sub(r"\(.*\)$", "", declared.strip()).strip().upper()
    return AnswerType(_KINDS.get(word, "typed"), declared)


_KINDS = {
    **dict.fromkeys(("BOOLEAN", "BOOL", "LOGICAL"), "bool"),
    **dict.fromkeys(
        ("TINYINT", "INT1", "SMALLINT", "INT2", "INT16", "SHORT", "INTEGER", "INT", "INT4", "INT32", "SIGNED"), "bigint"
    ),
    **dict.fromkeys(
        ("BIGINT", "INT8", "INT64", "LONG", "UTINYINT", "UINT8", "USMALLINT", "UINT16", "UINTEGER", "UINT32"), "bigint"
    ),
    **dict.fromkeys(("DOUBLE", "FLOAT8", "FLOAT", "FLOAT4", "REAL", "DOUBLE PRECISION"), "double"),
    **dict.fromkeys(("VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR", "NVARCHAR"), "text"),
    "JSON": "json",
}


def template_of(text: str, names: tuple[str, ...]) -> Template:
    """The template of a prompt: ``{name}`` is a hole where name is one of ``names`` in any case, ``{{`` and ``}}`` are literal braces,
    other braces are text.

    Raises ``ParseError`` naming an unknown identifier in braces, and each of ``names`` that no hole uses.

    >>> template_of("Is {A} in {{b}} or {1}?", ("a",)).parts
    ('Is ', 0, ' in {b} or {1}?')
    """
    index = {n.casefold(): i for i, n in enumerate(names)}
    parts: list[str | int] = []
    literal, at = "", 0
    for match in re.finditer(r"\{\{|\}\}|\{\s*([^\W\d]\w*)\s*\}", text):
        literal += text[at : match.start()]
        at = match.end()
        name = match.group(1)
        if name is None:
            literal += match.group()[0]
            continue
        if name.casefold() not in index:
            near = did_you_mean(name, names)
            hint = f"Did you mean {{{near}}}?" if near else f"Write {{{{{name}}}}} for the text {{{name}}}."
            raise ParseError(f"{{{name}}} is no argument of the function", hint=hint)
        parts += [literal] if literal else []
        parts.append(index[name.casefold()])
        literal = ""
    literal += text[at:]
    parts += [literal] if literal else []
    unused = [n for i, n in enumerate(names) if i not in parts]
    if unused:
        raise ParseError(
            f"the argument {unused[0]} is not used",
            hint=f"Put {{{unused[0]}}} where its value belongs, or drop the argument.",
        )
    return Template(tuple(parts))


def _template(params: tuple[Param, ...], body: exp.Expr, kind: str, statement: Statement | None) -> Template:
    what = "prompt" if kind == "PROMPT" else "command"
    if not body.name.strip():
        _bad("function", f"the {what} is empty", statement, body)
    try:
        return template_of(body.name, tuple(p.name for p in params))
    except ParseError as error:
        span, source = _place(statement, body)
        raise ParseError(error.message, hint=error.hint, span=span, source=source) from None


def _param(column: exp.Expr) -> Param:
    return Param(column.name, _type_text(column.args["kind"]))


def _type_text(kind: exp.Expr) -> str:
    return kind.sql(CallSQL)


def _table_answer(columns: tuple[Param, ...]) -> AnswerType:
    fields = ", ".join(f"{_quoted(c.name)} {c.type}" for c in columns)
    return AnswerType("typed", f"STRUCT({fields})[]")


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(CallSQL)


def _text(node: exp.Expr | None) -> str | None:
    return None if node is None else node.name


def _body_text(body: exp.Expr, kind: str) -> str:
    return body.name if kind != "SQL" else str(body.meta.get("text") or body.sql(CallSQL))


def _effort(node: exp.Expr | None, form: str, statement: Statement | None) -> str | None:
    if node is None:
        return None
    if node.name.casefold() not in EFFORTS:
        _bad(form, f"unknown effort {node.name}, expected one of {', '.join(EFFORTS)}", statement, node)
    return node.name.casefold()


def _batch(node: exp.Expr | None, kind: str, statement: Statement | None) -> int | str:
    if node is None:
        return 1
    if kind != "PROMPT":
        _bad("function", f"BATCH is for PROMPT functions, not {kind}", statement, node)
    if isinstance(node, exp.Var):
        return "auto"
    if not node.name.isdigit() or int(node.name) < 1:
        _bad("function", f"BATCH must be a whole number of at least 1, not {node.name}", statement, node)
    return int(node.name)


def _thresholds(args: dict[str, exp.Expr], statement: Statement | None) -> tuple[float, float] | None:
    low, high = args.get("low"), args.get("high")
    if low is None or high is None:
        return None
    bounds = float(low.name), float(high.name)
    if not 0 <= bounds[0] <= bounds[1] <= 1:
        _bad("function", f"THRESHOLDS must be 0 <= low <= high <= 1, not ({low.name}, {high.name})", statement, low)
    return bounds


def _limit(word: str, node: exp.Expr, statement: Statement | None) -> int | float:
    value = float(node.name)
    least = 1 if word == "turns" else 0
    if value < least or (word not in ("dollars", "wall") and not value.is_integer()):
        kind = "a number" if word in ("dollars", "wall") else "a whole number"
        _bad("agent", f"{word} must be {kind} of at least {least}, not {node.name}", statement, node)
    return value if word in ("dollars", "wall") else int(value)


def _check_names(
    params: tuple[Param, ...], what: str, form: str, statement: Statement | None, columns: list[exp.Expr] | tuple[()]
) -> None:
    seen: set[str] = set()
    for param, node in zip(params, columns, strict=False):
        if param.name.casefold() in seen:
            _bad(form, f"the {what} {param.name} is declared twice", statement, node)
        seen.add(param.name.casefold())


def _place(statement: Statement | None, node: exp.Expr) -> tuple[Span | None, str | None]:
    if statement is None:
        return None, None
    return span_of(statement, node) or statement.span, statement.source


def _bad(form: str, message: str, statement: Statement | None, node: exp.Expr) -> NoReturn:
    span, source = _place(statement, node)
    raise ParseError(message, hint=FORMS[form], span=span, source=source)


__all__ = [
    "BUDGET_WORDS",
    "Statement",
    "agent_spec",
    "answer_type",
    "final_query",
    "function_spec",
    "has_own",
    "max_recursion",
    "number_placeholders",
    "parse",
    "read",
    "setting_value",
    "span_of",
    "template_of",
    "with_tree",
]
