"""What every tool has in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kleene.planner.errors import Cancelled, KleeneError, ToolError
from kleene.planner.specs import Param, Volatility
from kleene.tools.base import Row, Tool, Work
from kleene.tools.standard import READ_TOOLS
from tests.kleene.tools.working import rows, work


def tool(run: Any, required: int = 1) -> Tool:
    params = (Param("a", "VARCHAR"), Param("b", "BIGINT"))
    return Tool("odd", params, required, (Param("x", "VARCHAR"),), run, Volatility.STABLE, "a tool of a test")


def once(_: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    yield (repr(arguments),)


def test_a_null_in_a_required_argument_gives_no_rows(tmp_path: Path) -> None:
    assert rows(tool(once), tmp_path, None) == []
    assert rows(tool(once), tmp_path, "a") == rows(tool(once), tmp_path, "a", None) == [("('a', None)",)]
    assert rows(tool(once, required=2), tmp_path, "a", None) == []
    for real in READ_TOOLS:
        if real.required:
            assert rows(real, tmp_path, *[None] * real.required) == []


def test_the_number_of_arguments_is_checked(tmp_path: Path) -> None:
    for given in ((), ("a", 1, 2)):
        with pytest.raises(ToolError) as caught:
            rows(tool(once), tmp_path, *given)
        assert caught.value.message == f"odd takes 1 to 2 arguments, got {len(given)}"
    with pytest.raises(ToolError, match="odd takes 2 arguments, got 1"):
        rows(tool(once, required=2), tmp_path, "a")


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), ValueError("no"), RecursionError(), KeyError("x"), ZeroDivisionError()]
)
def test_what_a_tool_raises_is_an_error_of_the_tool(tmp_path: Path, error: Exception) -> None:
    def fails(_: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
        yield ("one",)
        raise error

    with pytest.raises(ToolError) as caught:
        rows(tool(fails), tmp_path, "a")
    assert caught.value.message.startswith("odd: ")
    assert caught.value.kind == "other"


def test_a_tool_that_takes_long_is_ended(tmp_path: Path) -> None:
    def endless(_: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
        while True:
            yield ("again",)

    with pytest.raises(ToolError) as caught:
        rows(tool(endless), work(tmp_path, seconds=0.05, rows=1 << 60, result_bytes=1 << 60), "a")
    assert caught.value.kind == "timed out"
    with pytest.raises(Cancelled):
        rows(tool(endless), Work(work(tmp_path).workspace, cancelled=lambda: True), "a")


def test_text_that_utf8_cannot_hold_is_mended(tmp_path: Path) -> None:
    def odd(_: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
        yield ("a\ud800",)

    assert rows(tool(odd), tmp_path, "a") == [("a\ufffd",)]


def test_the_tools_are_described() -> None:
    assert [t.name for t in READ_TOOLS] == [
        *("files", "lines", "read", "read_pages", "read_table", "grep", "search", "chunks", "env", "skill"),
        *("git_log", "git_status", "git_diff", "git_blame"),
    ]
    for t in READ_TOOLS:
        assert t.volatility is not Volatility.VOLATILE
        assert 0 < len(t.description) <= 130, t.name
        assert "\n" not in t.description
        assert 0 <= t.required <= len(t.params)
    assert issubclass(ToolError, KleeneError)
