"""Replies as typed answers or as unknown; what is typed is cast by a real DuckDB."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kleene.planner.errors import PlanError
from kleene.planner.specs import AnswerType
from kleene.udfs.answers import (
    Answered,
    AnswerReader,
    Unknown,
    instruction_for,
    instruction_of,
    read,
    repair_message,
    schema_for,
)
from kleene.udfs.ducktypes import DuckType, parse_type
from kleene.udfs.protocols import Reply

BOOL = AnswerType("bool", "BOOLEAN")
BIGINT = AnswerType("bigint", "BIGINT")
DOUBLE = AnswerType("double", "DOUBLE")
SCORE = AnswerType("score", "DOUBLE")
TEXT = AnswerType("text", "VARCHAR")
JSON = AnswerType("json", "JSON")
LIST = AnswerType("list", "VARCHAR[]")
TAGS = AnswerType("json", "JSON", '{"type":"object","properties":{"tags":{"type":"array"}},"required":["tags"]}')
CUT = "the reply was cut at max_tokens"


def typed(sql: str) -> AnswerType:
    return AnswerType("typed", sql)


def value(answer: AnswerType, text: str, **reply: Any) -> Any:
    found = read(answer, Reply(text, **reply))
    assert isinstance(found, Answered), found
    return found.value


def unknown(answer: AnswerType, text: str, **reply: Any) -> tuple[str, str]:
    found = read(answer, Reply(text, **reply))
    assert isinstance(found, Unknown), found
    return found.kind, found.detail


TRUE = [
    '{"answer": true}',
    "true",
    "True.",
    "YES",
    "yes!",
    '"true"',
    ' "Yes" ',
    '{"answer":"yes"}',
    '```json\n{"answer": true}\n```',
    "```\ntrue\n```",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_boolean_is_read_from_its_object_and_from_bare_words(text: str) -> None:
    assert value(BOOL, text) is True
    assert (
        value(
            BOOL,
            text.replace("true", "false")
            .replace("True", "False")
            .replace("YES", "No")
            .replace("Yes", "no")
            .replace("yes", "no"),
        )
        is False
    )


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ("Maybe", "unreadable", 'the reply is "Maybe", not true or false'),
        ("true or false?", "unreadable", 'the reply is "true or false?", not true or false'),
        ("not true", "unreadable", 'the reply is "not true", not true or false'),
        ("", "empty", "the reply is empty"),
        (" \n", "empty", "the reply is empty"),
        ("I can't help with that", "unreadable", 'the reply is "I can\'t help with that", not true or false'),
        ("Yes, but no.", "unreadable", 'the reply is "Yes, but no.", not true or false'),
        ("true?", "unreadable", 'the reply is "true?", not true or false'),
        ("1", "unreadable", 'the reply is "1", not true or false'),
        ('{"answer": 1}', "schema", "the reply is 1, not true or false"),
        ('{"answer": null}', "schema", "the reply is null, not true or false"),
        ('{"answer": "maybe"}', "unreadable", 'the reply is "maybe", not true or false'),
        ('{"answer": true} and more', "schema", "there is text after the JSON value"),
        (
            '{"answer": true, "why": "x"}',
            "schema",
            'the reply is {"answer":true,"why":"x"}, not an object with the one key "answer"',
        ),
        ('{"answer": true, "answer": false}', "schema", 'the key "answer" appears twice'),
        ("[true]", "schema", 'the reply is [true], not an object with the one key "answer"'),
        ('{"answer": NaN}', "schema", "NaN is not a JSON number"),
    ],
)
def test_a_boolean_that_is_not_said_plainly_is_unknown_by_name(text: str, kind: str, detail: str) -> None:
    assert unknown(BOOL, text) == (kind, detail)


def test_a_refusal_is_refused_whatever_it_says() -> None:
    assert unknown(BOOL, "true", stop="refusal") == ("refused", 'the model declined: "true"')
    assert unknown(TEXT, "", stop="refusal") == ("refused", "the model declined this request")


@pytest.mark.parametrize("answer", [BOOL, BIGINT, TEXT, TAGS, LIST, typed("DATE")], ids=lambda a: a.kind)
def test_an_empty_reply_that_was_cut_is_truncated(answer: AnswerType) -> None:
    assert unknown(answer, "", stop="length") == ("truncated", CUT)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (BOOL, "true"),
        (BIGINT, "37"),
        (TEXT, "All is"),
        (TAGS, '{"tags":["a"'),
        (JSON, "12"),
        (LIST, "a\nb"),
        (typed("DATE"), "2024-01-3"),
    ],
    ids=lambda v: v if isinstance(v, str) else v.kind,
)
def test_a_cut_reply_that_might_go_on_is_truncated(answer: AnswerType, text: str) -> None:
    assert unknown(answer, text, stop="length") == ("truncated", CUT)


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [(BOOL, '{"answer": true}', True), (TAGS, '{"tags":[]}', '{"tags":[]}'), (LIST, '{"items":["a"]}', '["a"]')],
    ids=lambda v: v.kind if isinstance(v, AnswerType) else None,
)
def test_a_cut_reply_that_is_complete_json_counts(answer: AnswerType, text: str, expected: Any) -> None:
    assert value(answer, text, stop="length") == expected


@pytest.mark.parametrize("text", ["3", '"3"', "3.0", "3e0", '{"answer": 3}', '{"answer": "3"}', "+3", "3.", " 3 "])
def test_a_whole_number_is_read_in_every_spelling(text: str) -> None:
    assert value(BIGINT, text) == 3


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ("3.5", "schema", "the reply is 3.5, not an integer"),
        ("three", "unreadable", 'the reply is "three", not an integer'),
        ("NaN", "unreadable", 'the reply is "NaN", not an integer'),
        ("9223372036854775808", "schema", "the reply is 9223372036854775808, outside the range of BIGINT"),
        ("1e99999", "schema", "the reply is 1e99999, not an integer"),
        ('{"answer": true}', "schema", "the reply is true, not an integer"),
        ("3 apples", "unreadable", 'the reply is "3 apples", not an integer'),
        ("1,000", "unreadable", 'the reply is "1,000", not an integer'),
    ],
)
def test_what_is_no_whole_number_is_unknown(text: str, kind: str, detail: str) -> None:
    assert unknown(BIGINT, text) == (kind, detail)


def test_a_number_of_a_million_digits_is_unknown_and_quick() -> None:
    assert unknown(BIGINT, "9" * 1_000_000)[0] == "schema"
    assert unknown(TAGS, '{"tags": ' + "9" * 1_000_000 + "}")[0] == "schema"


def test_a_narrow_integer_type_takes_only_what_it_holds() -> None:
    assert unknown(AnswerType("bigint", "UTINYINT"), "256") == (
        "schema",
        "the reply is 256, outside the range of UTINYINT",
    )
    assert value(AnswerType("bigint", "UTINYINT"), "255") == 255


def test_a_double_is_any_finite_number() -> None:
    assert value(DOUBLE, "-1.5e3") == -1500.0
    assert value(DOUBLE, '{"answer": ".5"}') == 0.5
    assert unknown(DOUBLE, "1e400") == ("schema", "the reply is 1e400, too large for a DOUBLE")
    assert unknown(DOUBLE, "Infinity") == ("unreadable", 'the reply is "Infinity", not a number')


def test_a_score_lies_between_0_and_1() -> None:
    assert [value(SCORE, t) for t in ("0", "1", "0.25")] == [0.0, 1.0, 0.25]
    assert unknown(SCORE, "1.01") == ("schema", "the reply is 1.01, not a number from 0 to 1")
    assert unknown(SCORE, "-0.1") == ("schema", "the reply is -0.1, not a number from 0 to 1")


def test_text_is_the_reply_as_it_is() -> None:
    assert value(TEXT, "  two words \n") == "  two words \n"
    assert value(TEXT, "a\x00b") == "a\x00b"
    assert value(TEXT, "x" * 8_000_000) == "x" * 8_000_000


def test_surrogates_join_and_lone_ones_are_replaced() -> None:
    assert value(TEXT, "\ud83d\ude00 \ud83d!") == "\U0001f600 \ufffd!"
    assert value(TAGS, r'{"tags":["\ud83d\ude00","\ud83d"]}') == '{"tags":["\U0001f600","\ufffd"]}'


def test_json_keeps_its_contents_byte_for_byte() -> None:
    text = r'{"tags":["http://x//y","a\nb","c\"d"],"n":1.50,"e":1E2,"big":123456789012345678901234567890}'
    assert value(JSON, text) == text
    assert value(JSON, '{ "a" : [ 1.0 , true , null ] }') == '{"a":[1.0,true,null]}'


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ('{"tags":"a"}', "schema", 'the answer.tags is "a", expected array'),
        ('{"tags":["a"]} trailing words', "schema", "there is text after the JSON value"),
        ("{}", "schema", 'the answer has no key "tags"'),
        ("[1]", "schema", "the answer is [1], expected object"),
        ('{"tags":[NaN]}', "schema", "NaN is not a JSON number"),
        ('{"tags":[],"tags":[1]}', "schema", 'the key "tags" appears twice'),
        ("Here it is: {}", "unreadable", "it is not JSON (expecting value at character 1)"),
        ('{"tags":[', "schema", "it is not JSON (expecting value at character 10)"),
        ("[" * 200_000, "schema", "the JSON is nested too deeply"),
    ],
    ids=lambda v: v[:24],
)
def test_json_that_is_not_valid_is_unknown_by_name(text: str, kind: str, detail: str) -> None:
    assert unknown(TAGS, text) == (kind, detail)


def test_a_fence_around_one_json_value_is_accepted() -> None:
    assert value(TAGS, '```json\n{"tags": ["```"]}\n```'.replace('```"', '``"')) == '{"tags":["``"]}'
    assert value(TAGS, '~~~\n{"tags": ["a"]}\n~~~\n') == '{"tags":["a"]}'
    assert unknown(TAGS, 'Sure:\n```json\n{"tags": ["a"]}\n```')[0] == "unreadable"


@pytest.mark.parametrize(
    ("short", "schema"),
    [
        (
            '{"name": "string"}',
            '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false}',
        ),
        (
            '{"type": "string", "name": "text"}',
            '{"type": "object", "properties": {"type": {"type": "string"}, "name": {"type": "string"}}, "required": ["type", "name"], '
            '"additionalProperties": false}',
        ),
        (
            '{"tags": ["int"], "at": {"x": "number"}}',
            '{"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "integer"}}, "at": {"type": "object", "properties": '
            '{"x": {"type": "number"}}, "required": ["x"], "additionalProperties": false}}, "required": ["tags", "at"], "additionalProperties": false}',
        ),
        (
            '{"n": "integer[]"}',
            '{"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}, "required": ["n"], "additionalProperties": false}',
        ),
        ('{"type":"array","items":{"type":"string"}}', '{"type": "array", "items": {"type": "string"}}'),
    ],
    ids=["one", "named-type", "nested", "brackets", "schema"],
)
def test_a_field_map_becomes_a_closed_object_and_a_schema_stays(short: str, schema: str) -> None:
    assert schema_for(AnswerType("json", "JSON", short)) == schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            "{",
            "the schema is not valid JSON: it is not JSON (expecting property name enclosed in double quotes at character 2)",
        ),
        ("[1]", "the schema is [1], not a JSON object"),
        ('{"name": "strin"}', 'the schema\'s field "name" has the unknown type "strin"'),
        ('{"type":"object","properties":{"a":{"type":"txt"}}}', 'the schema\'s field "a" has the unknown type "txt"'),
        (
            '{"type":"string","pattern":"("}',
            "the schema has a pattern that is no regular expression: missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_a_schema_that_cannot_be_read_is_a_plan_error_with_a_hint(schema: str, message: str) -> None:
    with pytest.raises(PlanError) as error:
        schema_for(AnswerType("json", "JSON", schema))
    assert error.value.message == message


@pytest.mark.parametrize(
    ("schema", "good", "bad", "fault"),
    [
        ({"enum": ["a", 1]}, "1", "true", 'the answer is true, expected one of "a", 1'),
        ({"const": 1}, "1.0", "2", "the answer is 2, expected 1"),
        ({"type": ["string", "null"]}, "null", "1", "the answer is 1, expected string or null"),
        ({"type": "integer"}, "3.0", "3.5", "the answer is 3.5, expected integer"),
        (
            {"type": "string", "minLength": 2, "maxLength": 3},
            '"ab"',
            '"abcd"',
            "the answer has 4 characters, expected at most 3",
        ),
        ({"type": "array", "items": {"type": "integer"}}, "[1]", '[1,"x"]', 'the answer[1] is "x", expected integer'),
        ({"type": "array", "minItems": 1}, "[0]", "[]", "the answer has 0 elements, expected at least 1"),
        ({"type": "array", "uniqueItems": True}, "[1,2]", "[1,1.0]", "the answer has equal elements"),
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "0", "1", "the answer is 1, expected less than 1"),
        ({"type": "number", "multipleOf": 0.1}, "0.3", "0.35", "the answer is 0.35, expected a multiple of 0.1"),
        ({"type": "string", "pattern": "^a"}, '"ab"', '"b"', 'the answer is "b", which does not match ^a'),
        (
            {"type": "object", "additionalProperties": False, "properties": {"a": {}}},
            '{"a":1}',
            '{"b":1}',
            'the answer has the unknown key "b"',
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            '{"k":1}',
            '{"k":"x"}',
            'the answer.k is "x", expected integer',
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "null",
            "1",
            "the answer is 1, which fits none of the 2 forms; the first: the answer is 1, expected string",
        ),
        (
            {"oneOf": [{"type": "number"}, {"type": "integer"}]},
            "1.5",
            "1",
            "the answer is 1, which fits 2 of the 2 forms, expected exactly one",
        ),
        ({"not": {"type": "string"}}, "1", '"x"', 'the answer is "x", which is not allowed'),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, "1", '"x"', 'the answer is "x", expected integer'),
    ],
    ids=lambda v: json.dumps(v)[:30] if isinstance(v, dict) else "",
)
def test_the_schema_is_what_decides(schema: dict[str, Any], good: str, bad: str, fault: str) -> None:
    answer = AnswerType("json", "JSON", json.dumps(schema))
    assert isinstance(read(answer, Reply(good)), Answered)
    assert read(answer, Reply(bad)) == Unknown("schema", fault)


def test_a_recursive_schema_is_followed() -> None:
    tree = {
        "$ref": "#/$defs/t",
        "$defs": {"t": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}},
    }
    answer = AnswerType("json", "JSON", json.dumps(tree))
    assert isinstance(read(answer, Reply('{"kids":[{"kids":[]}]}')), Answered)
    assert read(answer, Reply('{"kids":[{"kids":[1]}]}')) == Unknown(
        "schema", "the answer.kids[0].kids[0] is 1, expected object"
    )


@pytest.mark.parametrize(
    ("sql", "reply", "expected"),
    [
        ("DATE", '{"answer": "2024-02-29"}', dt.date(2024, 2, 29)),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("TIMESTAMP", '{"answer": "2024-01-31T10:00:00"}', dt.datetime(2024, 1, 31, 10)),
        ("TIMESTAMP", '{"answer": "2024-01-31T10:00:00.25+02:00"}', dt.datetime(2024, 1, 31, 8, 0, 0, 250000)),
        ("TIMESTAMP", "2024-01-31", dt.datetime(2024, 1, 31)),
        ("TIMESTAMP[]", '["2024-01-31 10:00:00+02:00", null]', [dt.datetime(2024, 1, 31, 8), None]),
        ("TIME", "10:30", dt.time(10, 30)),
        ("DECIMAL(10,2)", '{"answer": 12.5}', Decimal("12.50")),
        ("DECIMAL(19,2)", '{"answer": "12345678901234567.89"}', Decimal("12345678901234567.89")),
        ("DECIMAL(19,2)[]", "[12345678901234567.89]", [Decimal("12345678901234567.89")]),
        ("ENUM('happy','it''s, odd')", '{"answer": "it\'s, odd"}', "it's, odd"),
        ("UUID", "550e8400-e29b-41d4-a716-446655440000", UUID("550e8400-e29b-41d4-a716-446655440000")),
        ("INTERVAL", "2 hours 30 minutes", dt.timedelta(hours=2, minutes=30)),
        ("BLOB", "a\\x41", b"aA"),
        ("BIT", "0101", "0101"),
        ("FLOAT", "0.5", 0.5),
        ("DOUBLE[]", "[1.7976931348623157e+308, -5e-324]", [1.7976931348623157e308, -5e-324]),
        ("HUGEINT", '{"answer": 170141183460469231731687303715884105727}', 2**127 - 1),
        (
            'STRUCT(a INTEGER, "b c" VARCHAR[])',
            '{"answer": {"a": 1.0, "b c": ["x", null]}}',
            {"a": 1, "b c": ["x", None]},
        ),
        ("STRUCT(answer INTEGER)", '{"answer": {"answer": 4}}', {"answer": 4}),
        (
            "STRUCT(d DATE, t TIMESTAMP WITH TIME ZONE)",
            '{"d": "2024-01-01", "t": null}',
            {"d": dt.date(2024, 1, 1), "t": None},
        ),
        ("MAP(VARCHAR, INTEGER)", '{"answer": {"a": 1, "b": null}}', {"a": 1, "b": None}),
        ("MAP(INTEGER, DOUBLE)", '{"1": 2.5}', {1: 2.5}),
        ("INTEGER[3]", "[1, 2, 3]", (1, 2, 3)),
        ("INTEGER[][]", "[[1], [], null]", [[1], [], None]),
        ("STRUCT(x STRUCT(y ENUM('p','q')[]))[]", '[{"x": {"y": ["q"]}}]', [{"x": {"y": ["q"]}}]),
        ("BOOLEAN[]", '[true, "false"]', [True, False]),
        ("JSON[]", '[{"a": 1}]', ['{"a":1}']),
        ("VARCHAR[]", r'["a\u0000b", "\ud83d\ude00"]', ["a\x00b", "\U0001f600"]),
    ],
)
def test_a_typed_answer_is_cast_by_duckdb(sql: str, reply: str, expected: Any) -> None:
    text = value(typed(sql), reply)
    cast = "CAST(CAST(? AS JSON) AS {})" if parse_type(sql).nested else "CAST(? AS {})"
    assert duckdb.connect().execute(f"SELECT {cast.format(sql)}", [text]).fetchone() == (expected,)


@pytest.mark.parametrize(
    ("sql", "reply", "detail"),
    [
        ("DATE", '{"answer": "2024-02-30"}', 'the answer is "2024-02-30", not a date written YYYY-MM-DD'),
        ("DATE", "next week", 'the answer is "next week", not a date written YYYY-MM-DD'),
        ("DATE", '{"answer": null}', "the answer is null"),
        (
            "TIMESTAMP",
            "2024-01-31 25:00:00",
            'the answer is "2024-01-31 25:00:00", not a time written YYYY-MM-DD HH:MM:SS',
        ),
        (
            "TIMESTAMP",
            "0001-01-01 00:00:00+05:00",
            'the answer is "0001-01-01 00:00:00+05:00", outside the years 1 to 9999',
        ),
        ("DECIMAL(4,2)", "99.999", 'the answer is "99.999", too large for DECIMAL(4,2)'),
        ("DECIMAL(4,2)", '{"answer": "12,5"}', 'the answer is "12,5", not a number'),
        ("ENUM('a','b')", '{"answer": "c"}', 'the answer is "c", not one of a, b'),
        ("STRUCT(a INTEGER)", "{}", 'the answer has no key "a"'),
        ("STRUCT(a INTEGER)", '{"a": 1, "z": 2}', 'the answer has the unknown key "z"'),
        ("STRUCT(a INTEGER)", '{"a": 1.7}', "the answer.a is 1.7, not an integer"),
        ("STRUCT(a TINYINT)", '{"a": 200}', "the answer.a is 200, outside the range of TINYINT"),
        ("INTEGER[3]", "[1]", "the answer has 1 elements, not 3"),
        ("VARCHAR[]", '{"answer": "a"}', 'the answer is "a", not an array'),
        ("MAP(INTEGER, INTEGER)", '{"x": 1}', 'the answer\'s key is "x", not an integer'),
        ("MAP(INTEGER, INTEGER)", '{"1": 1, "1.0": 2}', "the answer has two keys that are equal as INTEGER"),
        ("FLOAT[]", "[3.5e38]", "the answer[0] is 3.5e38, not a number that FLOAT can hold"),
        ("INTERVAL", "a while", 'the answer is "a while", not an interval such as 3 days or 2 hours 30 minutes'),
    ],
)
def test_a_typed_answer_that_would_not_cast_is_unknown(sql: str, reply: str, detail: str) -> None:
    assert read(typed(sql), Reply(reply)) == Unknown("schema", detail)


def test_a_type_that_cannot_be_answered_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="cannot read the type STRUCT\\("):
        schema_for(typed("STRUCT("))
    with pytest.raises(PlanError, match="a model cannot answer with a UNION type"):
        schema_for(typed("UNION(a INTEGER, b VARCHAR)"))


def test_a_users_own_type_takes_text() -> None:
    assert value(typed("mood"), '{"answer": "happy"}') == "happy"


def types(depth: int = 2) -> st.SearchStrategy[str]:
    plain = st.sampled_from(
        ["INTEGER", "VARCHAR", "DOUBLE", "DATE", "BOOLEAN", "DECIMAL(9,3)", "TIMESTAMP", "ENUM('a','b')", "UBIGINT"]
    )
    if depth == 0:
        return plain
    inner = types(depth - 1)
    return st.one_of(
        plain,
        inner.map(lambda t: t + "[]"),
        inner.map(lambda t: f"MAP(VARCHAR, {t})"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: "STRUCT(" + ", ".join(f'"f {i}" {t}' for i, t in enumerate(ts)) + ")"
        ),
    )


def values_of(kind: DuckType) -> st.SearchStrategy[Any]:
    plain: dict[str, st.SearchStrategy[Any]] = {
        "INTEGER": st.integers(-(2**31), 2**31 - 1),
        "UBIGINT": st.integers(0, 2**64 - 1),
        "VARCHAR": st.text(st.characters(exclude_categories=["Cs"])),
        "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
        "BOOLEAN": st.booleans(),
        "DATE": st.dates().map(str),
        "TIMESTAMP": st.datetimes().map(str),
        "DECIMAL": st.decimals(-99999, 99999, places=3).map(str),
        "ENUM": st.sampled_from(["a", "b"]),
    }
    if kind.name in plain:
        return plain[kind.name]
    inner = [st.none() | values_of(part) for part in kind.parts]
    if kind.name == "LIST":
        return st.lists(inner[0], max_size=3)
    if kind.name == "MAP":
        return st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner[1], max_size=3)
    return st.fixed_dictionaries(dict(zip(kind.fields, inner, strict=True)))


# A shared machine must not fail a law by its load: no deadline, fewer examples.
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_is_accepted_for_a_type_casts(data: st.DataObject) -> None:
    sql = data.draw(types())
    kind = parse_type(sql)
    reply = json.dumps({"answer": data.draw(values_of(kind))})
    text = value(typed(sql), reply)
    cast = "CAST(CAST(? AS JSON) AS {})" if kind.nested else "CAST(? AS {})"
    assert CONNECTION.execute(f"SELECT {cast.format(sql)} IS NULL", [text]).fetchone() == (False,)


CONNECTION = duckdb.connect()


@settings(deadline=None)
@given(
    st.text(max_size=40) | st.from_regex(r"\A[\[{\"truefalsno0-9., :}\]]{0,20}\Z"),
    st.sampled_from(["end", "length", "refusal", "other"]),
)
def test_no_reply_raises(text: str, stop: str) -> None:
    for answer in (BOOL, BIGINT, DOUBLE, SCORE, TEXT, JSON, TAGS, LIST, typed("DATE"), typed("STRUCT(a DECIMAL(5,2))")):
        found = read(answer, Reply(text, stop=stop))
        assert isinstance(found, Answered | Unknown)
        if isinstance(found, Answered) and isinstance(found.value, float):
            assert math.isfinite(found.value)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('{"items": ["a", "b", "c"]}', ["a", "b"]),
        ('["a"]', ["a"]),
        ('{"ideas": ["a"]}', ["a"]),
        ("- a\n- b\n", ["a", "b"]),
        ("1. x\n2) y", ["x", "y"]),
        ("a\n\nb", ["a", "b"]),
        ('{"items": []}', []),
        ('{"items": [1, 2.50]}', ["1", "2.50"]),
    ],
)
def test_a_list_is_read_from_json_or_lines_and_holds_at_most_n(text: str, items: list[str]) -> None:
    found = read(LIST, Reply(text), 2)
    assert isinstance(found, Answered)
    assert json.loads(str(found.value)) == items


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ("Here are some:\n- a", "unreadable", "only some of the lines are list items"),
        ('{"items": [null]}', "schema", "the items hold null, expected strings"),
        ('{"a": 1, "b": 2}', "schema", 'the reply is {"a":1,"b":2}, not {"items": [...]}'),
        ('["a"] as asked', "schema", "there is text after the JSON value"),
    ],
)
def test_what_is_no_list_is_unknown(text: str, kind: str, detail: str) -> None:
    assert unknown(LIST, text) == (kind, detail)


def test_the_schemas_are_closed_objects() -> None:
    assert (
        schema_for(BOOL)
        == '{"type": "object", "properties": {"answer": {"type": "boolean"}}, "required": ["answer"], "additionalProperties": false}'
    )
    assert json.loads(schema_for(SCORE) or "")["properties"]["answer"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert json.loads(schema_for(LIST, 3) or "")["properties"]["items"] == {
        "type": "array",
        "items": {"type": "string"},
        "maxItems": 3,
    }
    assert json.loads(schema_for(typed("STRUCT(a DATE)")) or "")["properties"]["answer"] == {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "format": "date"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert schema_for(TEXT) is None
    assert schema_for(JSON) == "{}"


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (TEXT, ""),
        (BOOL, 'Reply with JSON only: {"answer": true} or {"answer": false}'),
        (BIGINT, 'Reply with JSON only: {"answer": n}, n an integer'),
        (DOUBLE, 'Reply with JSON only: {"answer": x}, x a number'),
        (SCORE, 'Reply with JSON only: {"answer": x}, x a number from 0 to 1'),
        (JSON, "Reply with JSON only."),
        (
            AnswerType("json", "JSON", '{"a":"int"}'),
            'Reply with JSON only, valid against this JSON schema: {"type": "object", "properties": {"a": {"type": "integer"}}, '
            '"required": ["a"], "additionalProperties": false}',
        ),
    ],
    ids=lambda v: v.kind if isinstance(v, AnswerType) else "",
)
def test_the_instruction_is_one_exact_line(answer: AnswerType, line: str) -> None:
    assert instruction_for(answer) == line
    if schema_for(answer) is not None:
        assert instruction_of(schema_for(answer)) == line


def test_the_repair_message_says_what_was_wrong_and_asks_again() -> None:
    reply = Reply("Maybe")
    found = read(BOOL, reply)
    assert isinstance(found, Unknown)
    assert repair_message(BOOL, reply, found) == (
        'Your reply could not be used: the reply is "Maybe", not true or false. Reply with JSON only: {"answer": true} or {"answer": false}'
    )
    assert repair_message(TEXT, Reply(""), Unknown("empty", "the reply is empty")) == (
        "Your reply could not be used: the reply is empty. Reply with the answer only."
    )


def test_one_reader_reads_many_replies() -> None:
    reader = AnswerReader.of(BOOL)
    assert [reader.read(Reply(t)) for t in ("true", "no")] == [Answered(True), Answered(False)]
