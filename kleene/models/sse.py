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
        self._text = ""
        self._event = ""
        self._data: list[str] = []
        self._first = True

    def feed(self, data: bytes) -> list[SseEvent]:
        text = self._text + self._decoder.decode(data)
        if self._first and text:
            text = text.removeprefix("\ufeff")
            self._first = False
        # A CR at the end may be half of a CRLF: it waits for what follows.
        held = text.endswith("\r")
        lines = (text[:-1] if held else text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._text = lines.pop() + ("\r" if held else "")
        return [event for line in lines if (event := self._line(line)) is not None]

    def close(self) -> list[SseEvent]:
        rest = self._text + self._decoder.decode(b"", final=True)
        self._text = ""
        events = [self._line(line) for line in [*rest.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]]
        return [event for event in events if event is not None]

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
