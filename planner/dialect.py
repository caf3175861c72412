"""CallSQL as a sqlglot dialect: DuckDB's, read by name and printed back faithfully, with Kleene's own statements.

    sqlglot.parse(text, read=CallSQL)      tree.sql(CallSQL)

sqlglot's DuckDB dialect translates: it maps functions to classes of its own and prints another spelling. Here the text that is printed
must give the same rows, types and column names (which DuckDB takes from the text) as the text that was read. So:

- a function is its name: ``exp.Anonymous``, or ``exp.AnonymousAggFunc`` where DuckDB's function of that name is an aggregate, both with
  ``this`` (the name as written) and ``expressions``; only COUNT, SUM, AVG, COALESCE and COLUMNS keep their classes. ``function_name``
  gives the name of any of them;
- a named argument, ``a := 1`` or ``a => 1``, is ``exp.PropertyEQ(this=Identifier a, expression=1)``;
- types, numbers, units and operators are printed as they were written;
- strings in all forms (``'..'``, ``$$..$$``, ``E'..'``) are string ``exp.Literal``; ``x'1F'`` is ``exp.HexString``;
- comments are dropped; ``?`` is ``exp.Placeholder()``, ``$1`` and ``$name`` are ``exp.Placeholder(this="1" | "name")``;
- what sqlglot would read with another meaning than DuckDB is an error, so that the statement counts as unreadable.

Positions: ``meta["start"]``, ``meta["end"]`` (the last character, included) of identifiers, functions, literals and placeholders are
offsets in the text that was parsed; a function's ``meta["close"]`` is its closing parenthesis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.generator import Generator as BaseGenerator
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from kleene.planner.calls import all_in, nodes
from kleene.planner.grammar import OwnGrammar
from kleene.planner.nodes import PRINTERS, Caret, Positive, Power

_AGGREGATES = """
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null
    arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or bit_xor bitstring_agg bool_and bool_or combine_aggr corr count count_if
    count_star countif covar_pop covar_samp decimal_average entropy favg first fsum geomean geometric_mean group_concat histogram
    histogram_exact json_group_array json_group_object json_group_structure kahan_sum kurtosis kurtosis_pop last list listagg lttb mad max
    max_by mean median min min_by mode percentile_cont percentile_disc product quantile quantile_cont quantile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem skewness stddev stddev_pop stddev_samp
    string_agg sum sum_no_overflow sumkahan var_pop var_samp variance variant_group_object wavg weighted_avg
"""
AGGREGATES = frozenset(_AGGREGATES.split())
"""DuckDB's aggregates, and the macros and spellings that stand for one."""
_CLASSES: dict[str, type[exp.Func]] = {
    "COUNT": exp.Count,
    "SUM": exp.Sum,
    "AVG": exp.Avg,
    "COALESCE": exp.Coalesce,
    "COLUMNS": exp.Columns,
}
_UNIT_WORDS = """
    year years month months day days hour hours minute minutes second seconds week weeks quarter quarters millisecond milliseconds
    microsecond microseconds decade decades century centuries millennium millennia
"""
_UNITS = frozenset(_UNIT_WORDS.split())
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


_QUOTED = frozenset({*OwnGrammar.TEXT_TOKENS, TokenType.IDENTIFIER, TokenType.HEX_STRING, TokenType.NUMBER})
_UNREAD = frozenset({TokenType.NATIONAL_STRING, TokenType.UNICODE_STRING, TokenType.BIT_STRING, TokenType.INTRODUCER})
_AFTER_ARROW = frozenset(
    {
        *DuckDBParser.RANGE_PARSERS,
        *DuckDBParser.EQUALITY,
        *DuckDBParser.COMPARISON,
        *DuckDBParser.CONJUNCTION,
        *DuckDBParser.DISJUNCTION,
        *DuckDBParser.BITWISE,
        *(TokenType.DPIPE, TokenType.NOT, TokenType.COLLATE),
    }
)
_NO_KEYWORDS = frozenset({"CALL", "EXPLAIN", "PREPARE", "VACUUM", "OPTIMIZE", "RESET", "DIV", "XOR"})
_PLAIN_WORDS: tuple[type[exp.Func], ...] = (
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentUser,
    exp.CurrentRole,
    exp.CurrentCatalog,
    exp.SessionUser,
    exp.Localtime,
    exp.Localtimestamp,
)


