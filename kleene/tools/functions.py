"""Python functions as tools: their annotations say which columns they take and give."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from kleene.planner.errors import ConfigError
from kleene.planner.specs import Param, Volatility
from kleene.tools.base import Tool, Work

_TYPES: dict[Any, str] = {
    str: "VARCHAR",
    int: "BIGINT",
    float: "DOUBLE",
    bool: "BOOLEAN",
    bytes: "BLOB",
    datetime.date: "DATE",
    datetime.datetime: "TIMESTAMP",
    datetime.time: "TIME",
    decimal.Decimal: "DECIMAL(38, 9)",
    dict: "JSON",
    Any: "VARCHAR",
}
_READ: dict[Any, Callable[[str], Any]] = {
    datetime.date: datetime.date.fromisoformat,
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    decimal.Decimal: decimal.Decimal,
    bytes: lambda text: text.encode("utf-8", "surrogateescape"),
}
_MANY = (list, tuple, set, frozenset, Iterable, Iterator, Sequence)


def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    volatility: str = "stable",
    returns: Mapping[str, Any] | None = None,
    description: str | None = None,
) -> Tool:
    """Make a Python function a tool: a table function, or with ``volatility='volatile'`` one that has effects and runs under CALL.

    Its parameters' annotations give the SQL types (str, int, float, bool, date, datetime, list[...], dict as JSON; none: VARCHAR).
    ``returns`` maps columns to types, as Python types or DuckDB's names; without it the return annotation does: a dataclass, attrs class,
    NamedTuple or TypedDict is a row, a list or iterator of them several, anything else a column ``value``. The function runs in a worker
    thread, several at a time where a statement uses it on several rows. One that does not return is left running when the statement ends, and
    after a minute. Raises ``ConfigError``.

    >>> def shout(text: str, times: int = 1) -> list[str]:
    ...     return [text.upper()] * times
    >>> made = tool(shout)
    >>> made.params, made.required, made.columns
    ((Param(name='text', type='VARCHAR'), Param(name='times', type='BIGINT')), 1, (Param(name='value', type='VARCHAR'),))
    >>> list(made.run(None, ("a", 2)))
    [('A',), ('A',)]
    """
    if not callable(function):
        raise ConfigError(f"a tool is a function, not {type(function).__name__}", hint="tools=[function, ...]")
    named = str(name or getattr(function, "__name__", ""))
    if not named.isidentifier() or named.startswith("kleene_"):
        raise ConfigError(f"{named!r} cannot be a tool's name", hint="kleene.tool(function, name='lookup')")
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"the tool {named} is an async function", hint="give a plain function; it runs in a thread")
    kinds = {v.value.lower(): v for v in Volatility}
    if volatility.lower() not in kinds:
        raise ConfigError(
            f"volatility is {volatility!r}", hint="'stable' for one that only looks, 'volatile' for effects"
        )
    hints = _hints(function)
    accepted = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    required = sum(p.default is p.empty for p in accepted)
    wanted = [hints.get(p.name, Any) for p in accepted]
    params = tuple(Param(p.name, _sql(a, named)) for p, a in zip(accepted, wanted, strict=True))
    columns = _declared(returns, named) if returns is not None else _columns(hints.get("return", Any), named)

    def run(work: Work, arguments: tuple[Any, ...]) -> Iterable[tuple[Any, ...]]:
        given = [
            p.default if value is None and i >= required else _python(value, annotation)
            for i, (p, annotation, value) in enumerate(zip(accepted, wanted, arguments, strict=True))
        ]
        return (_row(item, columns, named) for item in _items(function(*given)))

    text = description if description is not None else (inspect.getdoc(function) or "").partition("\n")[0]
    return Tool(named, params, required, columns, run, kinds[volatility.lower()], text, stops=False)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # a name that exists for type checkers only
        return dict(getattr(function, "__annotations__", {}))


def _bare(annotation: Any) -> Any:
    """The annotation without None and other wrappers."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        left = [a for a in typing.get_args(annotation) if a is not type(None)]
        return _bare(left[0]) if len(left) == 1 else Any
    return annotation


