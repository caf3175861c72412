"""Where a command's text comes from: the argument itself, ``@file``, or ``-`` for stdin."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from kleene.cli.exits import UsageError


def read_text(argument: str, stdin: TextIO) -> str:
    """The text an argument stands for. A byte-order mark is dropped; bytes of a file that are not UTF-8 are a ``UsageError``,
    in the argument itself they become U+FFFD.

    >>> import sys
    >>> read_text("SELECT 1", sys.stdin)
    'SELECT 1'
    """
    if argument == "-":
        raw = getattr(stdin, "buffer", None)
        return decoded(raw.read(), "stdin") if raw is not None else stdin.read()
    if argument.startswith("@") and len(argument) > 1:
        return decoded(read_bytes(argument[1:], hint="@FILE reads the text from a file; - reads stdin"), argument[1:])
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_bytes(name: str, *, hint: str | None = None) -> bytes:
    try:
        return Path(name).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}", hint=hint) from error


def decoded(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}", hint="save it as UTF-8"
        ) from error
