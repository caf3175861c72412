"""The three standard streams as the commands see them: results go to ``out``, everything that is said to ``err``."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Mapping
from typing import TextIO


class Terminal:
    """``quiet`` silences notes and warnings, never errors and never results."""

    def __init__(
        self,
        stdin: TextIO | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ):
        # A stream that the parent process closed is None in sys.
        self.stdin = stdin or sys.stdin or io.StringIO()
        self.out = out or sys.stdout or io.StringIO()
        self.err = err or sys.stderr or io.StringIO()
        self.environ = os.environ if environ is None else environ
        self.quiet = False
        for stream in (self.out, self.err):
            # A terminal that cannot show a character gets its escape: a result is never lost to an encoding.
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")

    @property
    def shows_tables(self) -> bool:
        return self.out.isatty()

    @property
    def shows_progress(self) -> bool:
        return self.err.isatty() and not self.quiet and self.environ.get("TERM") != "dumb"

    @property
    def can_ask(self) -> bool:
        return self.stdin.isatty() and self.err.isatty()

    @property
    def is_interactive(self) -> bool:
        """Whether a person can type here and see what comes back."""
        return self.stdin.isatty() and self.out.isatty()

    @property
    def color(self) -> bool:
        return self.out.isatty() and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """The columns of the terminal that results are printed on; ``COLUMNS`` wins, 80 where nothing is known."""
        return shutil.get_terminal_size((80, 24)).columns

    def say(self, text: str) -> None:
        """Print a note on stderr, unless quiet."""
        if not self.quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """Print on stderr. A stderr that was closed is no reason to fail."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            print(text, file=self.err, flush=True)

    def ask(self, question: str) -> bool:
        """Ask a yes/no question on stderr. No answer, an empty one and anything but y or yes are a no. What was typed before the question
        is no answer to it."""
        self.drop_typed_ahead()
        print(question + " [y/N] ", file=self.err, end="", flush=True)
        return self.stdin.readline().strip().casefold() in ("y", "yes")

    def drop_typed_ahead(self) -> None:
        try:
            import termios

            termios.tcflush(self.stdin.fileno(), termios.TCIFLUSH)
        except (ImportError, OSError, ValueError):  # no terminal, or none of this kind
            pass
        except termios.error:
            pass