def _sql(annotation: Any, name: str) -> str:
    if isinstance(annotation, str):
        return annotation
    annotation = _bare(annotation)
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _MANY:
        return f"{_sql(inside[0] if inside else Any, name)}[]"
    if annotation in _MANY:
        return "VARCHAR[]"
    if origin in (dict, Mapping) or _fields(annotation) is not None:
        return "JSON"
    if annotation in _TYPES:
        return _TYPES[annotation]
    if isinstance(annotation, type):
        for known, sql in _TYPES.items():
            if isinstance(known, type) and issubclass(annotation, known):
                return sql
    raise ConfigError(
        f"the tool {name} has a type without a DuckDB type: {annotation}",
        hint="annotate it with str, int, float, bool, date, datetime, list[...] or dict",
    )


def _fields(annotation: Any) -> dict[str, Any] | None:
    """The fields of a class whose objects are rows."""
    if not isinstance(annotation, type):
        return None
    rows = dataclasses.is_dataclass(annotation) or attrs.has(annotation) or hasattr(annotation, "_fields")
    if rows or typing.is_typeddict(annotation):
        return {n: a for n, a in typing.get_type_hints(annotation).items() if not n.startswith("_")}
    return None


def _declared(returns: Mapping[str, Any], name: str) -> tuple[Param, ...]:
    if not returns:
        raise ConfigError(f"the tool {name} returns no column", hint="returns={'value': str}")
    return tuple(Param(column, _sql(kind, name)) for column, kind in returns.items())


def _columns(annotation: Any, name: str) -> tuple[Param, ...]:
    annotation = _bare(annotation)
    if typing.get_origin(annotation) in _MANY:
        annotation = _bare((typing.get_args(annotation) or (Any,))[0])
    elif annotation in _MANY or annotation is type(None):
        annotation = Any
    fields = _fields(annotation)
    if fields is not None:
        return tuple(Param(n, _sql(a, name)) for n, a in fields.items())
    return (Param("value", _sql(annotation, name)),)


def _python(value: Any, annotation: Any) -> Any:
    read = _READ.get(_bare(annotation))
    return read(value) if read is not None and isinstance(value, str) else value


def _items(result: Any) -> Iterable[Any]:
    """The rows of a result: of a table, list or iterator its items, else itself; of None none."""
    if result is None:
        return ()
    if hasattr(result, "to_arrow"):  # polars
        result = result.to_arrow()
    if hasattr(result, "to_pylist"):  # Arrow
        return result.to_pylist()  # type: ignore[no-any-return]
    if hasattr(result, "to_dict") and hasattr(result, "columns"):  # pandas
        return result.to_dict("records")  # type: ignore[no-any-return]
    is_row = isinstance(result, str | bytes | Mapping) or _fields(type(result)) is not None
    return [result] if is_row or not isinstance(result, Iterable) else result


def _row(item: Any, columns: Sequence[Param], name: str) -> tuple[Any, ...]:
    if isinstance(item, Mapping) and not (len(columns) == 1 and columns[0].type == "JSON"):
        return tuple(item.get(c.name) for c in columns)
    if _fields(type(item)) is not None and all(hasattr(item, c.name) for c in columns):
        return tuple(getattr(item, c.name) for c in columns)
    if isinstance(item, tuple | list) and not (len(columns) == 1 and columns[0].type.endswith("]")):
        if len(item) != len(columns):
            raise ValueError(f"a row of {name} has {len(item)} values for {len(columns)} columns")
        return tuple(item)
    if len(columns) == 1:
        return (item,)
    raise ValueError(f"a row of {name} is {type(item).__name__}; give a dict or a tuple of {len(columns)} values")
