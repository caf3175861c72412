from __future__ import annotations

from pathlib import Path

import pytest

from kleene.cli.exits import UsageError
from kleene.cli.model_script import load_model

SCRIPT = """\
import helper_of_the_script

MAPPING = {"root": "local"}

class Provider:
    def __call__(self): ...
    async def send(self, request): ...

PROVIDER = Provider()

def answer(request):
    return helper_of_the_script.WORD
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "helper_of_the_script.py").write_text("WORD = 'hello'\n", encoding="utf-8")
    path = tmp_path / "model.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def refusal(argument: str) -> str:
    with pytest.raises(UsageError) as raised:
        load_model(argument)
    return raised.value.render()


def test_anything_but_a_function_is_taken_as_it_is(script: Path) -> None:
    assert load_model(f"{script}:MAPPING") == {"root": "local"}
    assert type(load_model(f"{script}:PROVIDER")).__name__ == "Provider"


def test_an_argument_without_a_name_is_refused() -> None:
    assert refusal("model.py") == (
        "error: --model-script model.py names no object\n"
        "hint: write --model-script FILE.py:NAME, where NAME is a function that takes a request and returns the reply's text"
    )


def test_a_name_that_is_not_there_is_refused_with_the_nearest(script: Path) -> None:
    assert refusal(f"{script}:anwser") == f"error: {script} has no anwser\nhint: did you mean answer?"
    assert refusal(f"{script}:zzz") == f"error: {script} has no zzz\nhint: it has Provider, PROVIDER, answer"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(f"{tmp_path}/no.py:f").startswith(f"error: --model-script: there is no file {tmp_path}/no.py\n")


def test_a_script_that_fails_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("x = 1\ny = x / 0\n", encoding="utf-8")
    assert refusal(f"{path}:f") == f"error: --model-script: {path}, line 2: ZeroDivisionError: division by zero"
