"""The grammar of CallSQL's own statements, as a mixin for sqlglot's DuckDB parser.

Each ``_own_*`` method starts at the statement's first word and either consumes the whole statement or raises ``ParseError`` with the
place and the right form. A statement that only looks like one of ours (a DuckDB macro, ``SET threads = 2``) is left to DuckDB's grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot import parser as sqlglot_parser
from sqlglot.errors import ParseError as SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from kleene.planner import nodes
from kleene.planner.errors import ParseError, did_you_mean
from kleene.planner.settings import is_key
from kleene.planner.specs import Span

FORMS = {
    "function": "CREATE FUNCTION name(arg TYPE, ...) RETURNS TYPE AS PROMPT 'text with {arg}' [MODEL 'alias'] [EFFORT 'low'] [BATCH n]; "
    "AS SQL (SELECT ...) and AS SHELL 'command {arg}' are the other bodies",
    "agent": "CREATE AGENT name [MODEL 'alias'] [EFFORT 'low'] [TOOLS (a, b)] [BUDGET (calls 20, dollars 0.5)] [TURNS 10] "
    "[TABLES (t)] [RETURNS (verdict BOOLEAN)] [PROMPT 'text']",
    "calibrate": "CALIBRATE FUNCTION name [SAMPLE 300] [RECALL 0.9] [PRECISION 0.9] [CONFIDENCE 0.95] FROM (SELECT ...)",
    "call": "[CREATE [OR REPLACE] TABLE t AS] CALL tool(arguments) [FROM (SELECT ...) AS q]",
    "set": "SET key = value, for example SET budget.dollars = 0.5",
    "reset": "RESET key, for example RESET budget.dollars",
    "explain": "EXPLAIN [ANALYZE] [(FORMAT text)] statement",
    "final": "FINAL(expression) or FINAL FROM (SELECT ...)",
    "drop": "DROP FUNCTION [IF EXISTS] name, DROP AGENT [IF EXISTS] name",
    "maxrecursion": "WITH RECURSIVE r(n) AS (SELECT ... UNION ALL SELECT ... FROM r) MAXRECURSION 3 SELECT * FROM r",
}
BUDGET_WORDS = ("calls", "tokens", "dollars", "depth", "wall", "turns")
_QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "PIVOT", "UNPIVOT")


class OwnGrammar(DuckDBParser):
    """DuckDB's parser with CallSQL's statements in front of it."""

    _failed_at: tuple[int, int] = (0, 0)

    def raise_error(self, message: str, token: Token = sqlglot_parser.SENTINEL_NONE) -> None:
        """Raise as sqlglot does, and keep where in ``failed_at``."""
        place = token or self._curr or self._prev
        if place:
            self._failed_at = (place.start, place.end + 1)
        super().raise_error(message, token)

    @property
    def failed_at(self) -> tuple[int, int]:
        """The characters of the last error's token, in the text that was parsed."""
        return self._failed_at

    def _parse_command(self) -> exp.Command:
        self.raise_error("this kind of statement is not read")
        raise AssertionError  # errors are raised at once

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.raise_error("this kind of statement is not read", start)
        raise AssertionError

    def _parse_statement(self) -> exp.Expr | None:
        return self._parse_own() or super()._parse_statement()

    def _parse_own(self) -> exp.Expr | None:
        """The own statement that starts here, or None."""
        curr = self._curr
        if not curr or curr.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return None
        own = self._OWN.get(curr.text.upper())
        index = self._index
        statement = own(self) if own else None
        if statement is None:
            self._retreat(index)
        return statement

    # -- helpers

    def _word(self, *words: str) -> bool:
        """Consume these words, case-insensitively and unquoted."""
        return bool(self._match_text_seq(*words))

    def _fail(self, message: str, form: str, token: Token | None = None) -> NoReturn:
        place = token or self._curr or self._prev
        start, end = (place.start, place.end + 1) if place else (len(self.sql), len(self.sql))
        if token is None and not self._curr and self._prev:
            start, end = self._prev.end + 1, self._prev.end + 1
        raise ParseError(message, hint=FORMS[form], span=Span.at(self.sql, start, end), source=self.sql)

    def _found(self) -> str:
        return f"found {self.sql[self._curr.start : self._curr.end + 1]}" if self._curr else "the statement ends"

    def _expect(self, kind: TokenType, what: str, form: str) -> None:
        if not self._match(kind):
            self._fail(f"expected {what}, {self._found()}", form)

    def _name(self, what: str, form: str) -> exp.Identifier:
        token = self._curr
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            self._fail(f"expected {what}, {self._found()}", form)
        if self._curr and self._curr.token_type == TokenType.DOT:
            self._fail(f"{what.removeprefix('the ')} has no schema: {name.name}.…", form, token)
        return name

    def _string(self, what: str, form: str) -> exp.Expr:
        token = self._curr
        value = self._parse_primary() if token and token.token_type in self.TEXT_TOKENS else None
        if not (isinstance(value, exp.Literal) and value.is_string):
            self._fail(f"expected {what} as a string, {self._found()}", form, token or None)
        return value

    def _number(self, what: str, form: str) -> exp.Literal:
        token = self._curr
        sign = "-" if self._match(TokenType.DASH) else ""
        sign += (
            "."
            if self._match_pair(TokenType.DOT, TokenType.NUMBER, advance=False) and self._match(TokenType.DOT)
            else ""
        )
        if not self._match(TokenType.NUMBER):
            self._fail(f"expected {what} as a number, {self._found()}", form)
        literal = exp.Literal(this=sign + self._prev.text, is_string=False)
        literal.update_positions(token)
        return literal

    def _alias(self, what: str, form: str) -> exp.Expr:
        """A model alias or an effort: a string, or the bare word."""
        if self._curr and self._curr.token_type in self.TEXT_TOKENS:
            return self._string(what, form)
        word = self._parse_id_var(any_token=False)
        if not isinstance(word, exp.Identifier):
            self._fail(f"expected {what} as a string, {self._found()}", form)
        return exp.Literal.string(word.name).update_positions(word)

    def _once(self, seen: dict[str, object], key: str, word: Token, form: str) -> None:
        if seen.get(key) is not None:
            self._fail(f"{word.text.upper()} is given twice", form, word)

    def _end(self, form: str) -> None:
        if self._curr:
            self._fail(f"expected the end of the statement, {self._found()}", form)

    def _inner(self, form: str, parse: Callable[[], exp.Expr | None], what: str) -> exp.Expr:
        """Parse a part in DuckDB's grammar; what cannot be read there is an error of this statement."""
        try:
            part = parse()
        except SqlglotError as error:
            start, end = self._failed_at
            description = str(error.errors[0].get("description")) if error.errors else "not SQL"
            reason = readable_reason(description, self.sql[start:end])
            span = Span.at(self.sql, start, end)
            raise ParseError(f"{what} cannot be read: {reason}", hint=FORMS[form], span=span, source=self.sql) from None
        if part is None:
            self._fail(f"expected {what}, {self._found()}", form)
        return part

    def _peek_words(self, count: int) -> tuple[str, ...]:
        tokens = self._tokens[self._index : self._index + count]
        return tuple("" if t.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else t.text.upper() for t in tokens)

    def _rows(self, form: str) -> exp.Expr:
        """What stands after FROM: a query in parentheses, a bare query, or what may stand in FROM (as ``SELECT * FROM`` it)."""
        start = self._curr
        if not self._word("FROM"):
            self._fail(f"expected FROM and a query, {self._found()}", form)
        if not self._curr:
            self._fail("expected a query after FROM, the statement ends", form)
        if self._peek_words(1)[0] not in _QUERY_STARTS:
            self._retreat(self._index - 1)
        query = self._inner(form, self._parse_select_statement, "the query")
        if not isinstance(query, exp.Query):
            self._fail("expected a query after FROM", form, start)
        return query

    def _parse_select_statement(self) -> exp.Expr | None:
        query = super()._parse_statement()
        if isinstance(query, exp.Values):
            query = exp.select("*").from_(query, copy=False)
        return query

    # -- CREATE FUNCTION, CREATE AGENT

    def _own_create(self) -> exp.Expr | None:
        self._advance()
        replace = self._word("OR", "REPLACE")
        if self._word("AGENT"):
            return self._create_agent(replace)
        if self._peek_words(4)[:1] == ("TABLE",) and self._peek_words(4)[2:] == ("AS", "CALL"):
            return self._create_table_of_call(replace)
        if not self._word("FUNCTION") or not self._is_call_function():
            return None
        return self._create_function(replace)

    def _create_table_of_call(self, replace: bool) -> exp.Expr:
        self._advance()
        name = self._name("the table's name", "call")
        self._advance()
        call = self._own_call()
        call.set("table", name)
        call.set("replace", replace)
        return call

    def _is_call_function(self) -> bool:
        """Whether ``name(...)`` is followed by RETURNS, or by AS and one of our bodies; else it is a DuckDB macro."""
        depth, at, size = 0, self._index, len(self._tokens)
        while at < size:
            kind = self._tokens[at].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            at += 1
            if kind == TokenType.R_PAREN and depth <= 0:
                break
        words = [t.text.upper() if t.token_type not in self.TEXT_TOKENS else "'" for t in self._tokens[at : at + 3]]
        if at >= size and not any(t.token_type == TokenType.L_PAREN for t in self._tokens[self._index : at]):
            return any(t.text.upper() == "RETURNS" for t in self._tokens[self._index : size])
        return words[:1] == ["RETURNS"] or words in (["AS", "PROMPT", "'"], ["AS", "SHELL", "'"])

    def _create_function(self, replace: bool) -> exp.Expr:
        form = "function"
        name = self._name("the function's name", form)
        self._expect(TokenType.L_PAREN, "( and the arguments", form)
        params = self._typed_names("an argument as name TYPE", form)
        args: dict[str, object] = {"this": name, "params": params, "replace": replace}
        if not self._word("RETURNS"):
            self._fail(f"expected RETURNS and a type, {self._found()}", form)
        if self._peek_words(2) == ("TABLE", "("):
            self._advance(2)
            args["columns"] = self._typed_names("a column as name TYPE", form)
            if not args["columns"]:
                self._fail("RETURNS TABLE needs a column", form, self._prev)
        else:
            args["returns"] = self._type("the return type", form)
        if not self._word("AS"):
            self._fail(f"expected AS PROMPT, AS SQL or AS SHELL, {self._found()}", form)
        args["kind"], args["body"] = self._body(form)
        self._function_options(args, form)
        self._end(form)
        return self.expression(nodes.CreateFunction(**args))

    def _type(self, what: str, form: str) -> exp.Expr:
        return self._inner(form, lambda: self._parse_types(check_func=False, allow_identifiers=True), what)

    def _typed_names(self, what: str, form: str) -> list[exp.Expr]:
        """``name TYPE, ...)``, the closing parenthesis included."""
        columns: list[exp.Expr] = []
        while not self._match(TokenType.R_PAREN):
            if columns:
                self._expect(TokenType.COMMA, ", or )", form)
            name = self._name(what, form)
            if not self._curr or self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN):
                self._fail(f"{name.name} has no type", form, self._prev)
            columns.append(self.expression(exp.ColumnDef(this=name, kind=self._type(f"the type of {name.name}", form))))
        return columns

    def _body(self, form: str) -> tuple[str, exp.Expr]:
        if self._word("PROMPT"):
            return "PROMPT", self._string("the prompt", form)
        if self._word("SHELL"):
            return "SHELL", self._string("the command", form)
        if not self._word("SQL"):
            self._fail(f"expected AS PROMPT, AS SQL or AS SHELL, {self._found()}", form)
        self._expect(TokenType.L_PAREN, "( and a SELECT", form)
        start = self._curr
        query = self._inner(form, self._parse_select_statement, "the SQL body")
        if not isinstance(query, exp.Query):
            self._fail("the SQL body is no SELECT", form, start or None)
        query.meta["text"] = self.sql[start.start : self._prev.end + 1]
        self._expect(TokenType.R_PAREN, ") after the SELECT", form)
        return "SQL", query

    def _function_options(self, args: dict[str, object], form: str) -> None:
        while self._curr:
            word = self._curr
            key = "volatility" if word.text.upper() in ("IMMUTABLE", "STABLE", "VOLATILE") else word.text.lower()
            if word.token_type == TokenType.IDENTIFIER or key not in (*nodes.CreateFunction.arg_types, "thresholds"):
                return
            self._advance()
            self._once(args, key, word, form)
            if key in ("model", "effort"):
                args[key] = self._alias(f"the {key}", form)
            elif key == "batch":
                args[key] = exp.var("AUTO") if self._word("AUTO") else self._number("BATCH", form)
            elif key == "volatility":
                args[key] = word.text.upper()
            elif key == "proxy":
                args[key] = self._name("the proxy's name", form)
                args["low"], args["high"] = self._thresholds(form)
            elif key == "via":
                args["via_negated"] = self._match(TokenType.NEQ)
                args[key] = self._name("the name of the VIA function", form)
            elif key == "thresholds":
                self._fail("THRESHOLDS stands after PROXY name", form, word)
            else:
                self._fail(f"unknown option {word.text}", form, word)

    def _thresholds(self, form: str) -> tuple[exp.Expr | None, exp.Expr | None]:
        if not self._word("THRESHOLDS"):
            return None, None
        self._expect(TokenType.L_PAREN, "(low, high)", form)
        low = self._number("the low threshold", form)
        self._expect(TokenType.COMMA, ", and the high threshold", form)
        high = self._number("the high threshold", form)
        self._expect(TokenType.R_PAREN, ") after the thresholds", form)
        return low, high

    def _create_agent(self, replace: bool) -> exp.Expr:
        form = "agent"
        args: dict[str, object] = {"this": self._name("the agent's name", form), "replace": replace}
        while self._curr:
            word = self._curr
            key = word.text.lower() if word.token_type != TokenType.IDENTIFIER else ""
            if key not in ("model", "effort", "tools", "budget", "turns", "tables", "returns", "prompt"):
                self._fail(f"unknown clause {self.sql[word.start : word.end + 1]}", form, word)
            self._advance()
            self._once(args, key, word, form)
            if key in ("model", "effort"):
                args[key] = self._alias(f"the {key}", form)
            elif key == "prompt":
                args[key] = self._string("the prompt", form)
            elif key == "turns":
                args[key] = self._number("TURNS", form)
            elif key == "tools":
                args[key] = self._tool_names(form)
                args["no_tools"] = not args[key]
            elif key == "tables":
                args[key] = self._tool_names(form, "a table's name")
            elif key == "returns":
                self._expect(TokenType.L_PAREN, "( and the columns", form)
                args[key] = self._typed_names("a column as name TYPE", form)
                if not args[key]:
                    self._fail("RETURNS needs a column", form, self._prev)
            else:
                self._budget(args, form)
        return self.expression(nodes.CreateAgent(**args))

    def _tool_names(self, form: str, what: str = "a tool's name") -> list[exp.Expr]:
        self._expect(TokenType.L_PAREN, f"( and {what}", form)
        names: list[exp.Expr] = []
        while not self._match(TokenType.R_PAREN):
            if names:
                self._expect(TokenType.COMMA, ", or )", form)
            names.append(self._name(what, form))
        return names

    def _budget(self, args: dict[str, object], form: str) -> None:
        """``(calls n, dollars x, ...)``; ``turns n`` in it is the clause TURNS."""
        self._expect(TokenType.L_PAREN, "( and the budget, such as (calls 20, dollars 0.5)", form)
        budget: dict[str, exp.Expr] = {}
        while not self._match(TokenType.R_PAREN):
            if self._prev.token_type != TokenType.L_PAREN:
                self._expect(TokenType.COMMA, ", or )", form)
            word = self._curr
            key = word.text.lower() if word else ""
            if key not in BUDGET_WORDS:
                near = did_you_mean(key, BUDGET_WORDS)
                known = f"did you mean {near}?" if near else f"known are {', '.join(BUDGET_WORDS)}"
                self._fail(f"unknown budget dimension {key}; {known}", form, word or None)
            self._advance()
            self._once({**args, **budget} if key == "turns" else dict(budget), key, word, form)
            self._match_set((TokenType.EQ, TokenType.COLON_EQ))
            value = self._number(f"the {key} of the budget", form)
            if key == "turns":
                args["turns"] = value
            else:
                budget[key] = exp.EQ(this=exp.var(key), expression=value)
        args["budget"] = list(budget.values())

    # -- CALIBRATE, CALL, FINAL

    def _own_calibrate(self) -> exp.Expr:
        form = "calibrate"
        self._advance()
        self._word("FUNCTION")
        args: dict[str, object] = {"this": self._name("the function's name", form)}
        while self._curr and self._curr.text.lower() in ("sample", "recall", "precision", "confidence"):
            word = self._curr
            self._advance()
            self._once(args, word.text.lower(), word, form)
            args[word.text.lower()] = self._number(word.text.upper(), form)
        args["query"] = _unwrapped(self._rows(form))
        self._end(form)
        return self.expression(nodes.Calibrate(**args))

    def _own_call(self) -> exp.Expr:
        form = "call"
        self._advance()
        name: exp.Expr = self._inner(form, lambda: self._parse_id_var(any_token=False), "a tool's name")
        while self._match(TokenType.DOT):
            part = self._inner(form, lambda: self._parse_id_var(any_token=False), "a name after the dot")
            name = exp.Dot(this=name, expression=part)
        self._expect(TokenType.L_PAREN, f"( and the arguments of {name.sql()}", form)
        arguments: list[exp.Expr] = []
        if not self._match(TokenType.R_PAREN):
            arguments = self._call_arguments(form)
            self._expect(TokenType.R_PAREN, ") after the arguments", form)
        source = self._call_source(form) if self._curr else None
        self._end(form)
        return self.expression(nodes.CallTool(this=name, expressions=arguments, source=source))

    def _call_arguments(self, form: str) -> list[exp.Expr]:
        arguments: list[exp.Expr] = []

        def parse() -> exp.Expr:
            arguments.extend(self._parse_function_args(True))
            return exp.Null()

        self._inner(form, parse, "an argument")
        return arguments

    def _call_source(self, form: str) -> exp.Expr:
        bare = self._peek_words(2)[1:] in [(w,) for w in _QUERY_STARTS]
        rows = self._rows(form)
        if bare or not _is_plain_from(rows):
            rows = exp.select("*").from_(exp.Subquery(this=rows), copy=False)
        return rows

    def _own_final(self) -> exp.Expr | None:
        form = "final"
        if len(self._tokens) > 1 and self._next.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return None
        self._advance()
        if self._peek_words(1) == ("FROM",):
            query = self._rows(form)
            self._end(form)
            return self.expression(nodes.Final(query=_unwrapped(query)))
        if self._peek_words(1)[:1] and self._peek_words(1)[0] in _QUERY_STARTS:  # as capable models write it
            query = self._inner(form, self._parse_select_statement, "the query")
            self._end(form)
            return self.expression(nodes.Final(query=query))
        if not self._match(TokenType.L_PAREN):
            self._fail(f"expected ( or FROM after FINAL, {self._found()}", form)
        if self._match(TokenType.R_PAREN):
            self._fail("FINAL() has no answer", form, self._prev)
        if self._peek_words(1)[0:1] and self._peek_words(1)[0] in _QUERY_STARTS:
            inner = self._inner(form, self._parse_select_statement, "the query")
        else:
            inner = self._inner(form, self._parse_expression, "the answer")
        if self._curr and self._curr.token_type == TokenType.COMMA:
            self._fail("FINAL takes one expression", form)
        self._expect(TokenType.R_PAREN, ") after the answer", form)
        self._end(form)
        return self.expression(nodes.Final(query=inner) if isinstance(inner, exp.Query) else nodes.Final(this=inner))

    # -- SET, RESET, EXPLAIN, DROP, SHOW, PREPARE, EXECUTE

    def _key(self) -> str | None:
        """A dotted key after SET or RESET, lower case; None where it is none of Kleene's."""
        parts: list[str] = []
        while self._curr and self._curr.token_type not in (*self.TEXT_TOKENS, TokenType.NUMBER, TokenType.EQ):
            parts.append(self._curr.text)
            self._advance()
            if not self._match(TokenType.DOT):
                break
        key = ".".join(parts).lower()
        return key if key and is_key(key) else None

    def _own_set(self) -> exp.Expr | None:
        self._advance()
        key = self._key()
        if key is None:
            return None
        if not (self._match(TokenType.EQ) or self._word("TO")):
            self._fail(f"expected = and a value after SET {key}, {self._found()}", "set")
        value = self._setting_value(key)
        self._end("set")
        return self.expression(nodes.SetKey(this=exp.var(key), expression=value))

    def _setting_value(self, key: str) -> exp.Expr:
        token = self._curr
        if not token:
            self._fail(f"expected a value for {key}, the statement ends", "set")
        if token.token_type in self.TEXT_TOKENS:
            return self._string(f"the value of {key}", "set")
        if token.token_type in (TokenType.NUMBER, TokenType.DASH, TokenType.DOT):
            return self._number(f"the value of {key}", "set")
        if token.token_type == TokenType.NULL:
            self._advance()
            return exp.Null()
        if token.token_type in (TokenType.L_PAREN, TokenType.COMMA, TokenType.SEMICOLON):
            self._fail(f"expected a plain value for {key}, {self._found()}", "set")
        self._advance()
        return exp.Literal.string(token.text).update_positions(token)

    def _own_reset(self) -> exp.Expr | None:
        self._advance()
        key = self._key()
        if key is None:
            return None
        self._end("reset")
        return self.expression(nodes.ResetKey(this=exp.var(key)))

    def _own_explain(self) -> exp.Expr | None:
        self._advance()
        analyze = self._word("ANALYZE")
        form: str | None = None
        if self._peek_words(2)[:1] == ("(",) and self._peek_words(2)[1:] in (("FORMAT",), ("ANALYZE",)):
            self._advance()
            while not self._match(TokenType.R_PAREN):
                if self._word("FORMAT"):
                    form = self._curr.text.lower() if self._curr else None
                    self._advance()
                elif self._word("ANALYZE"):
                    analyze = True
                elif not self._match(TokenType.COMMA):
                    return None
        if not self._curr:
            self._fail("EXPLAIN needs a statement", "explain")
        statement = self._parse_statement()
        return self.expression(nodes.Explain(this=statement, analyze=analyze, format=form)) if statement else None

    def _own_drop(self) -> exp.Expr | None:
        self._advance()
        agent = self._word("AGENT")
        if not agent and not self._word("FUNCTION"):
            return None
        exists = self._word("IF", "EXISTS")
        if not agent:
            # a qualified name, several names or CASCADE are DuckDB's
            name = self._parse_id_var(any_token=False)
            if not isinstance(name, exp.Identifier) or self._curr:
                return None
            return self.expression(nodes.DropFunction(this=name, exists=exists))
        name = self._name("the agent's name", "drop")
        self._end("drop")
        return self.expression(nodes.DropAgent(this=name, exists=exists))

    def _own_show(self) -> exp.Expr | None:
        self._advance()
        word = self._peek_words(2)
        if len(word) != 1 or word[0] not in ("FUNCTIONS", "AGENTS", "BUDGET", "SKILLS"):
            return None
        self._advance()
        return self.expression(nodes.Show(this=exp.var(word[0])))

    def _own_prepare(self) -> exp.Expr | None:
        self._advance()
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            return None
        if self._match(TokenType.L_PAREN):
            self._parse_csv(lambda: self._parse_types())
            self._match_r_paren()
        statement = self._parse_statement() if self._word("AS") else None
        return self.expression(nodes.Prepare(this=name, expression=statement)) if statement else None

    def _own_execute(self) -> exp.Expr | None:
        self._advance()
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            return None
        arguments: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN) and not self._match(TokenType.R_PAREN):
            arguments = self._parse_function_args(True)
            self._match_r_paren()
        return self.expression(nodes.Execute(this=name, expressions=arguments))

    # -- MAXRECURSION

    def _parse_cte(self) -> exp.CTE | exp.FunctionSpecification | None:
        cte = super()._parse_cte()
        if isinstance(cte, exp.CTE) and self._word("MAXRECURSION"):
            token = self._curr
            rounds = self._number("MAXRECURSION", "maxrecursion")
            if not rounds.name.isdigit():
                self._fail(f"MAXRECURSION must be a whole number, not {rounds.name}", "maxrecursion", token)
            cte.meta["maxrecursion"] = int(rounds.name)
        return cte

    TEXT_TOKENS = frozenset(
        {
            TokenType.STRING,
            TokenType.RAW_STRING,
            TokenType.HEREDOC_STRING,
            TokenType.BYTE_STRING,
            TokenType.NATIONAL_STRING,
        }
    )
    _OWN: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        "CREATE": _own_create,
        "CALIBRATE": _own_calibrate,
        "CALL": _own_call,
        "SET": _own_set,
        "RESET": _own_reset,
        "EXPLAIN": _own_explain,
        "FINAL": _own_final,
        "DROP": _own_drop,
        "SHOW": _own_show,
        "PREPARE": _own_prepare,
        "EXECUTE": _own_execute,
    }


