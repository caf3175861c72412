from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kleene
from kleene.tools.base import Limits
from tests.kleene.engines import CountingModel, engine

BY_HAND = str(Path(__file__).with_name("by_hand.py"))


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration and cache are empty folders; the workspace is one too."""
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    return tmp_path


class Hand:
    """A server made by hand, and what it was asked."""

    def __init__(self, folder: Path):
        self.log = folder / "log"
        self.folder = folder

    def entry(self, **env: str) -> dict[str, Any]:
        return {"command": sys.executable, "args": [BY_HAND], "env": {"LOG": str(self.log), **env}}

    @property
    def asked(self) -> list[str]:
        return self.log.read_text("utf-8").splitlines() if self.log.exists() else []

    @property
    def starts(self) -> int:
        return self.asked.count("started")

    @contextmanager
    def engine(
        self, *, seconds: float = 60.0, env: dict[str, str] | None = None, **options: Any
    ) -> Iterator[kleene.Engine]:
        options.setdefault("mcp", {"h": self.entry(**(env or {}))})
        with engine(CountingModel(lambda p: p.upper()), workspace=self.folder / "work", **options) as (k, _):
            assert k.tools is not None
            make = k.tools._make_work
            if seconds != 60.0:
                import attrs

                k.tools._make_work = lambda *given: attrs.evolve(make(*given), limits=Limits(seconds=seconds))
            yield k


@pytest.fixture
def hand(folders: Path) -> Hand:
    return Hand(folders)