def function_name(node: exp.Expr) -> str | None:
    """The DuckDB function that a node calls by name, in lower case; None where the node is no function call.

    >>> import sqlglot
    >>> function_name(sqlglot.parse_one("String_Agg(x, ',')", read=CallSQL))
    'string_agg'
    """
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return str(node.name).lower()
    if isinstance(node, exp.Func) and not isinstance(
        node, (exp.Cast, exp.Case, exp.If, exp.Binary, exp.Array, exp.Exists)
    ):
        return str(node.meta_get("text") or node.sql_name()).lower()
    return None


def spreads(node: exp.Expr) -> bool:
    """The node holds COLUMNS(..), which stands for columns of FROM that it does not name."""
    return any(function_name(n) == "columns" for n in nodes(node))


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node calls an aggregate (also when it stands in a window)."""
    return isinstance(node, exp.AggFunc)


def _string(parser: DuckDBParser, token: Token) -> exp.Expr:
    return exp.Literal.string(token.text).update_positions(token)


def _number(parser: DuckDBParser, token: Token) -> exp.Expr:
    return exp.Literal.number(parser.sql[token.start : token.end + 1] or token.text).update_positions(token)


def _escaped(parser: DuckDBParser, token: Token) -> exp.Expr:
    """``E'..'`` as the string it stands for."""
    raw = parser.sql[token.start : token.end + 1]
    value = unescape(raw[2:-1])
    if value is None:
        parser.raise_error("this escape string is not UTF-8, or holds a NUL", token)
        return exp.Null()
    return exp.Literal.string(value).update_positions(token)


def unescape(body: str) -> str | None:
    """The text that the inside of DuckDB's ``E'..'`` stands for, or None where DuckDB refuses it.

    >>> unescape(r"it''s \\x41\\n")
    "it's A\\n"
    """
    pattern = re.compile(r"''|\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})|\\(.)", re.DOTALL)
    out, at = bytearray(), 0
    for match in pattern.finditer(body):
        out += body[at : match.start()].encode("utf-8", "surrogatepass")
        at = match.end()
        hexa, octal, char = match.groups()
        if hexa or octal:
            out.append(int(hexa, 16) if hexa else int(octal, 8) & 0xFF)
        else:
            out += (_ESCAPES.get(char, char) if char else "'").encode("utf-8", "surrogatepass")
    out += body[at:].encode("utf-8", "surrogatepass")
    if 0 in out:
        return None
    try:
        return out.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _hex(parser: DuckDBParser, token: Token) -> exp.Expr:
    digits = parser.sql[token.start : token.end + 1]
    if digits[1:2] != "'" or len(digits) % 2 == 0:
        # 0x1F is 0 AS x1F in DuckDB; an odd number of digits is refused there
        parser.raise_error("this hexadecimal literal is not read as DuckDB reads it", token)
    return exp.HexString(this=digits[2:-1]).update_positions(token)


def _placeholder(parser: DuckDBParser) -> exp.Expr:
    return parser.expression(exp.Placeholder(), token=parser._prev)


def _parameter(parser: DuckDBParser) -> exp.Expr | None:
    if parser._prev.text != "$":
        # @x is the absolute value in DuckDB
        parser.raise_error(f"the operator {parser._prev.text} is not read", parser._prev)
    start = parser._prev
    read = cast(Callable[[DuckDBParser], exp.Expr | None], DuckDBParser.PLACEHOLDER_PARSERS[TokenType.PARAMETER])
    found = read(parser)
    if found is not None:
        found.update_positions(start)
        found.meta["close"] = parser._prev.end
    return found


def _arrow(parser: DuckDBParser, this: exp.Expr, path: exp.Expr) -> exp.Expr:
    if parser._curr and parser._curr.token_type in _AFTER_ARROW:
        # j -> 'a' = 1 is j -> ('a' = 1) there
        parser.raise_error("in DuckDB -> takes all that follows it: write (x -> path) in parentheses")
    return parser.expression(exp.JSONExtract(this=this, expression=path))


def _text_arrow(parser: DuckDBParser, this: exp.Expr, path: exp.Expr) -> exp.Expr:
    if parser._curr and parser._curr.token_type in (TokenType.AMP, TokenType.PIPE, *_shifts(parser)):
        parser.raise_error("write (x ->> path) in parentheses before this operator")
    return parser.expression(exp.JSONExtractScalar(this=this, expression=path))


def _shifts(parser: DuckDBParser) -> tuple[TokenType, ...]:
    """``<`` or ``>``, where the next two tokens are a shift."""
    kind = parser._curr.token_type
    return (kind,) if kind in (TokenType.LT, TokenType.GT) and parser._next.token_type == kind else ()


def _aggregate(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


def _named(parser: DuckDBParser, argument: exp.Expr) -> exp.Expr:
    """``a := 1`` and ``a => 1`` in one shape; other arguments as they are."""
    if isinstance(argument, (exp.Kwarg, exp.PropertyEQ)):
        name = argument.this
        if isinstance(name, exp.Column) and not name.table:
            name = name.this
        elif not isinstance(name, exp.Identifier):
            name = exp.to_identifier(name.name)
        return exp.PropertyEQ(this=name, expression=argument.expression)
    return argument


SCHEMAS = frozenset(["main", "temp", "system", "memory", "pg_catalog", "information_schema"])


def _is_schema(name: exp.Identifier) -> bool:
    return name.name.lower() in SCHEMAS


TAKE_LAMBDAS = frozenset(
    [f"{kind}{name}" for kind in ("list_", "array_", "") for name in ("transform", "apply", "filter", "reduce")]
) - {"transform"}
"""DuckDB's functions that take a lambda."""


