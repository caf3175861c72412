"""Server-sent events, from bytes cut anywhere."""

from __future__ import annotations

import codecs

import attrs


@attrs.frozen
class SseEvent:
    """``event`` is empty where the stream names none; ``data`` is the data lines joined by newlines."""

    event: str
    data: str


class SseParser:
    """Feed bytes as they come; complete events come back. LF, CRLF and CR end lines; comments are dropped; bytes that are no UTF-8 become U+FFFD.

    ``close`` returns the last event where the stream ended without a blank line.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending: list[str] = []  # pieces of a line that has not ended
        self._held = False  # a CR at the end may be half of a CRLF: it waits for what follows
        self._event = ""
        self._data: list[str] = []
        self._first = True

    def feed(self, data: bytes) -> list[SseEvent]:
        text = self._decoder.decode(data)
        if not text:
            return []
        if self._first:
            text = text.removeprefix("\ufeff")
            self._first = False
        text = "\r" + text if self._held else text
        self._held = text.endswith("\r")
        text = text[:-1] if self._held else text
        if "\n" not in text and "\r" not in text:
            self._pending.append(text)
            return []
        lines = _lines("".join(self._pending) + text)
        self._pending = [lines.pop()]
        return [event for line in lines if (event := self._line(line)) is not None]

    def close(self) -> list[SseEvent]:
        rest = "".join(self._pending) + ("\n" if self._held else "") + self._decoder.decode(b"", final=True)
        self._pending, self._held = [], False
        return [event for line in [*_lines(rest), ""] if (event := self._line(line)) is not None]

    def _line(self, line: str) -> SseEvent | None:
        if line == "":
            event = SseEvent(self._event, "\n".join(self._data)) if self._data else None
            self._event, self._data = "", []
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        return None


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
