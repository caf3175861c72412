from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from kleene.planner.errors import ToolError
from kleene.tools.standard import ENV, SKILL
from tests.kleene.tools.working import rows, work


def test_env_shows_what_is_allowed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    known = attrs.evolve(work(tmp_path), env={"REGION": "eu", "EMPTY": ""})
    assert rows(ENV, known, "REGION") == [("eu",)]
    assert rows(ENV, known, "EMPTY") == [("",)]
    with pytest.raises(ToolError) as caught:
        rows(ENV, known, "SECRET_TOKEN")
    assert (caught.value.kind, caught.value.hint) == ("access denied", "visible: EMPTY, REGION")
    with pytest.raises(ToolError) as caught:
        rows(ENV, tmp_path, "PATH")
    assert caught.value.hint == "visible: none"


def test_skill_gives_its_text_or_the_nearest_name(tmp_path: Path) -> None:
    known = attrs.evolve(work(tmp_path), skills={"long-context": "Peek first.", "code-task": "Test."})
    assert rows(SKILL, known, "code-task") == [("Test.",)]
    with pytest.raises(ToolError) as caught:
        rows(SKILL, known, "long context")
    assert caught.value.hint == "did you mean 'long-context'?"
    with pytest.raises(ToolError) as caught:
        rows(SKILL, known, "zzz")
    assert caught.value.hint == "there are: code-task, long-context"
