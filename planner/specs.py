"""The words all floors share: spans, functions, agents, calls, answers, budgets, usage. Frozen values, no behaviour with effects."""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class Span:
    """A half-open range ``[start, end)`` of characters in the user's text; ``line`` and ``column`` of its start, both from 1."""

    start: int
    end: int
    line: int = 1
    column: int = 1

    @classmethod
    def at(cls, source: str, start: int, end: int) -> Span:
        start = max(0, min(start, len(source)))
        return cls(
            start, max(start, end), source.count("\n", 0, start) + 1, start - (source.rfind("\n", 0, start) + 1) + 1
        )


class Volatility(enum.Enum):
    """IMMUTABLE and STABLE calls may be moved, shared and remembered; a VOLATILE call runs once per row and never moves."""

    IMMUTABLE = "IMMUTABLE"
    STABLE = "STABLE"
    VOLATILE = "VOLATILE"


class Carrier(enum.Enum):
    """The DuckDB type in which an answer crosses from Python: one lookup function each. All other types are cast from TEXT."""

    BOOL = "bool"
    BIGINT = "bigint"
    DOUBLE = "double"
    TEXT = "text"


@attrs.frozen
class AnswerType:
    """How a reply is read, and the DuckDB type it becomes.

    ``kind``: ``text`` (the reply as it is), ``bool``, ``bigint``, ``double``, ``score`` (a DOUBLE in [0, 1]), ``json`` (validated against
    ``schema``), ``typed`` (any other DuckDB type ``sql``, read through ``schema``), ``list`` (a JSON array of at most n strings: expand),
    ``embedding`` (a JSON array of numbers, from an embeddings model instead of a chat model).
    ``schema`` is JSON text or None. ``sql`` is the DuckDB type of the whole call expression.
    """

    kind: str
    sql: str
    schema: str | None = None

    @property
    def carrier(self) -> Carrier:
        return {"bool": Carrier.BOOL, "bigint": Carrier.BIGINT, "double": Carrier.DOUBLE, "score": Carrier.DOUBLE}.get(
            self.kind, Carrier.TEXT
        )


@attrs.frozen
class Param:
    """A declared parameter: its name and DuckDB type (as SQL text)."""

    name: str
    type: str


@attrs.frozen
class Template:
    """A prompt with holes: literal strings and parameter indexes, in order.

    >>> Template(("Is ", 0, " red?")).render(("apple",))
    'Is apple red?'
    """

    parts: tuple[str | int, ...]

    def render(self, arguments: tuple[str, ...]) -> str:
        return "".join(p if isinstance(p, str) else arguments[p] for p in self.parts)


IDENTITY = Template((0,))


@attrs.frozen
class Calibration:
    """What CALIBRATE found for a function and its proxy, and what it guarantees.

    ``low`` None: no row is called false unasked; ``high`` None: none true. ``rows`` is how many rows it held for, ``sample`` how many of
    them the function was asked; ``accepted``, ``in_band`` and ``rejected`` split the rows. ``scores`` are the rows' scores at even steps of
    their order, None where there was none. ``key`` tells the function, the proxy and the models of both apart from any other.
    ``in_force``: the function's thresholds are these; else they were declared, and this only tells how scores are spread.
    """

    low: float | None
    high: float | None
    recall: float
    precision: float
    confidence: float
    rows: int
    sample: int
    accepted: int
    in_band: int
    rejected: int
    scores: tuple[float | None, ...] = ()
    sample_precision: float | None = None
    sample_recall: float | None = None
    key: str = ""
    in_force: bool = True

    def guarantee(self) -> str:
        """What holds of a cascade with these thresholds.

        >>> Calibration(0.2, 0.9, 0.9, 0.9, 0.95, 1000, 300, 100, 50, 850).guarantee()
        'recall >= 0.9 and precision >= 0.9 with confidence 0.95 (of 1000 rows 300 were asked)'
        """
        if self.low is None and self.high is None:
            return f"no thresholds: {self.sample} of {self.rows} rows were asked, too few to tell"
        said = f"recall >= {self.recall:g} and precision >= {self.precision:g} with confidence {self.confidence:g}"
        return f"{said} (of {self.rows} rows {self.sample} were asked)"


@attrs.frozen
class FunctionSpec:
    """A function that makes calls, or a prompt- or SQL-defined function of the user.

    ``body``: ``builtin``, ``prompt`` (``template``), ``sql`` (``text`` is the SELECT), ``shell`` (``text`` is the command), ``session``
    (answered by a child session, or by the session itself), ``tool`` (``planner.tools``), ``pure`` (``text`` names the DuckDB function that
    it is; no call).
    ``table`` holds the columns of a table-valued function, else None. ``required`` is how many leading params must be given.
    ``thresholds`` are those that were declared; ``calibration`` what CALIBRATE found since, which has precedence where it is in force.
    """

    name: str
    params: tuple[Param, ...]
    answer: AnswerType
    body: str = "builtin"
    template: Template | None = None
    text: str | None = None
    model: str | None = None
    effort: str | None = None
    batch: int | str = 1
    volatility: Volatility = Volatility.IMMUTABLE
    proxy: str | None = None
    thresholds: tuple[float, float] | None = None
    via: str | None = None
    via_negated: bool = False
    table: tuple[Param, ...] | None = None
    aggregate: bool = False
    description: str = ""
    required: int | None = None
    calibration: Calibration | None = None

    def signature(self) -> str:
        """``name(a TEXT, b TEXT) -> TYPE``, as SHOW FUNCTIONS and errors print it."""
        need = len(self.params) if self.required is None else self.required
        args = ", ".join(f"{p.name} {p.type}" for p in self.params[:need])
        more = ", ".join(f"{p.name} {p.type}" for p in self.params[need:])
        if more:
            args += f" [, {more}]" if args else f"[{more}]"
        out = f"TABLE({', '.join(f'{c.name} {c.type}' for c in self.table)})" if self.table else self.answer.sql
        return f"{self.name}({args}) -> {out}"


