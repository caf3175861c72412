"""Text at the border: what Python can hold and UTF-8 cannot is mended once, where it comes in."""

from __future__ import annotations

import hashlib


def clean(text: str) -> str:
    """Joins surrogate pairs and turns each lone surrogate into U+FFFD; all other text, NUL included, is returned as it is (the same object).

    >>> clean("a\\ud83d\\ude00b\\ud83dc") == "a\\U0001f600b\\ufffdc"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def digest_of(prompt: str) -> str:
    """The SHA-256 of a prompt, as the memo has it."""
    try:
        return hashlib.sha256(prompt.encode()).hexdigest()
    except UnicodeEncodeError:
        return hashlib.sha256(clean(prompt).encode()).hexdigest()
