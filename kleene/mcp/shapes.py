"""From JSON schemas to SQL: a tool's parameters and columns, its arguments as JSON, and its results as rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from kleene.planner.errors import ToolError
from kleene.planner.specs import Param

MAX_PARAMS = 100
MAX_STEPS = 200
MAX_REFS = 20
NAME_CHARACTERS = 60
DESCRIPTION_CHARACTERS = 200
ERROR_CHARACTERS = 2_000
INT64 = 1 << 63
TEXT = "text"

Schema = Mapping[str, Any]


@attrs.frozen
class Shape:
    """What SQL sees of a tool. ``keys`` are the server's own names of the params; ``rows`` is the property that holds the rows, ``""`` where
    the result is one row, None where it is text; ``outer`` are the columns from beside the rows; ``fields`` the server's names of the columns."""

    params: tuple[Param, ...]
    required: int
    columns: tuple[Param, ...]
    keys: tuple[str, ...]
    fields: tuple[str, ...] = ()
    rows: str | None = None
    outer: int = 0
    read_only: bool = False
    description: str = ""


def shape_of(declared: Mapping[str, Any]) -> Shape:
    """The shape of a tool as ``tools/list`` declares it (as JSON). Raises ``ToolError`` where it cannot be called by position.

    >>> shape = shape_of({"name": "add", "inputSchema": {"type": "object", "required": ["b"],
    ...     "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}})
    >>> shape.params, shape.required, shape.columns
    ((Param(name='b', type='VARCHAR'), Param(name='a', type='BIGINT')), 1, (Param(name='text', type='VARCHAR'),))
    """
    root = _object(declared.get("inputSchema"))
    properties = _object(root.get("properties"))
    named = root.get("required")
    wanted = [n for n in properties if isinstance(named, list) and n in named]
    order = [*wanted, *(n for n in properties if n not in wanted)]
    if len(order) > MAX_PARAMS:
        raise ToolError(f"it has {len(order):,} parameters, more than {MAX_PARAMS}", kind="unsupported")
    names = unique([sql_name(n) for n in order])
    params = tuple(Param(sql, type_of(_object(properties[n]), root)) for sql, n in zip(names, order, strict=True))
    annotations = _object(declared.get("annotations"))
    shape = Shape(
        params,
        len(wanted),
        (Param(TEXT, "VARCHAR"),),
        tuple(order),
        read_only=annotations.get("readOnlyHint") is True,
        description=_summary(declared.get("description")),
    )
    return _with_columns(shape, declared.get("outputSchema"))


def type_of(schema: Schema, root: Schema) -> str:
    """The DuckDB type of a schema's values; what has no clear one is JSON.

    >>> [type_of(s, {}) for s in ({"type": "integer"}, {"type": ["number", "null"]}, {"type": "array", "items": {"type": "string"}}, {})]
    ['BIGINT', 'DOUBLE', 'VARCHAR[]', 'JSON']
    """
    return _type(schema, root, iter(range(MAX_STEPS)))