@attrs.frozen
class AgentSpec:
    """A role that children run under (CREATE AGENT). ``tools`` None means all; ``budget`` bounds each child.

    ``tables`` are tables of the asking session that a child may read. ``returns`` are the columns its FINAL must have, None: any.
    """

    name: str
    model: str = "worker"
    effort: str | None = None
    tools: tuple[str, ...] | None = None
    budget: BudgetLimits | None = None
    turns: int | None = None
    prompt: str = ""
    tables: tuple[str, ...] = ()
    returns: tuple[Param, ...] | None = None
    description: str = ""


@attrs.frozen
class CallSpec:
    """All of a call but its arguments: with the rendered prompt it decides the answer, so its digest is half of the memo's key.

    ``session`` is empty where a model answers, ``child`` where a child session does (``system`` is then the role's definition), ``mail``
    where the session itself does (await, send, inbox), ``tool`` where a tool does (``system`` names it and the parameters given), the last
    two for nothing.
    """

    function: str
    template: Template
    answer: AnswerType
    alias: str = "worker"
    effort: str | None = None
    max_tokens: int = 1024
    temperature: float | None = None
    seed: int | None = None
    system: str | None = None
    session: str = ""
    batch: int | str = 1  # prompts asked in one request, or auto; no part of the digest

    def digest(self) -> str:
        """SHA-256 (hex) over what can change the reply to a rendered prompt. The alias is not part: the model that answers is keyed apart."""
        body = [
            self.answer.kind,
            self.answer.sql,
            self.answer.schema,
            self.effort,
            self.max_tokens,
            self.temperature,
            self.seed,
            self.system,
        ]
        return hashlib.sha256(json.dumps(body, ensure_ascii=True).encode()).hexdigest()

    def as_asked(self) -> CallSpec:
        """Without what no model is told: an embedding has no options and no tokens of its own."""
        if self.answer.kind != "embedding":
            return self
        return attrs.evolve(self, effort=None, max_tokens=0, temperature=None, seed=None, batch=1)


DIMENSIONS = ("calls", "tokens", "dollars", "depth", "wall")


@attrs.frozen
class BudgetLimits:
    """Upper bounds, each optional. ``calls`` counts every request sent, ``wall`` is in seconds, ``depth`` in levels of child sessions."""

    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    depth: int | None = None
    wall: float | None = None


@attrs.frozen
class Usage:
    """What a statement, session or run has used.

    ``requests``: HTTP requests (or function invocations) sent, retries and repairs included. ``items``: answers obtained by them.
    ``memo_hits``: answers served from the memo. ``unknown``: answers that could not be read. ``unpriced``: requests without a price.
    """

    requests: int = 0
    items: int = 0
    memo_hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0
    unknown: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in attrs.fields(Usage)))

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@attrs.frozen
class LongPrompts:
    """Dollars per million tokens of a request whose prompt, cached parts included, has more than ``above`` tokens: all its tokens cost this."""

    above: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


@attrs.frozen
class Price:
    """Dollars per million tokens; the cache rates default to the input rate.

    The batch rates are those of the provider's batch API, which answers within hours. Every call here is asked for now, so they price none.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    as_of: str = ""
    source: str = ""
    batch_input: float | None = None
    batch_output: float | None = None
    long: LongPrompts | None = None

    def dollars(self, input_tokens: int, output_tokens: float, cache_read: int = 0, cache_write: int = 0) -> float:
        """What one request costs. ``input_tokens`` excludes what was read from or written to a prefix cache."""
        prompt = input_tokens + cache_read + cache_write
        rates = self.long if self.long is not None and prompt > self.long.above else self
        read = rates.input if rates.cache_read is None else rates.cache_read
        write = rates.input if rates.cache_write is None else rates.cache_write
        return (
            input_tokens * rates.input + output_tokens * rates.output + cache_read * read + cache_write * write
        ) / 1e6

    def dollars_each(self, input_tokens: Sequence[int], output_tokens: Sequence[float]) -> float:
        """What requests cost together, each of so many input tokens and with a reply of so many (as expected, so not whole)."""
        if self.long is None:
            return self.dollars(sum(input_tokens), sum(output_tokens))
        return math.fsum(map(self.dollars, input_tokens, output_tokens))


def price_from(fields: Mapping[str, Any]) -> Price:
    """A price out of its fields, as a file has them: ``long`` is a table of its own."""
    long = fields.get("long")
    return Price(**{**fields, "long": None if long is None else LongPrompts(**long)})