class _Parser(OwnGrammar):
    """DuckDB's parser without translation: see the module."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._calls: list[
            tuple[str, bool]
        ] = []  # functions whose arguments are being read, and whether each stands behind a dot

    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {"ARRAY": exp.Array}  # LIST[...] is a part of a column

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        **{name.upper(): _aggregate(name) for name in AGGREGATES},
        **{name: klass.from_arg_list for name, klass in _CLASSES.items()},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CAST": DuckDBParser.FUNCTION_PARSERS["CAST"],
        "TRY_CAST": DuckDBParser.FUNCTION_PARSERS["TRY_CAST"],
        "EXTRACT": lambda self: self._parse_extract(),
        "SUBSTRING": lambda self: self._parse_words("substring", {"FROM": 1, "FOR": 2}),
        "OVERLAY": lambda self: self._parse_words("overlay", {"PLACING": 1, "FROM": 2, "FOR": 3}),
        "TRIM": lambda self: self._parse_trim_words(),
        "POSITION": lambda self: self._parse_position_in(),
    }
    FUNCTIONS_WITH_ALIASED_ARGS: ClassVar[set[str]] = set()
    FUNC_TOKENS = DuckDBParser.FUNC_TOKENS | {TokenType.APPLY}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        k: v for k, v in DuckDBParser.NO_PAREN_FUNCTION_PARSERS.items() if k in ("ANY", "CASE", "MAP")
    }
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = {}
    JSON_OPERATORS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.ARROW: _arrow,
        TokenType.DARROW: _text_arrow,
    }
    # x -> y is no lambda any more in DuckDB 2: it is JSON's arrow, also as an argument
    LAMBDAS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        k: v for k, v in DuckDBParser.LAMBDAS.items() if k != TokenType.ARROW
    }
    EXPONENT: ClassVar[dict[TokenType, type[exp.Expr]]] = {TokenType.CARET: Caret, TokenType.DSTAR: Power}
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **DuckDBParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self.expression(Positive(this=self._parse_unary())),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **{k: v for k, v in DuckDBParser.PRIMARY_PARSERS.items() if k not in _UNREAD},
        TokenType.STRING: _string,
        TokenType.RAW_STRING: _string,
        TokenType.HEREDOC_STRING: _string,
        TokenType.BYTE_STRING: _escaped,
        TokenType.HEX_STRING: _hex,
        TokenType.NUMBER: _number,
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.PLACEHOLDER: _placeholder,
        TokenType.PARAMETER: _parameter,
    }

    def _parse_primary(self) -> exp.Expr | None:
        if self._match_pair(TokenType.DOT, TokenType.NUMBER):
            return exp.Literal.number(f".{self._prev.text}")
        if self._curr and self._curr.token_type == TokenType.STRING and self._next.token_type == TokenType.STRING:
            return self._parse_joined_strings()
        return super()._parse_primary()

    def _parse_joined_strings(self) -> exp.Expr:
        """Strings on following lines are one string; on one line DuckDB refuses them."""
        start, text, end = self._curr, "", self._curr.start
        while self._curr and self._curr.token_type == TokenType.STRING:
            if text and "\n" not in self.sql[end : self._curr.start]:
                self.raise_error("two strings side by side")
            text, end = text + self._curr.text, self._curr.end
            self._advance()
        literal = exp.Literal.string(text).update_positions(start)
        literal.meta["close"] = end
        return literal

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        """A column whose name is a type's, as ``text`` and ``date`` are, and a part of it: ``text[:80]`` is no array type where a value stands."""
        if (
            self._curr
            and self._next
            and self._next.token_type == TokenType.L_BRACKET
            and self._curr.token_type
            in self.TYPE_TOKENS - {TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT}  # which make values
            and not self._is_array_literal()
        ):
            return self._parse_column()
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _is_array_literal(self) -> bool:
        """Whether an array type stands here, and then a string of it: ``INTEGER[] '[1]'``."""
        kinds = [token.token_type for token in self._tokens[self._index + 1 :][:7]]
        while kinds[:1] == [TokenType.L_BRACKET]:
            end = 2 if kinds[1:2] == [TokenType.NUMBER] else 1
            if kinds[end : end + 1] != [TokenType.R_BRACKET]:
                return False
            kinds = kinds[end + 1 :]
        return kinds[:1] == [TokenType.STRING]

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        begin = self._index
        parsed = super()._parse_types(check_func, schema, allow_identifiers, with_collation)
        if isinstance(parsed, exp.DataType) and self._index > begin:
            parsed.meta["text"] = self._words_between(begin, self._index)
        return parsed

    def _words_between(self, begin: int, end: int) -> str:
        """The tokens as written, one blank where anything stood between two."""
        text, at = "", -1
        for token in self._tokens[begin:end]:
            gap = " " if text and token.start > at else ""
            text, at = text + gap + self.sql[token.start : token.end + 1], token.end + 1
        return text

    def _parse_ddl_select(self) -> exp.Expr | None:
        """The query of CREATE and INSERT: a PIVOT too, as the query over it that it is."""
        if not self._curr or self._curr.text.upper() not in ("PIVOT", "UNPIVOT"):
            return super()._parse_ddl_select()
        unpivot = self._curr.text.upper() == "UNPIVOT"
        self._advance()
        pivot = self._parse_simplified_pivot(is_unpivot=unpivot)
        return exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=pivot), copy=False)

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        return self._parse_arrow_lambda() or super()._parse_lambda(alias)

    def _parse_arrow_lambda(self) -> exp.Expr | None:
        """``x -> y`` and ``(x, i) -> y`` as the lambda that they were before DuckDB 2, where nothing else has a meaning: as an argument of
        ``list_transform`` and its kin, the list itself apart."""
        if not self._calls or self._calls[-1][0] not in TAKE_LAMBDAS:
            return None
        first = self._prev.token_type == TokenType.L_PAREN
        if first and not self._calls[-1][1]:
            return None
        index = self._index
        if self._match(TokenType.L_PAREN):
            names = self._parse_csv(self._parse_lambda_arg)
            closed = self._match(TokenType.R_PAREN)
        else:
            name = self._parse_lambda_arg()
            names, closed = [name] if name is not None else [], True
        if not closed or not names or not self._match(TokenType.ARROW):
            self._retreat(index)
            return None
        body = self._replace_lambda(self._parse_assignment(), names)
        found = self.expression(exp.Lambda(this=body, expressions=names))
        found.meta["arrow"] = True
        return found

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        return [_named(self, a) for a in super()._parse_function_args(alias)]

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        token = self._curr
        after_dot = self._index > 0 and self._tokens[self._index - 1].token_type == TokenType.DOT
        self._calls.append((token.text.lower() if token else "", after_dot))
        try:
            call = super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        finally:
            self._calls.pop()
        if isinstance(call, exp.Expr) and token:
            if type(call) in _PLAIN_WORDS:
                call.meta["text"] = token.text
            if "start" not in call.meta:
                call.update_positions(token)
            call.meta["close"] = self._prev.end
        return call

    def _parse_extract(self) -> exp.Extract:
        unit = self._parse_string() or self._parse_var(any_token=True)
        if not self._match(TokenType.FROM):
            self.raise_error("Expected FROM after the part to extract")
        extract = self.expression(exp.Extract(this=unit, expression=self._parse_assignment()))
        extract.meta["text"] = "date_part"
        return extract

    def _parse_words(self, name: str, words: dict[str, int]) -> exp.Expr:
        """A function whose arguments may be told apart by words, as in ``substring(s FROM 2 FOR 3)``."""
        arguments = self._parse_function_args(True)
        for word, index in words.items():
            if self._match_text_seq(word):
                if len(arguments) != index:
                    self.raise_error(f"Unexpected {word} in {name}")
                argument = self._parse_assignment()
                arguments += [argument] if argument else []
        return self.expression(exp.Anonymous(this=name, expressions=arguments))

    def _parse_trim_words(self) -> exp.Expr:
        side = self._prev.text.upper() if self._match_texts(("BOTH", "LEADING", "TRAILING")) else "BOTH"
        what = [] if self._match(TokenType.FROM, advance=False) else self._parse_csv(self._parse_assignment)
        if self._match(TokenType.FROM):
            what = [*self._parse_csv(self._parse_assignment), *what]
        name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side]
        return self.expression(exp.Anonymous(this=name, expressions=what))

    def _parse_position_in(self) -> exp.Expr:
        needle = self._parse_bitwise()
        if not self._match(TokenType.IN):
            self.raise_error("Expected IN in position(needle IN text)")
        found = self.expression(exp.StrPosition(this=self._parse_bitwise(), substr=needle))
        found.meta["text"] = "position"
        return found

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        parse_partition: bool = False,
        consume_pipe: bool = False,
    ) -> exp.Expr | None:
        if self._curr and self._curr.token_type == TokenType.SHOW:
            self.raise_error("SHOW inside a query is not read")
        return super()._parse_table(
            schema, joins, alias_tokens, parse_bracket, is_db_reference, parse_partition, consume_pipe
        )

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> exp.Interval | None:
        index = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        kind = self._curr.token_type if self._curr else None
        this = self._parse_primary() if kind in (TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN) else None
        unit = None
        if this and self._curr and self._curr.text.lower() in _UNITS and self._curr.token_type != TokenType.IDENTIFIER:
            unit = exp.var(self._curr.text)
            self._advance()
        if not this or not (unit or kind == TokenType.STRING):
            self._retreat(index)
            return None
        if self._match_text_seq("TO"):
            self.raise_error("DuckDB has no interval ranges")
        return self.expression(exp.Interval(this=this, unit=unit))

    def _parse_ordered(self, parse_method: Callable[[], exp.Expr | None] | None = None) -> exp.Ordered | None:
        ordered = super()._parse_ordered(parse_method)
        if ordered and [t.text.upper() for t in self._tokens[max(0, self._index - 2) : self._index]] == [
            "NULLS",
            "LAST",
        ]:
            ordered.meta["nulls_last"] = True
        return ordered

    def _parse_limit_options(self) -> exp.LimitOptions | None:
        options = super()._parse_limit_options()
        if options and options.args.get("with_ties"):
            self.raise_error("DuckDB has no WITH TIES")
        return options

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        negated = super()._negate_range(this)
        if isinstance(negated, exp.Not):
            negated.meta["infix"] = True
        return negated

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        found = super()._parse_is(this)
        if isinstance(found, exp.Not):
            found.meta["infix"] = True
        return found

    def _parse_column_ops(self, this: exp.Expr | None) -> exp.Expr | None:
        """``a.g()`` and ``f(a).g()`` are methods on values: their ``a`` is a column, which sqlglot makes an identifier, as in the path of
        a function. A single name before a function stays a path where it is a schema that every database has."""
        whole = this.copy() if isinstance(this, exp.Paren) and self._curr.token_type == TokenType.DOT else None
        parsed = super()._parse_column_ops(this)
        base = parsed
        while whole is not None and isinstance(base, exp.Expr) and not isinstance(base, exp.Paren):
            base = base.this
        if whole is not None and isinstance(base, exp.Paren) and base is not parsed:
            base.replace(whole)  # (a || b).g()
        if isinstance(this, exp.Column | exp.Func) and isinstance(parsed, exp.Dot):
            for name in all_in(parsed, exp.Identifier):
                around = name.parent
                if isinstance(around, exp.Dot) and isinstance(around.expression, exp.Func):
                    if name is around.this and not _is_schema(name):
                        name.replace(exp.Column(this=name.copy()))
                elif isinstance(around, exp.Dot) and isinstance(around.expression, exp.Identifier):
                    if name is around.this:
                        around.replace(exp.Column(this=around.expression.copy(), table=name.copy()))
                elif isinstance(around, exp.Func | exp.Paren | exp.Binary) and not isinstance(around, exp.Dot):
                    name.replace(exp.Column(this=name.copy()))
        return parsed

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        word = isinstance(this, exp.Column) and this.name.upper() == "ARRAY" and not this.this.args.get("quoted")
        bracket = super()._parse_bracket(this)
        if word and isinstance(bracket, exp.Array):
            bracket.meta["word"] = True
        return bracket

    def _parse_simplified_pivot(self, is_unpivot: bool | None = None) -> exp.Pivot:
        pivot = super()._parse_simplified_pivot(is_unpivot)
        if self._curr and self._curr.token_type in self.QUERY_MODIFIER_TOKENS:
            # PIVOT ... ORDER BY ...: sqlglot has no place for the modifiers, a query over the pivot has
            query = exp.select("*").from_(exp.Subquery(this=pivot), copy=False)
            return self._parse_query_modifiers(query)  # type: ignore[return-value]
        return pivot

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        if self._curr and self._curr.token_type == TokenType.L_BRACKET:
            return self.expression(exp.In(this=this, field=self._parse_unary()))
        return super()._parse_in(this, alias)


