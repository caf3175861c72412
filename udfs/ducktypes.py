"""DuckDB type names as trees: what JSON a value of the type is, and whether a given JSON value will cast.

A value that passes ``DuckType.check`` casts without an error, so that a statement never fails on a reply:
``CAST(text AS T)`` for the plain types, ``CAST(CAST(text AS JSON) AS T)`` for STRUCT, LIST, ARRAY and MAP. Names that are not DuckDB's
own (a user's CREATE TYPE) take a string that DuckDB alone can judge.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import attrs

from kleene.planner.errors import PlanError
from kleene.udfs.jsontext import Json, Number, brief

INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
_ALIASES = {
    "BOOL": "BOOLEAN",
    "LOGICAL": "BOOLEAN",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "SIGNED": "INTEGER",
    "INT8": "BIGINT",
    "LONG": "BIGINT",
    "OID": "BIGINT",
    "INT16": "SMALLINT",
    "INT32": "INTEGER",
    "INT64": "BIGINT",
    "INT128": "HUGEINT",
    "UINT8": "UTINYINT",
    "UINT16": "USMALLINT",
    "UINT32": "UINTEGER",
    "UINT64": "UBIGINT",
    "UINT128": "UHUGEINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "DOUBLE PRECISION": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "CHAR": "VARCHAR",
    "BPCHAR": "VARCHAR",
    "NVARCHAR": "VARCHAR",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_US": "TIMESTAMP",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
    "TIME WITHOUT TIME ZONE": "TIME",
    "BYTEA": "BLOB",
    "BINARY": "BLOB",
    "VARBINARY": "BLOB",
    "BITSTRING": "BIT",
    "GUID": "UUID",
    "ROW": "STRUCT",
    "VARINT": "BIGNUM",
}
_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")
_NESTED = ("STRUCT", "LIST", "ARRAY", "MAP")
_FORMATS = {"DATE": "date", "TIME": "time", "UUID": "uuid", **dict.fromkeys(_TIMESTAMPS, "date-time")}
_TOKEN = re.compile(r"\s*(\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|\d+|\w+|[()\[\],])")
_TIME = r"(?P<h>[01]\d|2[0-3]):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d)(?:\.(?P<f>\d{1,9}))?)?"
_TIME_ONLY = re.compile(_TIME)
_TIMESTAMP = re.compile(rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[T ]{_TIME} ?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_INTERVAL = re.compile(
    r"[+-]?\d{1,6} (?:year|month|week|day|hour|minute|second)s?(?: [+-]?\d{1,6} (?:year|month|week|day|hour|minute|second)s?)*",
    re.I,
)


class Mismatch(Exception):
    """A JSON value that is not of the type. ``str`` says where, what was found and what was expected."""


@attrs.frozen
class DuckType:
    """``name`` is DuckDB's own upper-case name (or the user's). ``fields`` names the STRUCT's; ``parts`` holds the inner types
    (STRUCT's fields, LIST's and ARRAY's element, MAP's key and value); ``labels`` an ENUM's; ``size`` DECIMAL's width and scale, ARRAY's length."""

    name: str
    parts: tuple[DuckType, ...] = ()
    fields: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    size: tuple[int, ...] = ()

    @property
    def nested(self) -> bool:
        return self.name in _NESTED

    def schema(self) -> dict[str, Any]:
        """The JSON schema of a value. Objects are closed; what lies inside STRUCT, LIST and MAP may be null, as in DuckDB."""
        if self.name == "STRUCT":
            return closed({f: nullable(p.schema()) for f, p in zip(self.fields, self.parts, strict=True)})
        if self.name == "LIST":
            return {"type": "array", "items": nullable(self.parts[0].schema())}
        if self.name == "ARRAY":
            return {
                "type": "array",
                "items": nullable(self.parts[0].schema()),
                "minItems": self.size[0],
                "maxItems": self.size[0],
            }
        if self.name == "MAP":
            return {"type": "object", "additionalProperties": nullable(self.parts[1].schema())}
        if self.name == "ENUM":
            return {"type": "string", "enum": list(self.labels)}
        if self.name == "BOOLEAN":
            return {"type": "boolean"}
        if self.name in INTEGERS or self.name == "BIGNUM":
            return {"type": "integer"}
        if self.name in ("FLOAT", "DOUBLE", "DECIMAL"):
            return {"type": "number"}
        if self.name == "JSON":
            return {}
        return {"type": "string", "format": _FORMATS[self.name]} if self.name in _FORMATS else {"type": "string"}

    def check(self, value: Json, where: str = "the answer") -> Json:
        """Return the value in the form that DuckDB casts to this type. Raises ``Mismatch``. Times with an offset become UTC."""
        if self.name == "STRUCT":
            return self._struct(value, where)
        if self.name in ("LIST", "ARRAY"):
            return self._list(value, where)
        if self.name == "MAP":
            return self._map(value, where)
        if self.name == "JSON":
            return value
        return _scalar(self, value, where)

    def _struct(self, value: Json, where: str) -> Json:
        if not isinstance(value, dict):
            raise Mismatch(f"{where} is {brief(value)}, not an object with the keys {', '.join(self.fields)}")
        if missing := [f for f in self.fields if f not in value]:
            raise Mismatch(f'{where} has no key "{missing[0]}"')
        if extra := [k for k in value if k not in self.fields]:
            raise Mismatch(f'{where} has the unknown key "{extra[0]}"')
        return {f: p.optional(value[f], f"{where}.{f}") for f, p in zip(self.fields, self.parts, strict=True)}

    def _list(self, value: Json, where: str) -> Json:
        if not isinstance(value, list):
            raise Mismatch(f"{where} is {brief(value)}, not an array")
        if self.name == "ARRAY" and len(value) != self.size[0]:
            raise Mismatch(f"{where} has {len(value)} elements, not {self.size[0]}")
        return [self.parts[0].optional(v, f"{where}[{i}]") for i, v in enumerate(value)]

    def _map(self, value: Json, where: str) -> Json:
        if not isinstance(value, dict):
            raise Mismatch(f"{where} is {brief(value)}, not an object")
        keys = [self.parts[0].check(_key(self.parts[0], k), f"{where}'s key") for k in value]
        texts = [k if isinstance(k, str) else brief(k) for k in keys]
        if len(set(texts)) < len(texts):
            raise Mismatch(f"{where} has two keys that are equal as {self.parts[0].name}")
        return {t: self.parts[1].optional(v, f'{where}["{k}"]') for t, (k, v) in zip(texts, value.items(), strict=True)}

    def optional(self, value: Json, where: str) -> Json:
        return None if value is None else self.check(value, where)


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these keys."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, or null."""
    if not schema:
        return schema
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