def _type(schema: Schema, root: Schema, steps: Iterator[int]) -> str:
    """``steps`` are shared by all that is looked at: references may lead in circles, and apart."""
    if next(steps, None) is None:
        return "JSON"
    schema = resolved(schema, root)
    found = {_type(_object(s), root, steps) for s in _alternatives(schema)}
    if found:
        return _common(found)
    kind = schema.get("type")
    kinds = [k for k in (kind if isinstance(kind, list) else [kind]) if k != "null"]
    if kinds == ["array"]:
        inner = _type(_object(schema.get("items")), root, steps)
        return f"{inner}[]" if inner in ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN") else "JSON"
    known = {"string": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
    if kinds and kinds != [None]:
        return _common({known.get(k, "JSON") if isinstance(k, str) else "JSON" for k in kinds})
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return "VARCHAR" if isinstance(values, list) and values and all(isinstance(v, str) for v in values) else "JSON"


def resolved(schema: Schema, root: Schema) -> Schema:
    """The schema that a ``$ref`` into the same document names; what leads nowhere is a schema of anything."""
    for _ in range(MAX_REFS):
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return schema
        place: Any = root
        for step in ref.removeprefix("#").split("/")[1:]:
            place = _object(place).get(step.replace("~1", "/").replace("~0", "~"))
        schema = _object(place) if ref.startswith("#") else {}
    return {}


def sql_name(name: str) -> str:
    """A name that SQL takes without quotes.

    >>> sql_name("get-sum"), sql_name("2nd"), sql_name("größe"), sql_name("")
    ('get_sum', '_2nd', 'gr__e', '_')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:NAME_CHARACTERS]
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


def tool_name(server: str, tool: str) -> str:
    """``<server>_<tool>``, as SQL takes it. Names that begin with ``kleene_`` are Kleene's own.

    >>> tool_name("my-files", "readFile"), tool_name("kleene", "callsql")
    ('my_files_readFile', 'mcp_kleene_callsql')
    """
    name = sql_name(f"{server}_{tool}")
    return f"mcp_{name}" if name.lower().startswith("kleene_") else name


def unique(names: Iterable[str], taken: Collection[str] = ()) -> list[str]:
    """The names, with ``_2`` and so on behind one that is there already (SQL does not tell upper from lower case).

    >>> unique(["a", "A", "b"], ["B"])
    ['a', 'A_2', 'b_2']
    """
    held = {t.lower() for t in taken}
    made = []
    for name in names:
        mine, n = name, 1
        while mine.lower() in held:
            n += 1
            mine = f"{name}_{n}"
        held.add(mine.lower())
        made.append(mine)
    return made


def arguments_json(shape: Shape, values: Sequence[Any]) -> dict[str, Any]:
    """The arguments as the server takes them; optional ones that are NULL are left out. Raises ``ToolError`` for what JSON cannot say."""
    given: dict[str, Any] = {}
    for key, param, value in zip(shape.keys, shape.params, values, strict=True):
        if value is None:
            continue
        if not _is_finite(value):
            raise ToolError(f"{param.name} is not a number that JSON has: {value}", kind="invalid arguments")
        given[key] = value
    return given


def rows_of(shape: Shape, structured: Any, texts: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of a result. Raises ``ToolError`` where it is not what the tool declares."""
    if shape.rows is None:
        return [(text,) for text in texts]
    if structured is None:
        raise _malformed("no structured result")
    if shape.fields == ("",):  # the result itself is the value
        items = structured if isinstance(structured, list) and shape.rows == "[]" else [structured]
        return [(_cell(item, shape.columns[0]),) for item in items]
    inner = len(shape.columns) - shape.outer
    if shape.rows == "[]":
        items, around = structured, {}
    elif shape.rows:
        around = _expected(structured, dict)
        items = around.get(shape.rows)
    else:
        items, around = [structured], {}
    rows = []
    for item in _expected([] if items is None else items, list):
        found = _expected(item, dict)
        cells = [_cell(found.get(f), c) for f, c in zip(shape.fields[:inner], shape.columns[:inner], strict=True)]
        cells += [_cell(around.get(f), c) for f, c in zip(shape.fields[inner:], shape.columns[inner:], strict=True)]
        rows.append(tuple(cells))
    return rows


def _with_columns(shape: Shape, output: Any) -> Shape:
    """The shape with the columns that an output schema declares; without one it stays text."""
    if not isinstance(output, Mapping) or not output:
        return shape
    root = output
    schema = resolved(output, root)
    if schema.get("type") == "array":
        item = resolved(_object(schema.get("items")), root)
        fields = _fields(item)
        if fields:
            return _columned(shape, root, list(fields.items()), [], "[]")
        return attrs.evolve(shape, columns=(Param("value", type_of(item, root)),), fields=("",), rows="[]")
    fields = _fields(schema)
    if not fields:
        return attrs.evolve(shape, columns=(Param("value", type_of(schema, root)),), fields=("",), rows="")
    lists = [(n, _rows_of(_object(s), root)) for n, s in fields.items()]
    tables = [(n, inner) for n, inner in lists if inner]
    if len(tables) != 1:
        return _columned(shape, root, list(fields.items()), [], "")
    name, inner = tables[0]
    return _columned(shape, root, list(inner.items()), [(n, s) for n, s in fields.items() if n != name], name)


def _columned(
    shape: Shape, root: Schema, inner: list[tuple[str, Any]], outer: list[tuple[str, Any]], rows: str
) -> Shape:
    every = [*inner, *outer][:MAX_PARAMS]
    outer = every[len(inner) :]
    names = unique([sql_name(n) for n, _ in every])
    columns = tuple(Param(sql, type_of(_object(s), root)) for sql, (_, s) in zip(names, every, strict=True))
    return attrs.evolve(shape, columns=columns, fields=tuple(n for n, _ in every), rows=rows, outer=len(outer))


def _rows_of(schema: Schema, root: Schema) -> Mapping[str, Any]:
    """The fields of an array of objects; nothing for any other schema."""
    schema = resolved(schema, root)
    return _fields(resolved(_object(schema.get("items")), root)) if schema.get("type") == "array" else {}


def _fields(schema: Schema) -> Mapping[str, Any]:
    return _object(schema.get("properties")) if schema.get("type", "object") == "object" else {}


def _alternatives(schema: Schema) -> list[Any]:
    for word in ("anyOf", "oneOf"):
        options = schema.get(word)
        if isinstance(options, list) and options:
            return [s for s in options[:MAX_PARAMS] if _object(s).get("type") != "null"]
    whole = schema.get("allOf")
    return whole if isinstance(whole, list) and len(whole) == 1 else []


def _common(found: set[str]) -> str:
    """The type that holds values of several: text where one is text and none is nested."""
    if len(found) == 1:
        return next(iter(found))
    if found == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    scalar = found <= {"VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"}
    return "VARCHAR" if scalar and "VARCHAR" in found else "JSON"


def _cell(value: Any, column: Param) -> Any:
    """The value as the column takes it. Raises ``ToolError`` for one of another type."""
    kind = column.type
    if value is None or kind == "JSON":
        return value
    if kind.endswith("[]"):
        return [_cell(item, Param(column.name, kind[:-2])) for item in _expected(value, list)]
    if kind == "VARCHAR":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if kind == "BOOLEAN":
        return _expected(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _malformed(f"{column.name} = {_brief(value)}, no number")
    if kind == "DOUBLE":
        try:
            return float(value)
        except OverflowError:
            raise _malformed(f"{column.name} = {_brief(value)}, no number of 64 bits") from None
    whole = isinstance(value, int) or value.is_integer()
    if not whole or not -INT64 <= value < INT64:
        raise _malformed(f"{column.name} = {_brief(value)}, no whole number of 64 bits")
    return int(value)


def _expected(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        wanted = {dict: "an object", list: "a list", bool: "true or false"}[kind]
        raise _malformed(f"{_brief(value)} where it declares {wanted}")
    return value


def _malformed(found: str) -> ToolError:
    return ToolError(f"its result is malformed: {found}", kind="other", hint="this is the server's fault")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_finite(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _summary(text: Any) -> str:
    """The first paragraph of a description on one line, cut: it stands in every prompt, and is not ours."""
    if not isinstance(text, str):
        return ""
    first = " ".join("".join(c if c.isprintable() else " " for c in text.strip().split("\n\n")[0]).split())
    return first if len(first) <= DESCRIPTION_CHARACTERS else first[: DESCRIPTION_CHARACTERS - 1] + "…"