def _plain_binary(operator: str) -> Callable[[DuckDBGenerator, exp.Expr], str]:
    return lambda generator, node: generator.binary(cast(exp.Binary, node), operator)


def _json_arrow(operator: str) -> Callable[[DuckDBGenerator, exp.Expr], str]:
    """An arrow binds loosely, and sqlglot's idea of how loosely differs: inside any operator it stands in parentheses."""

    def sql(generator: DuckDBGenerator, node: exp.Expr) -> str:
        text = generator.binary(cast(exp.Binary, node), operator)
        loose = (exp.Binary, exp.Unary, exp.In, exp.Between, exp.Cast, exp.Bracket, exp.Dot)
        return f"({text})" if isinstance(node.parent, loose) and not isinstance(node.parent, exp.Paren) else text

    return sql


def _array(generator: DuckDBGenerator, node: exp.Expr) -> str:
    text = DuckDBGenerator.TRANSFORMS[exp.Array](generator, node)
    return f"ARRAY{text}" if node.meta.get("word") and text.startswith("[") else text


class _Generator(DuckDBGenerator):
    """Prints what was read: see the module."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **DuckDBGenerator.TRANSFORMS,
        **PRINTERS,
        **{klass: lambda _, e: str(e.meta.get("text") or e.sql_name()) for klass in _PLAIN_WORDS},
        exp.BitwiseAnd: _plain_binary("&"),
        exp.BitwiseOr: _plain_binary("|"),
        exp.BitwiseLeftShift: _plain_binary("<<"),
        exp.BitwiseRightShift: _plain_binary(">>"),
        exp.BitwiseNot: lambda self, e: f"~{self.sql(e, 'this')}",
        exp.JSONExtract: _json_arrow("->"),
        exp.JSONExtractScalar: _json_arrow("->>"),
        exp.HexString: lambda self, e: f"x'{e.name}'",
        exp.Extract: lambda self, e: f"EXTRACT({self.sql(e, 'this')} FROM {self.sql(e, 'expression')})",
        exp.StrPosition: lambda self, e: f"POSITION({self.sql(e, 'substr')} IN {self.sql(e, 'this')})",
        exp.WithinGroup: BaseGenerator.withingroup_sql,
        exp.IgnoreNulls: lambda self, e: f"{self.sql(e, 'this')} IGNORE NULLS",
        exp.RespectNulls: lambda self, e: f"{self.sql(e, 'this')} RESPECT NULLS",
        exp.StartsWith: _plain_binary("^@"),
        exp.Array: _array,
    }
    MULTI_ARG_DISTINCT = True

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        # DuckDB's own generator turns ", unnest(x)" into a join with a condition
        if expression.kind in ("MARK", "SINGLE") or expression.is_semi_or_anti_join:
            return super().join_sql(expression, join_op)
        return BaseGenerator.join_sql(self, expression, join_op)

    def datatype_sql(self, expression: exp.DataType) -> str:
        text = expression.meta.get("text")
        return str(text) if text else super().datatype_sql(expression)

    def interval_sql(self, expression: exp.Interval) -> str:
        unit = self.sql(expression, "unit")
        return f"INTERVAL {self.sql(expression, 'this')}" + (f" {unit}" if unit else "")

    def ordered_sql(self, expression: exp.Ordered) -> str:
        text = super().ordered_sql(expression)
        last = expression.meta.get("nulls_last") and not expression.args.get("nulls_first")
        return f"{text} NULLS LAST" if last else text

    def not_sql(self, expression: exp.Not) -> str:
        if expression.meta.get("infix"):
            inner = expression.this
            left, whole = self.sql(inner, "this"), self.sql(inner)
            if left and whole.startswith(f"{left} "):
                rest = whole[len(left) + 1 :]
                return f"{left} IS NOT {rest[3:]}" if rest.startswith("IS ") else f"{left} NOT {rest}"
        return super().not_sql(expression)


class CallSQL(DuckDB):
    """The dialect: ``read=CallSQL``, ``tree.sql(CallSQL)``."""

    NORMALIZE_FUNCTIONS = False
    NORMALIZE_NOT_NULL = False
    ORIGINAL_NAME_META_KEY = "text"

    class Tokenizer(DuckDB.Tokenizer):
        HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            k: v for k, v in DuckDB.Tokenizer.KEYWORDS.items() if k not in _NO_KEYWORDS
        }
        COMMANDS: ClassVar[set[TokenType]] = set()

    Parser = _Parser
    Generator = _Generator

    def tokenize(self, sql: str, dialect: Any = None) -> list[Token]:
        """The tokens of a text, without comments, each word as it was written. A byte order mark counts as a blank."""
        tokens, whole = self.scan(sql)
        if not whole:
            raise TokenError("a string, quoted name or comment does not end")
        return tokens

    def scan(self, sql: str) -> tuple[list[Token], bool]:
        """The tokens of a text up to where it cannot be read on, and whether that is its end."""
        if sql.startswith("\ufeff"):
            sql = " " + sql[1:]
        tokenizer = self.tokenizer()
        try:
            tokens, whole = tokenizer.tokenize(sql), True
        except TokenError:
            tokens, whole = tokenizer.tokens, False
        for token in tokens:
            token.comments = []
            if token.token_type not in _QUOTED:
                written = sql[token.start : token.end + 1]
                if written.upper() == token.text:
                    token.text = written
        return tokens, whole
