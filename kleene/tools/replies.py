"""What is said between Kleene and the process that reads documents: messages of JSON, each after its length.

Never pickled: who reads hostile files may have been taken over by one.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable, Iterable
from typing import Any

import attrs

HEAD = struct.Struct("<I")
BATCH_CHARACTERS = 1 << 16
"""Rows are sent together up to about this size."""


@attrs.frozen
class Request:
    """``job``: kind, text, pages or tables, of which only the ``wanted`` have rows. ``seconds``: the alarm is set to so many."""

    name: str
    job: str
    wanted: str | None = None
    seconds: float = 0.0

    def packed(self) -> bytes:
        return packed([self.name, self.job, self.wanted, self.seconds])


class TooLarge(Exception):
    """A message that is not read."""


Read = Callable[[int], bytes]
"""So many bytes from the other side. Raises ``EOFError`` where it ended."""


def packed(message: Any) -> bytes:
    """A message with its length. Whatever JSON has no form for is a date, a time, or its text.

    >>> data = packed(["rows", [[1, [dt.date(2026, 1, 31), "\\ud800", None]]]])
    >>> received(lambda size, parts=iter([data[:4], data[4:]]): next(parts), 1_000)
    ['rows', [[1, [datetime.date(2026, 1, 31), '\\ud800', None]]]]
    """
    return _framed(json.dumps(message, ensure_ascii=False, default=_form, separators=(",", ":")))


def packed_rows(rows: Iterable[Any]) -> Iterable[bytes]:
    """Rows as several messages ``["rows", [...]]`` of a bearable size."""
    held: list[str] = []
    size = 0
    for row in rows:
        held.append(json.dumps(row, ensure_ascii=False, default=_form, separators=(",", ":")))
        size += len(held[-1])
        if size > BATCH_CHARACTERS:
            yield _framed(f'["rows",[{",".join(held)}]]')
            held, size = [], 0
    if held:
        yield _framed(f'["rows",[{",".join(held)}]]')


def received(read: Read, most: int) -> Any:
    """The next message. Raises ``TooLarge`` for one of more than ``most`` bytes, ``ValueError`` for one that is none."""
    (size,) = HEAD.unpack(read(HEAD.size))
    if size > most:
        raise TooLarge
    try:
        return json.loads(read(size).decode("utf-8", "surrogatepass"), object_hook=_value)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _framed(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return HEAD.pack(len(data)) + data


def _form(value: Any) -> dict[str, str]:
    if isinstance(value, dt.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, dt.time):
        return {"time": value.isoformat()}
    return {"text": str(value)}


_VALUES: dict[str, Callable[[str], Any]] = {
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "text": str,
}


def _value(form: dict[str, Any]) -> Any:
    kind, text = next(iter(form.items()), ("", None))
    if kind not in _VALUES or not isinstance(text, str):
        raise ValueError("it has no such value")
    return _VALUES[kind](text)
