"""The version of this package; a test holds it to pyproject.toml's."""

from __future__ import annotations

VERSION = "0.1.0"
