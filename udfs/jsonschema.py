"""JSON schemas of callers: reading them (short field maps too) and checking a value against them.

The part of JSON Schema that structured output uses: type, properties, required, additionalProperties, items, enum, const, anyOf, oneOf, allOf,
not, local $ref, minimum and its kin, multipleOf, minLength, maxLength, pattern, minItems, maxItems, uniqueItems. Other keywords are
annotations and are not checked.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kleene.planner.errors import PlanError
from kleene.udfs.ducktypes import closed
from kleene.udfs.jsontext import Json, JsonProblem, Number, brief, parse, plain

_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_SHORT = {
    "text": "string",
    "str": "string",
    "varchar": "string",
    "int": "integer",
    "bigint": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "bool": "boolean",
}
_DECISIVE = frozenset(
    {"type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "not", "$ref", "required", "$schema"}
)
_KEYWORDS = _DECISIVE | {
    *(
        "additionalProperties",
        "prefixItems",
        "contains",
        "if",
        "then",
        "else",
        "dependentRequired",
        "patternProperties",
        "propertyNames",
    ),
    *(
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
    ),
    *(
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "$id",
        "$defs",
        "$comment",
        "definitions",
        "title",
        "description",
        "default",
    ),
    *("examples", "format", "readOnly", "writeOnly", "deprecated", "nullable"),
}
_HINT = 'write a JSON schema, or the short form {"name": "string", "tags": ["string"], "count": "integer"}'


def read_schema(text: str) -> dict[str, Any]:
    """Read a caller's schema; a field map such as ``{"name": "string"}`` becomes a closed object with every field required. Raises ``PlanError``."""
    try:
        value = plain(parse(text))
    except JsonProblem as problem:
        raise PlanError(f"the schema is not valid JSON: {problem.detail}", hint=_HINT) from None
    if not isinstance(value, dict):
        raise PlanError(f"the schema is {brief_of(value)}, not a JSON object", hint=_HINT)
    schema = value if is_schema(value) else _fields(value)
    _check_schema(schema, "the schema")
    return schema


