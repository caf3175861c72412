"""Schemas in the form each wire accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kleene.models.schemas import WireSchema, for_anthropic, for_openai
from kleene.planner.specs import AnswerType
from kleene.udfs.answers import schema_for

OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
SHUT = {**OPEN, "additionalProperties": False}


def test_objects_are_closed_and_strict_when_every_key_is_required() -> None:
    assert for_openai(json.dumps(OPEN)) == WireSchema(SHUT, False, True)
    assert for_anthropic(json.dumps(OPEN)) == WireSchema(SHUT, False, True)


def test_an_optional_key_is_not_strict_and_the_schema_goes_as_it_is() -> None:
    loose = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert for_openai(json.dumps(loose)) == WireSchema(loose, False, False)
    assert for_anthropic(json.dumps(loose)) == WireSchema({**loose, "additionalProperties": False}, False, True)


def test_bounds_go_to_openai_and_not_to_anthropic() -> None:
    bounded = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 3, "maxItems": 5}
        },
    }
    bounded |= {"required": ["a"], "additionalProperties": False}
    found = for_anthropic(json.dumps(bounded))
    assert found is not None and found.schema["properties"]["a"] == {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 1,
    }
    assert for_openai(json.dumps(bounded)).schema == bounded


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}},
        {"type": "object", "properties": {"a": {}}},
    ],
    ids=["map", "oneOf", "anything"],
)
def test_what_messages_cannot_say_is_asked_for_in_words(schema: dict[str, Any]) -> None:
    assert for_anthropic(json.dumps(schema)) is None
    assert not for_openai(json.dumps(schema)).strict


def test_a_root_that_is_no_object_is_wrapped_with_its_definitions() -> None:
    schema = {"$ref": "#/$defs/t", "$defs": {"t": SHUT}}
    found = for_openai(json.dumps(schema))
    assert (
        found.wrapped
        and found.schema["properties"] == {"answer": {"$ref": "#/$defs/t"}}
        and found.schema["$defs"] == {"t": SHUT}
    )
    assert found.unwrap('{"answer": {"a": "x"}}') == '{"a":"x"}'
    assert found.unwrap("not json") == "not json"
    assert found.unwrap('{"other": 1}') == '{"other": 1}'


@pytest.mark.parametrize("kind", ["bool", "bigint", "double", "score", "list"])
def test_the_plain_answers_are_native_everywhere(kind: str) -> None:
    schema = schema_for(AnswerType(kind, "VARCHAR"), 3)
    assert schema is not None and for_openai(schema).strict and for_anthropic(schema) is not None


def test_struct_and_list_types_are_native_everywhere_and_maps_in_words() -> None:
    for sql, native in (
        ("STRUCT(a DATE, b STRUCT(c INTEGER)[])", True),
        ("INTEGER[3]", True),
        ("MAP(VARCHAR, INTEGER)", False),
    ):
        schema = schema_for(AnswerType("typed", sql)) or ""
        assert (for_anthropic(schema) is not None) is native
        assert for_openai(schema).strict is native


def test_any_json_is_wrapped_for_openai_and_in_words_for_anthropic() -> None:
    found = for_openai("{}")
    assert (found.schema["properties"], found.strict, found.unwrap('{"answer": [1.50]}')) == (
        {"answer": {}},
        False,
        "[1.50]",
    )
    assert for_anthropic("{}") is None
