from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nothing_is_configured(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration is an empty folder, and no variable of the environment names a model."""
    import os

    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_", "KLEENE_")):
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(folder))
    return folder
