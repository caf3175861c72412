"""From an asked type to a schema, and from a reply to a value or to *unknown*. No I/O.

A reply that cannot be read as the asked type is unknown: never TRUE, never FALSE, never a guess. What is accepted is listed at each reader;
everything else is told by name, and ``repair_message`` asks once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from kleene.planner.specs import AnswerType
from kleene.udfs.ducktypes import INTEGERS, DuckType, Mismatch, closed, number_of, parse_type
from kleene.udfs.jsonschema import read_schema, violation
from kleene.udfs.jsontext import Json, JsonProblem, Number, brief, clean, dump, parse, unfence
from kleene.udfs.protocols import Reply

Value: TypeAlias = bool | int | float | str


@attrs.frozen
class Answered:
    """The value in its carrier's Python type: bool, int, float, or text that DuckDB casts."""

    value: Value


@attrs.frozen
class Unknown:
    """``kind``: ``unreadable``, ``truncated``, ``refused``, ``empty`` or ``schema``. ``detail`` says what was found and what was expected."""

    kind: str
    detail: str


Convert: TypeAlias = Callable[[str, bool], "Answered | Unknown"]


def schema_for(answer: AnswerType, items: int | None = None) -> str | None:
    """The JSON schema (as text) to ask a model for, or None for free text. JSON without a schema of its caller's is ``{}``: any value.

    ``items`` bounds a ``list``. Raises ``PlanError`` on a schema or type that cannot be read.
    """
    if answer.kind in ("text", "embedding"):
        return None
    if answer.kind in _SCHEMAS:
        return _SCHEMAS[answer.kind]
    if answer.kind == "list":
        return dump_schema(list_schema(items))
    if answer.kind == "typed":
        return dump_schema(closed({"answer": parse_type(answer.sql).schema()}))
    return ANY_JSON if answer.schema is None else dump_schema(read_schema(answer.schema))


def instruction_for(answer: AnswerType, items: int | None = None) -> str:
    """The line under a prompt for a model without structured output; empty for text. Providers add it where they need it."""
    return instruction_of(schema_for(answer, items))


def read(answer: AnswerType, reply: Reply, items: int | None = None) -> Answered | Unknown:
    """Read a reply. Where many replies of a ``typed`` or ``json`` answer are read, one ``AnswerReader`` spares reading its type again."""
    return _read(_converter(answer, items), reply)


def repair_message(answer: AnswerType, reply: Reply, unknown: Unknown, items: int | None = None) -> str:
    """What to say to the model in the one repair turn, after its own reply."""
    return AnswerReader.of(answer, items).repair_message(unknown)


def instruction_of(schema: str | None) -> str:
    """The line that asks for a schema in words; the same that ``instruction_for`` gives for the answer the schema was made for."""
    if schema is None:
        return ""
    return _LINES.get(schema) or f"Reply with JSON only, valid against this JSON schema: {schema}"


@attrs.frozen
class AnswerReader:
    """An answer type made ready for many replies."""

    answer: AnswerType
    items: int | None
    schema: str | None
    instruction: str
    _convert: Convert

    @classmethod
    def of(cls, answer: AnswerType, items: int | None = None) -> AnswerReader:
        """Prepare. Raises ``PlanError`` on a schema or type that cannot be read."""
        schema = schema_for(answer, items)
        return cls(answer, items, schema, instruction_of(schema), _converter(answer, items))

    @property
    def repairs(self) -> bool:
        """Whether who answers can be told what was wrong: an embeddings model cannot."""
        return self.answer.kind != "embedding"

    def read(self, reply: Reply) -> Answered | Unknown:
        """A refusal is refused whatever it says, no text is empty, a cut reply counts only where it is a complete JSON value."""
        return _read(self._convert, reply)

    def repair_message(self, unknown: Unknown) -> str:
        """One sentence on what was wrong, then what to reply with."""
        ask = self.instruction or "Reply with the answer only."
        return f"Your reply could not be used: {unknown.detail}. {ask}"


def _converter(answer: AnswerType, items: int | None) -> Convert:
    kind = answer.kind
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "bigint":
        return _integer_reader(answer.sql, INTEGERS.get(answer.sql.upper(), INTEGERS["BIGINT"]))
    if kind == "list":
        return _list_reader(items)
    if kind == "typed":
        return _typed_reader(parse_type(answer.sql))
    return _json_reader(None if answer.schema is None else read_schema(answer.schema))