def parse_type(sql: str) -> DuckType:
    """Read a type as DuckDB writes it: ``STRUCT(a INTEGER, "b c" VARCHAR[])``, ``DECIMAL(10,2)``, ``ENUM('a', 'b')``. Raises ``PlanError``."""
    tokens = _tokens(sql)
    try:
        made = _type(tokens)
        if next(tokens, None) is None:
            return made
    except PlanError:
        raise
    except (StopIteration, IndexError, ValueError):
        pass
    raise PlanError(
        f"cannot read the type {sql}",
        hint="write it as DuckDB does: STRUCT(name VARCHAR, tags VARCHAR[]), DECIMAL(10,2), DATE",
    )


class _Peekable(Iterator[str]):
    def __init__(self, items: list[str]) -> None:
        self._items = items
        self._at = 0

    def __next__(self) -> str:
        if self._at >= len(self._items):
            raise StopIteration
        self._at += 1
        return self._items[self._at - 1]

    def peek(self) -> str:
        return self._items[self._at] if self._at < len(self._items) else ""

    def take(self, *expected: str) -> bool:
        """Step over these tokens when they are next, else stay."""
        found = [t.upper() for t in self._items[self._at : self._at + len(expected)]] == list(expected)
        self._at += len(expected) if found else 0
        return found


def _tokens(sql: str) -> _Peekable:
    items: list[str] = []
    at = 0
    while at < len(sql.rstrip()):
        match = _TOKEN.match(sql, at)
        if match is None:
            return _Peekable(["(", "("])
        items.append(match[1])
        at = match.end()
    return _Peekable(items)


def _type(tokens: _Peekable) -> DuckType:
    word = next(tokens)
    if not (word[0] == '"' or word[0].isalpha() or word[0] == "_"):
        raise ValueError(word)
    made = _named(word, tokens)
    while True:
        if tokens.take("["):
            length = next(tokens)
            if length == "]":
                made = DuckType("LIST", (made,))
                continue
            made = DuckType("ARRAY", (made,), size=(int(length),))
            _expect(tokens, "]")
        elif tokens.take("ARRAY"):
            made = DuckType("LIST", (made,))
        else:
            return made