def readable_reason(description: str, found: str) -> str:
    """sqlglot's reason without its class names; ``found`` is the text at the place."""
    missing = re.match(r"Required keyword: '.*' missing for <class '[\w.]*?(\w+)'>", description)
    if missing:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", missing.group(1))
        return f"{words.upper()} is not complete"
    if description.startswith("Invalid expression / Unexpected token"):
        return f"unexpected {found}" if found else "unexpected end"
    return re.sub(
        r" but got (<Token.*>|None)$", lambda _: f", found {found}" if found else "", description, flags=re.DOTALL
    )


_ROWS_CHANGED = ("joins", "laterals", "where", "order", "limit", "offset")


def _is_plain_from(query: exp.Expr) -> bool:
    """``SELECT *`` over one FROM, joins, WHERE, ORDER BY and LIMIT alone: its projections may be replaced by the arguments of a call."""
    allowed = {"kind", "expressions", "from_", "joins", "laterals", "where", "order", "limit", "offset"}
    return (
        isinstance(query, exp.Select)
        and all(not v or k in allowed for k, v in query.args.items())
        and [type(e) for e in query.expressions] == [exp.Star]
    )


def _unwrapped(query: exp.Expr) -> exp.Expr:
    """``SELECT * FROM (query)`` without an alias or other clause is ``query``."""
    if _is_plain_from(query) and not any(query.args.get(k) for k in _ROWS_CHANGED):
        source = query.args["from_"].this
        if isinstance(source, exp.Subquery) and not any(v for k, v in source.args.items() if k != "this"):
            return source.this.pop() if isinstance(source.this, exp.Query) else query
    return query