def _read(convert: Convert, reply: Reply) -> Answered | Unknown:
    if reply.stop == "refusal":
        return Unknown(
            "refused",
            "the model declined: " + _cut(reply.text) if reply.text.strip() else "the model declined this request",
        )
    cut = reply.stop == "length"
    if not reply.text.strip():
        return Unknown("truncated", _CUT) if cut else Unknown("empty", "the reply is empty")
    return convert(clean(reply.text), cut)


def dump_schema(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(", ", ": "))


def list_schema(items: int | None) -> dict[str, Any]:
    """The schema of expand's reply: an object with at most ``items`` strings."""
    inner: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    return closed({"items": inner if items is None else {**inner, "maxItems": items}})


ANY_JSON = "{}"
LARGEST_FLOAT = 3.4e38
_SCHEMAS = {
    kind: dump_schema(closed({"answer": schema}))
    for kind, schema in {
        "bool": {"type": "boolean"},
        "bigint": {"type": "integer"},
        "double": {"type": "number"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
    }.items()
}
_LINES = {
    _SCHEMAS["bool"]: 'Reply with JSON only: {"answer": true} or {"answer": false}',
    _SCHEMAS["bigint"]: 'Reply with JSON only: {"answer": n}, n an integer',
    _SCHEMAS["double"]: 'Reply with JSON only: {"answer": x}, x a number',
    _SCHEMAS["score"]: 'Reply with JSON only: {"answer": x}, x a number from 0 to 1',
    ANY_JSON: "Reply with JSON only.",
}
_CUT = "the reply was cut at max_tokens"
_BOOLS = {"true": True, "yes": True, "false": False, "no": False}
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,4}[.)])\s+(.*\S)\s*")


def _cut(text: str) -> str:
    one = " ".join(text.split())
    return json.dumps(one if len(one) <= 80 else one[:77] + "...", ensure_ascii=False)


def _text(text: str, cut: bool) -> Answered | Unknown:
    return Unknown("truncated", _CUT) if cut else Answered(text)


def _scalar(text: str, cut: bool) -> Json | Unknown:
    """The value in ``{"answer": value}``, or the whole text as a JSON scalar or as it stands. A cut bare word or number is truncated."""
    body = unfence(text)
    if body[:1] not in ("{", "["):
        if cut:
            return Unknown("truncated", _CUT)
        if body[:1] == '"':
            try:
                return parse(body)
            except JsonProblem:
                return body
        return body
    try:
        value = parse(body)
    except JsonProblem as problem:
        return _not_json(problem, cut)
    if not isinstance(value, dict) or list(value) != ["answer"]:
        return Unknown("schema", f'the reply is {brief(value)}, not an object with the one key "answer"')
    return value["answer"]


def _not_json(problem: JsonProblem, cut: bool) -> Unknown:
    if cut:
        return Unknown("truncated", _CUT)
    return Unknown("schema" if problem.began else "unreadable", problem.detail)


def _bool(text: str, cut: bool) -> Answered | Unknown:
    """Accepts ``{"answer": true}`` and bare true, false, yes or no in any case, quoted or followed by ``. ! , ;``."""
    value = _scalar(text, cut)
    if isinstance(value, Unknown):
        return value
    if isinstance(value, bool):
        return Answered(value)
    word = value.strip().rstrip(".!,;").rstrip().casefold() if isinstance(value, str) else ""
    if word in _BOOLS:
        return Answered(_BOOLS[word])
    return Unknown(
        "unreadable" if isinstance(value, str) else "schema", f"the reply is {_found(value)}, not true or false"
    )


def _found(value: Json) -> str:
    return _cut(value) if isinstance(value, str) else brief(value)


def _number(text: str, cut: bool, expected: str) -> Number | Unknown:
    value = _scalar(text, cut)
    if isinstance(value, Unknown):
        return value
    number = number_of(value.strip().removesuffix(".") if isinstance(value, str) else value)
    if number is not None:
        return number
    return Unknown(
        "unreadable" if isinstance(value, str) else "schema", f"the reply is {_found(value)}, not {expected}"
    )


def _integer_reader(sql: str, bounds: tuple[int, int]) -> Convert:
    low, high = max(bounds[0], -(2**63)), min(bounds[1], 2**63 - 1)

    def convert(text: str, cut: bool) -> Answered | Unknown:
        """Accepts 3, "3", 3.0 and 3e0; 3.5 and what the type cannot hold are unknown."""
        number = _number(text, cut, "an integer")
        if isinstance(number, Unknown):
            return number
        whole = number.integer()
        if whole is None:
            return Unknown("schema", f"the reply is {brief(number)}, not an integer")
        return (
            Answered(whole)
            if low <= whole <= high
            else Unknown("schema", f"the reply is {brief(number)}, outside the range of {sql}")
        )

    return convert