def _named(word: str, tokens: _Peekable) -> DuckType:
    if word[0] == '"':
        return DuckType(word[1:-1].replace('""', '"'))
    name = word.upper()
    if name == "DOUBLE" and tokens.take("PRECISION"):
        return DuckType("DOUBLE")
    if name in ("TIMESTAMP", "TIME"):
        if tokens.take("WITH", "TIME", "ZONE"):
            name += " WITH TIME ZONE"
        else:
            tokens.take("WITHOUT", "TIME", "ZONE")
    name = _ALIASES.get(name, name)
    if name == "UNION":
        raise PlanError(
            "a model cannot answer with a UNION type", hint="return a STRUCT with one field for each member"
        )
    if name in ("STRUCT", "MAP", "ENUM", "LIST"):
        return _composite(name, tokens)
    size = tuple(int(a) for a in _arguments(tokens)) if tokens.peek() == "(" else ()
    if name == "DECIMAL":
        size = {0: (18, 3), 1: (*size, 0)}.get(len(size), size)
    return DuckType(name, size=size if name == "DECIMAL" else ())


def _composite(name: str, tokens: _Peekable) -> DuckType:
    if name == "ENUM":
        return DuckType("ENUM", labels=tuple(a[1:-1].replace("''", "'") for a in _arguments(tokens)))
    _expect(tokens, "(")
    fields, parts = [], []
    while True:
        if name == "STRUCT":
            field = next(tokens)
            fields.append(field[1:-1].replace('""', '"') if field[0] == '"' else field)
        parts.append(_type(tokens))
        if not tokens.take(","):
            break
    _expect(tokens, ")")
    if len(parts) != {"MAP": 2, "LIST": 1}.get(name, len(parts)):
        raise ValueError(name)
    return DuckType(name, tuple(parts), fields=tuple(fields))


def _arguments(tokens: _Peekable) -> list[str]:
    _expect(tokens, "(")
    found = [next(tokens)]
    while tokens.take(","):
        found.append(next(tokens))
    _expect(tokens, ")")
    return found


def _expect(tokens: _Peekable, token: str) -> None:
    if next(tokens) != token:
        raise ValueError(token)


def _key(kind: DuckType, text: str) -> Json:
    number = kind.name in INTEGERS or kind.name in ("FLOAT", "DOUBLE", "DECIMAL")
    return Number(text) if number and re.fullmatch(r"-?\d+(\.\d+)?", text) else text


def _scalar(kind: DuckType, value: Json, where: str) -> Json:
    if value is None:
        raise Mismatch(f"{where} is null")
    reader = _READERS.get(kind.name, _string)
    if kind.name in INTEGERS:
        reader = _integer
    elif kind.name in _TIMESTAMPS:
        reader = _timestamp
    return reader(kind, value, where)


def _string(kind: DuckType, value: Json, where: str) -> Json:
    if not isinstance(value, str):
        raise Mismatch(f"{where} is {brief(value)}, not a string")
    return value


def _boolean(kind: DuckType, value: Json, where: str) -> Json:
    if isinstance(value, str) and value.strip().casefold() in ("true", "false"):
        return value.strip().casefold() == "true"
    if not isinstance(value, bool):
        raise Mismatch(f"{where} is {brief(value)}, not true or false")
    return value


def number_of(value: Json) -> Number | None:
    """The number a JSON value stands for: a number, or a string that is nothing but one."""
    if isinstance(value, Number):
        return value
    if isinstance(value, str) and re.fullmatch(r"[+-]?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d{1,5})?", value.strip()):
        text = value.strip().removeprefix("+")
        return Number(text.replace(".", "0.", 1) if text.lstrip("-").startswith(".") else text)
    return None


def _integer(kind: DuckType, value: Json, where: str) -> Json:
    number = number_of(value)
    whole = None if number is None else number.integer()
    if whole is None:
        raise Mismatch(f"{where} is {brief(value)}, not an integer")
    low, high = INTEGERS[kind.name]
    if not low <= whole <= high:
        raise Mismatch(f"{where} is {brief(value)}, outside the range of {kind.name}")
    return Number(str(whole))


def _bignum(kind: DuckType, value: Json, where: str) -> Json:
    number = number_of(value)
    if number is None or not re.fullmatch(r"-?\d+", number.text):
        raise Mismatch(f"{where} is {brief(value)}, not an integer")
    return number


