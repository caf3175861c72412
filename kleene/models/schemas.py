"""A JSON schema in the form each wire accepts. The reply is still checked against the caller's own schema."""

from __future__ import annotations

import json
from typing import Any

import attrs

from kleene.udfs.jsontext import JsonProblem, dump, parse

_ANTHROPIC_DROPS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "maxItems",
    }
    | {"uniqueItems", "minProperties", "maxProperties", "$schema", "$id", "$comment", "default", "examples", "nullable"}
)
_ANTHROPIC_LACKS = frozenset({"oneOf", "not", "if", "patternProperties", "propertyNames", "prefixItems", "contains"})


@attrs.frozen
class WireSchema:
    """``wrapped``: the root was no object, so it was put into ``{"answer": ...}`` and the reply must be taken out again.
    ``strict``: every object is closed and every key required, as strict decoding wants it."""

    schema: dict[str, Any]
    wrapped: bool = False
    strict: bool = True

    def unwrap(self, text: str) -> str:
        """The reply's text as an answer to the caller's schema. Text that is not the wrapper is returned as it is."""
        if not self.wrapped:
            return text
        try:
            value = parse(text)
        except JsonProblem:
            return text
        return dump(value["answer"]) if isinstance(value, dict) and list(value) == ["answer"] else text


def for_openai(text: str) -> WireSchema:
    """For chat completions and Open Responses: any schema; strict where its objects allow it."""
    schema, wrapped = _rooted(json.loads(text))
    shut = _closed(schema)
    return WireSchema(shut, wrapped, True) if _strict(shut) else WireSchema(schema, wrapped, False)


def for_anthropic(text: str) -> WireSchema | None:
    """For Messages' structured output: closed objects, no bounds; None where the schema cannot be said there (open maps, oneOf)."""
    schema, wrapped = _rooted(json.loads(text))
    shut = _without_bounds(_closed(schema))
    return WireSchema(shut, wrapped) if _sayable(shut) else None


def _rooted(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    if schema.get("type") == "object":
        return schema, False
    lifted: dict[str, Any] = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
    inner = {k: v for k, v in schema.items() if k not in lifted}
    return {
        "type": "object",
        "properties": {"answer": inner},
        "required": ["answer"],
        "additionalProperties": False,
        **lifted,
    }, True


def _map(schema: Any, change: Any) -> Any:
    """Apply ``change`` to a schema after its inner schemas."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for keyword in ("properties", "$defs", "definitions"):
        if isinstance(made.get(keyword), dict):
            made[keyword] = {k: _map(v, change) for k, v in made[keyword].items()}
    for keyword in ("items", "additionalProperties", "not"):
        if keyword in made:
            made[keyword] = _map(made[keyword], change)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(made.get(keyword), list):
            made[keyword] = [_map(v, change) for v in made[keyword]]
    return change(made)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    def close(part: dict[str, Any]) -> dict[str, Any]:
        return (
            {**part, "additionalProperties": False}
            if "properties" in part and "additionalProperties" not in part
            else part
        )

    found: dict[str, Any] = _map(schema, close)
    return found


def _without_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    def drop(part: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in part.items() if k not in _ANTHROPIC_DROPS}
        if isinstance(kept.get("minItems"), int):
            kept["minItems"] = min(kept["minItems"], 1)
        return kept

    found: dict[str, Any] = _map(schema, drop)
    return found


def _parts(schema: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def keep(part: dict[str, Any]) -> dict[str, Any]:
        found.append(part)
        return part

    _map(schema, keep)
    return found


def _is_object(part: dict[str, Any]) -> bool:
    kinds = part.get("type")
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds)


def _strict(schema: dict[str, Any]) -> bool:
    for part in _parts(schema):
        if not part or {"oneOf", "not", "allOf", "if", "patternProperties"} & set(part):
            return False
        if _is_object(part):
            names = part.get("properties")
            if (
                not names
                or part.get("additionalProperties") is not False
                or set(part.get("required", ())) != set(names)
            ):
                return False
    return True


def _sayable(schema: dict[str, Any]) -> bool:
    return all(
        part
        and not _ANTHROPIC_LACKS & set(part)
        and (not _is_object(part) or part.get("additionalProperties") is False)
        for part in _parts(schema)
    )