def _double(text: str, cut: bool) -> Answered | Unknown:
    """Accepts a finite number, quoted or not."""
    number = _number(text, cut, "a number")
    if isinstance(number, Unknown):
        return number
    value = float(number.text)
    return (
        Answered(value)
        if abs(value) < float("inf")
        else Unknown("schema", f"the reply is {brief(number)}, too large for a DOUBLE")
    )


def _score(text: str, cut: bool) -> Answered | Unknown:
    """Accepts a number in [0, 1]."""
    answered = _double(text, cut)
    if isinstance(answered, Answered) and not 0 <= answered.value <= 1:  # type: ignore[operator]
        return Unknown("schema", f"the reply is {answered.value}, not a number from 0 to 1")
    return answered


def _json_reader(schema: dict[str, Any] | None) -> Convert:
    def convert(text: str, cut: bool) -> Answered | Unknown:
        """Accepts one JSON value, a fence around it apart, that satisfies the schema. Written compactly, its contents unchanged."""
        try:
            value = parse(text)
        except JsonProblem as problem:
            return _not_json(problem, cut)
        if cut and isinstance(value, Number):
            return Unknown("truncated", _CUT)
        fault = None if schema is None else violation(schema, value)
        return Answered(dump(value)) if fault is None else Unknown("schema", fault)

    return convert


def _typed_reader(duck: DuckType) -> Convert:
    def convert(text: str, cut: bool) -> Answered | Unknown:
        """Accepts ``{"answer": value}``; a bare value too: JSON for nested types, text for the others."""
        value = _json(text, cut) if duck.nested or duck.name == "JSON" else _scalar(text, cut)
        if isinstance(value, Unknown):
            return value
        try:
            checked = _checked(duck, value)
        except Mismatch as fault:
            return Unknown("schema", str(fault))
        return Answered(
            checked if isinstance(checked, str) and not duck.nested and duck.name != "JSON" else dump(checked)
        )

    return convert


def _json(text: str, cut: bool) -> Json | Unknown:
    try:
        return parse(text)
    except JsonProblem as problem:
        return _not_json(problem, cut)


def _checked(duck: DuckType, value: Json) -> Json:
    """A nested value out of ``{"answer": value}``, or bare: ``STRUCT(answer ...)`` may be either, the wrapper first."""
    if not isinstance(value, dict) or list(value) != ["answer"]:
        return duck.check(value)
    try:
        return duck.check(value["answer"])
    except Mismatch:
        if duck.fields != ("answer",):
            raise
    return duck.check(value)


def _list_reader(items: int | None) -> Convert:
    def convert(text: str, cut: bool) -> Answered | Unknown:
        """Accepts ``{"items": [...]}``, a bare array, or lines: all with bullets or numbers, or all without. More than n: the first n."""
        body = unfence(text)
        found = _array(body, cut) if body[:1] in ("{", "[") else _lines(body, cut)
        return found if isinstance(found, Unknown) else Answered(dump(list(found[:items])))

    return convert


def _array(body: str, cut: bool) -> list[str] | Unknown:
    try:
        value = parse(body)
    except JsonProblem as problem:
        return _not_json(problem, cut)
    inner = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if not isinstance(inner, list):
        return Unknown("schema", f'the reply is {brief(value)}, not {{"items": [...]}}')
    bad = [v for v in inner if not isinstance(v, str | Number)]
    if bad:
        return Unknown("schema", f"the items hold {brief(bad[0])}, expected strings")
    return [v.text if isinstance(v, Number) else v for v in inner if isinstance(v, str | Number)]


def _embedding(text: str, cut: bool) -> Answered | Unknown:
    """Accepts a JSON array of one or more numbers that a FLOAT holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not value:
        return Unknown("unreadable", f"the reply is {_cut(text)}, not a list of numbers")
    if not all(type(v) in (int, float) and abs(v) <= LARGEST_FLOAT for v in value):
        return Unknown("schema", f"the reply is {_cut(text)}, not a list of numbers that a FLOAT holds")
    return Answered(text)


def _lines(body: str, cut: bool) -> list[str] | Unknown:
    if cut:
        return Unknown("truncated", _CUT)
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    marked = [m for m in map(_BULLET.fullmatch, lines) if m]
    if marked and len(marked) < len(lines):
        return Unknown("unreadable", "only some of the lines are list items")
    return [m[1] for m in marked] if marked else lines


_PLAIN: dict[str, Convert] = {"text": _text, "bool": _bool, "double": _double, "score": _score, "embedding": _embedding}
