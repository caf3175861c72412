"""The skills that come with Kleene: a folder each, with a ``SKILL.md`` whose SQL is run by the tests."""

from __future__ import annotations
