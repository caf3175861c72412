"""What the standard tools do is named, not imported: the names must hold."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import pytest

from kleene.config import Access
from kleene.tools.base import Tool
from kleene.tools.lazy import Lazy
from kleene.tools.settings import ToolSettings
from kleene.tools.standard import READ_TOOLS, effect_tools, shell_function

TOOLS = (*READ_TOOLS, *effect_tools(ToolSettings(), Access()), shell_function(ToolSettings(), "f", ("a",), "echo {a}"))


def named(function: Any) -> tuple[Any, int]:
    """The function that a declaration names, and how many arguments it already has."""
    bound = len(function.args) if isinstance(function, partial) else 0
    lazy = function.func if isinstance(function, partial) else function
    assert isinstance(lazy, Lazy)
    return lazy.function, bound


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_declaration_names_functions_that_are_there(tool: Tool) -> None:
    run, bound = named(tool.run)
    assert len(inspect.signature(run).parameters) == bound + 2
    if tool.describe is not None:
        describe, bound = named(tool.describe)
        assert len(inspect.signature(describe).parameters) == bound + 1


def test_a_missing_function_is_an_error_of_the_first_call() -> None:
    missing: Lazy[None] = Lazy("kleene.tools.base", "nothing")
    with pytest.raises(AttributeError, match="nothing"):
        missing()
    nowhere: Lazy[None] = Lazy("kleene.tools.nowhere", "run")
    with pytest.raises(ImportError, match="nowhere"):
        nowhere()


def test_a_key_shows_in_no_declaration() -> None:
    assert "sk-secret" not in repr(effect_tools(ToolSettings(), Access(api_key="sk-secret", provider="brave")))