def brief_of(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def is_schema(value: dict[str, Any]) -> bool:
    """Whether an object is a JSON schema, as opposed to a map of field names to types.

    >>> is_schema({"type": "string"}), is_schema({"type": "string", "name": "string"}), is_schema({"enum": "string"})
    (True, False, False)
    """
    if not value:
        return True
    if not _KEYWORDS.issuperset(value) or not _DECISIVE.intersection(value):
        return False
    shapes: dict[str, Any] = {
        "properties": dict,
        "items": (dict, bool),
        "enum": list,
        "required": list,
        "not": (dict, bool),
    }
    shapes |= dict.fromkeys(("anyOf", "oneOf", "allOf"), list)
    if not all(isinstance(value[k], shape) for k, shape in shapes.items() if k in value):
        return False
    kinds = value.get("type", [])
    return all(k in _TYPES for k in ([kinds] if isinstance(kinds, str) else kinds))


def violation(schema: Any, value: Json, *, root: Any = None, where: str = "the answer") -> str | None:
    """Say what is wrong with a value, or None where it satisfies the schema. The first fault found is told."""
    root = schema if root is None else root
    if schema is True or schema == {}:
        return None
    if schema is False:
        return f"{where} is not allowed"
    for keyword, check in _CHECKS:
        if keyword in schema and (fault := check(schema, value, root, where)):
            return fault
    return None


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    return closed({name: _field(name, kind) for name, kind in value.items()})


def _field(name: str, kind: Any) -> dict[str, Any]:
    if isinstance(kind, dict):
        return kind if is_schema(kind) else _fields(kind)
    if isinstance(kind, list) and len(kind) == 1:
        return {"type": "array", "items": _field(name, kind[0])}
    if isinstance(kind, str):
        word = kind.strip()
        if word.endswith("[]"):
            return {"type": "array", "items": _field(name, word[:-2])}
        word = _SHORT.get(word.lower(), word.lower())
        if word in _TYPES:
            return {"type": word}
    raise PlanError(
        f'the schema\'s field "{name}" has the unknown type {brief_of(kind)}',
        hint=f"types are {', '.join(_TYPES)}; {_HINT}",
    )


def _check_schema(schema: Any, where: str) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise PlanError(f"{where} is {brief_of(schema)}, not a JSON schema", hint=_HINT)
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            raise PlanError(f"{where} has the unknown type {brief_of(kind)}", hint=f"types are {', '.join(_TYPES)}")
    if "pattern" in schema:
        try:
            re.compile(schema["pattern"])
        except (re.error, TypeError) as error:
            raise PlanError(f"{where} has a pattern that is no regular expression: {error}") from None
    for name, inner in {**schema.get("properties", {}), **schema.get("$defs", {})}.items():
        _check_schema(inner, f'{where}\'s field "{name}"')
    for keyword in ("items", "additionalProperties", "not"):
        if keyword in schema:
            _check_schema(schema[keyword], f"{where}'s {keyword}")
    for keyword in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(keyword, []):
            _check_schema(inner, f"{where}'s {keyword}")


def _is(kind: str, value: Json) -> bool:
    if kind == "integer":
        return isinstance(value, Number) and (value.integer() is not None or value.text.lstrip("-").isdigit())
    python = {"string": str, "number": Number, "boolean": bool, "object": dict, "array": list, "null": type(None)}[kind]
    return isinstance(value, python)


def _type(schema: Any, value: Json, root: Any, where: str) -> str | None:
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if schema.get("nullable") is True:
        kinds = [*kinds, "null"]
    return None if any(_is(k, value) for k in kinds) else f"{where} is {brief(value)}, expected {' or '.join(kinds)}"


def _same(schema_value: Any, value: Json) -> bool:
    return _canonical(schema_value) == _canonical(plain(value))


def _canonical(value: Any) -> str:
    """JSON in which 1 and 1.0 are equal and 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_canonical(v)}" for k, v in sorted(value.items())) + "}"
    return json.dumps(value)


def _enum(schema: Any, value: Json, root: Any, where: str) -> str | None:
    allowed = schema["enum"]
    return (
        None
        if any(_same(a, value) for a in allowed)
        else f"{where} is {brief(value)}, expected one of {', '.join(map(brief_of, allowed))}"
    )


def _const(schema: Any, value: Json, root: Any, where: str) -> str | None:
    return None if _same(schema["const"], value) else f"{where} is {brief(value)}, expected {brief_of(schema['const'])}"


def _ref(schema: Any, value: Json, root: Any, where: str) -> str | None:
    target = root
    for step in str(schema["$ref"]).removeprefix("#").strip("/").split("/"):
        target = (
            target.get(step.replace("~1", "/").replace("~0", "~"), {}) if step and isinstance(target, dict) else target
        )
    return violation(target, value, root=root, where=where) if target is not schema else None


def _any_of(schema: Any, value: Json, root: Any, where: str) -> str | None:
    faults = [violation(s, value, root=root, where=where) for s in schema["anyOf"]]
    return (
        None
        if None in faults
        else f"{where} is {brief(value)}, which fits none of the {len(faults)} forms; the first: {faults[0]}"
    )


def _one_of(schema: Any, value: Json, root: Any, where: str) -> str | None:
    fits = sum(violation(s, value, root=root, where=where) is None for s in schema["oneOf"])
    return (
        None
        if fits == 1
        else f"{where} is {brief(value)}, which fits {fits} of the {len(schema['oneOf'])} forms, expected exactly one"
    )


def _all_of(schema: Any, value: Json, root: Any, where: str) -> str | None:
    return next((f for s in schema["allOf"] if (f := violation(s, value, root=root, where=where))), None)


def _not(schema: Any, value: Json, root: Any, where: str) -> str | None:
    return (
        f"{where} is {brief(value)}, which is not allowed"
        if violation(schema["not"], value, root=root) is None
        else None
    )


def _required(schema: Any, value: Json, root: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return None
    return next((f'{where} has no key "{k}"' for k in schema["required"] if k not in value), None)


def _properties(schema: Any, value: Json, root: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return None
    known = schema["properties"].items()
    return next(
        (f for k, s in known if k in value and (f := violation(s, value[k], root=root, where=f"{where}.{k}"))), None
    )


def _additional(schema: Any, value: Json, root: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return None
    patterns = schema.get("patternProperties", {})
    more = [k for k in value if k not in schema.get("properties", {}) and not any(re.search(p, k) for p in patterns)]
    if schema["additionalProperties"] is False:
        return f'{where} has the unknown key "{more[0]}"' if more else None
    inner = schema["additionalProperties"]
    return next((f for k in more if (f := violation(inner, value[k], root=root, where=f"{where}.{k}"))), None)


def _items(schema: Any, value: Json, root: Any, where: str) -> str | None:
    if not isinstance(value, list):
        return None
    inner = schema["items"]
    return next((f for i, v in enumerate(value) if (f := violation(inner, v, root=root, where=f"{where}[{i}]"))), None)


def _sizes(schema: Any, value: Json, root: Any, where: str) -> str | None:
    for kind, name, unit in ((str, "Length", "characters"), (list, "Items", "elements"), (dict, "Properties", "keys")):
        if isinstance(value, kind):
            low, high = schema.get(f"min{name}", 0), schema.get(f"max{name}", len(value))
            if not low <= len(value) <= high:
                bound = f"at least {low}" if len(value) < low else f"at most {high}"
                return f"{where} has {len(value)} {unit}, expected {bound}"
    return None


def _unique(schema: Any, value: Json, root: Any, where: str) -> str | None:
    if not isinstance(value, list) or schema["uniqueItems"] is not True:
        return None
    texts = [_canonical(plain(v)) for v in value]
    return f"{where} has equal elements" if len(set(texts)) < len(texts) else None


def _pattern(schema: Any, value: Json, root: Any, where: str) -> str | None:
    fits = not isinstance(value, str) or re.search(schema["pattern"], value)
    return None if fits else f"{where} is {brief(value)}, which does not match {schema['pattern']}"


def _bounds(schema: Any, value: Json, root: Any, where: str) -> str | None:
    if not isinstance(value, Number):
        return None
    for keyword, (fits, words) in _COMPARISONS.items():
        bound = schema.get(keyword)
        if (
            isinstance(bound, int | float)
            and not isinstance(bound, bool)
            and not fits(value.value, Decimal(str(bound)))
        ):
            return f"{where} is {brief(value)}, expected {words} {bound}"
    return None


_COMPARISONS: dict[str, tuple[Callable[[Decimal, Decimal], bool], str]] = {
    "minimum": (operator.ge, "at least"),
    "maximum": (operator.le, "at most"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "exclusiveMaximum": (operator.lt, "less than"),
    "multipleOf": (lambda number, step: number.adjusted() > 25 or number % step == 0, "a multiple of"),
}
_SIZE_WORDS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_CHECKS = (
    ("type", _type),
    ("enum", _enum),
    ("const", _const),
    ("required", _required),
    ("properties", _properties),
    ("additionalProperties", _additional),
    ("items", _items),
    *((word, _sizes) for word in _SIZE_WORDS),
    *((word, _bounds) for word in _COMPARISONS),
    ("uniqueItems", _unique),
    ("pattern", _pattern),
    ("anyOf", _any_of),
    ("oneOf", _one_of),
    ("allOf", _all_of),
    ("not", _not),
    ("$ref", _ref),
)
