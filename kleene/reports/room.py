"""Texts of a report within its bounds: each is cut in its middle, and the shorter the fuller the report is."""

from __future__ import annotations

import attrs

TEXT = 6_000  # characters of one text
ALL = 1_500_000  # of all
LEAST = 240  # of one when all are used up


@attrs.define
class Room:
    """``cut`` says how many texts were cut."""

    left: int = ALL
    cut: int = 0

    def take(self, text: str | None, most: int = TEXT) -> str | None:
        """The text, or its beginning and end with the count of what is left out between them.

        >>> Room().take("a" * 50 + "b" * 50, 40)
        'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\n… 60 characters left out …\\nbbbbbbbbbb'
        """
        if text is None:
            return None
        most = min(most, max(self.left, LEAST))
        if len(text) > most:
            self.cut += 1
            head, tail = most * 3 // 4, most // 4
            text = f"{text[:head]}\n… {len(text) - head - tail:,} characters left out …\n{text[-tail:]}"
        self.left -= len(text)
        return text
