"""A terminal of the tests' own: what a person would see on it, without the progress that is taken away again."""

from __future__ import annotations

import io
import re

CONTROL = re.compile(r"\r|\x1b\[[0-9;?]*[A-Za-z]")


class Screen(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def take(self) -> str:
        """What is seen since the last look."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return seen(text)


def seen(text: str) -> str:
    """The lines that are left when a transient display has cleared its own.

    >>> seen("one\\n⠋ 3 calls\\x1b[2K\\rtwo\\n")
    'one\\ntwo\\n'
    """
    lines, row = [""], 0
    at = 0
    for match in [*CONTROL.finditer(text), None]:
        for i, part in enumerate(text[at : match.start() if match else len(text)].split("\n")):
            if i:
                row += 1
                if row == len(lines):
                    lines.append("")
            lines[row] += part
        if match is None:
            break
        at = match.end()
        if match[0].endswith("K"):
            lines[row] = ""
        elif match[0].endswith("A"):
            row = max(0, row - int(match[0][2:-1] or 1))
    return "\n".join(lines)
