"""Strict JSON, as replies are read: no duplicate keys, no NaN, numbers kept as they were written, no lone surrogates.

Python's own reader is kept from deciding anything: ``1.50`` stays ``1.50``, a 5,000-digit integer is text until somebody asks for its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import attrs

Json: TypeAlias = "bool | str | Number | list[Json] | dict[str, Json] | None"

_SURROGATE = re.compile("[\ud800-\udfff]")
_FENCED = re.compile(
    r"\s*(?P<mark>`{3,}|~{3,})[ \t]*[\w+.-]*[ \t]*\r?\n(?P<body>.*?)\r?\n?[ \t]*(?P=mark)\s*", re.DOTALL
)


class JsonProblem(Exception):
    """Text that is not one valid JSON value. ``began``: it starts with one (prose follows), or breaks a rule inside one."""

    def __init__(self, detail: str, *, began: bool):
        super().__init__(detail)
        self.detail = detail
        self.began = began


@attrs.frozen
class Number:
    """A JSON number as it was written."""

    text: str

    @property
    def value(self) -> Decimal:
        return Decimal(self.text)

    def integer(self) -> int | None:
        """The whole number this is (``3``, ``3.0``, ``3e2``), or None. Numbers of more than 60 digits are None: no DuckDB type holds them."""
        try:
            value = Decimal(self.text)
        except InvalidOperation:
            return None
        if value.is_zero():
            return 0
        return int(value) if value.adjusted() < 60 and value == value.to_integral_value() else None


def clean(text: str) -> str:
    """Join surrogate pairs that arrived as two characters and turn lone ones into U+FFFD, so that the text can be encoded."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def unfence(text: str) -> str:
    """Take one Markdown fence around the whole text off; any other text is returned without outer blanks."""
    match = _FENCED.fullmatch(text)
    body = match["body"] if match and match["mark"] not in match["body"] else text
    return body.strip().removeprefix("\ufeff").strip()


def parse(text: str) -> Json:
    """Read one JSON value that is the whole text (blanks and one fence apart). Raises ``JsonProblem``."""
    body = unfence(text)
    try:
        return _cleaned(_DECODER.decode(body))
    except json.JSONDecodeError as error:
        detail, began = _syntax(body, error)
        raise JsonProblem(detail, began=began) from None
    except RecursionError:
        raise JsonProblem("the JSON is nested too deeply", began=True) from None


def dump(value: Json) -> str:
    """Write compact JSON. Numbers are written as they were read, strings with their characters, keys in their order."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


def brief(value: Json, limit: int = 60) -> str:
    """The JSON of a value, cut for a message."""
    text = dump(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def plain(value: Json) -> Any:
    """The value with Python numbers, for comparisons and for schemas."""
    if isinstance(value, Number):
        whole = value.integer() if not set(value.text) & set(".eE") else None
        return float(value.text) if whole is None else whole
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [k for k, _ in pairs]
        twice = next(k for k in names if names.count(k) > 1)
        raise JsonProblem(f'the key "{clean(twice)}" appears twice', began=True)
    return made


def _constant(name: str) -> Json:
    raise JsonProblem(f"{name} is not a JSON number", began=True)


def _syntax(body: str, error: json.JSONDecodeError) -> tuple[str, bool]:
    if error.msg == "Extra data":
        return "there is text after the JSON value", True
    return f"it is not JSON ({error.msg[0].lower()}{error.msg[1:]} at character {error.pos + 1})", body[:1] in (
        "{",
        "[",
        '"',
    )


def _cleaned(value: Json) -> Json:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(v) for v in value]
    if isinstance(value, Mapping):
        return {clean(k): _cleaned(v) for k, v in value.items()}
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_constant, strict=False
)