def _double(kind: DuckType, value: Json, where: str) -> Json:
    number = number_of(value)
    limit = 3.4028234e38 if kind.name == "FLOAT" else sys.float_info.max
    if number is None or not abs(float(number.text)) <= limit:
        raise Mismatch(
            f"{where} is {brief(value)}, not a number" + ("" if number is None else f" that {kind.name} can hold")
        )
    return number


def _decimal(kind: DuckType, value: Json, where: str) -> Json:
    number = number_of(value)
    if number is None:
        raise Mismatch(f"{where} is {brief(value)}, not a number")
    width, scale = kind.size
    try:
        with localcontext() as context:
            context.prec = 60
            rounded = number.value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    except InvalidOperation:
        rounded = Decimal("Infinity")
    if not abs(rounded) < Decimal(10) ** (width - scale):
        raise Mismatch(f"{where} is {brief(value)}, too large for DECIMAL({width},{scale})")
    return Number(format(rounded, "f"))


def _enum(kind: DuckType, value: Json, where: str) -> Json:
    if not isinstance(value, str) or value not in kind.labels:
        raise Mismatch(f"{where} is {brief(value)}, not one of {', '.join(kind.labels)}")
    return value


def _date(kind: DuckType, value: Json, where: str) -> Json:
    if (
        not isinstance(value, str)
        or not re.fullmatch(r"\d{4}-\d\d-\d\d", value.strip())
        or not _real_date(value.strip())
    ):
        raise Mismatch(f"{where} is {brief(value)}, not a date written YYYY-MM-DD")
    return value.strip()


def _time(kind: DuckType, value: Json, where: str) -> Json:
    if not isinstance(value, str) or not _TIME_ONLY.fullmatch(value.strip()):
        raise Mismatch(f"{where} is {brief(value)}, not a time written HH:MM:SS")
    text = value.strip()
    return text if text.count(":") == 2 else text + ":00"


def _timestamp(kind: DuckType, value: Json, where: str) -> Json:
    match = _TIMESTAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not _real_date(match["date"]):
        raise Mismatch(f"{where} is {brief(value)}, not a time written YYYY-MM-DD HH:MM:SS")
    hour, minute, second = int(match["h"] or 0), int(match["m"] or 0), int(match["s"] or 0)
    moment = dt.datetime.combine(dt.date.fromisoformat(match["date"]), dt.time(hour, minute, second))
    zone = match["zone"]
    if zone:
        try:
            moment -= _offset(zone)
        except OverflowError:
            raise Mismatch(f"{where} is {brief(value)}, outside the years 1 to 9999") from None
    fraction = f".{match['f']}" if match["f"] else ""
    # DuckDB's JSON cast drops an offset inside lists and structs: every offset is applied here.
    return moment.isoformat(sep=" ") + fraction + ("+00" if zone and kind.name.endswith("ZONE") else "")


def _offset(zone: str) -> dt.timedelta:
    if zone == "Z":
        return dt.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    shift = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -shift if zone[0] == "-" else shift


def _real_date(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _uuid(kind: DuckType, value: Json, where: str) -> Json:
    if not isinstance(value, str) or not _UUID.fullmatch(value.strip()):
        raise Mismatch(f"{where} is {brief(value)}, not a UUID")
    return value.strip()


def _interval(kind: DuckType, value: Json, where: str) -> Json:
    if not isinstance(value, str) or not _INTERVAL.fullmatch(value.strip()):
        raise Mismatch(f"{where} is {brief(value)}, not an interval such as 3 days or 2 hours 30 minutes")
    return value.strip()


def _blob(kind: DuckType, value: Json, where: str) -> Json:
    if not isinstance(value, str) or not value.isascii() or re.search(r"\\(?!x[0-9a-fA-F]{2})", value):
        raise Mismatch(f"{where} is {brief(value)}, not bytes written as ASCII and \\x00 escapes")
    return value


def _bit(kind: DuckType, value: Json, where: str) -> Json:
    if not isinstance(value, str) or not re.fullmatch("[01]+", value):
        raise Mismatch(f"{where} is {brief(value)}, not a string of 0 and 1")
    return value


_READERS = {
    "BOOLEAN": _boolean,
    "BIGNUM": _bignum,
    "FLOAT": _double,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "ENUM": _enum,
    "DATE": _date,
    "TIME": _time,
    "UUID": _uuid,
    "INTERVAL": _interval,
    "BLOB": _blob,
    "BIT": _bit,
}
