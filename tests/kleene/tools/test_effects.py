"""All effects together: what holds for each of them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.config import Access
from kleene.planner.errors import ToolError
from kleene.planner.specs import Volatility
from kleene.tools.asking import ask
from kleene.tools.base import Tool, Work
from kleene.tools.jail import Jail
from kleene.tools.settings import ToolSettings
from kleene.tools.standard import READ_TOOLS, effect_tools

ALL = {tool.name: tool for tool in effect_tools(ToolSettings(), Access())}


def test_they_are_the_ones_of_the_language() -> None:
    assert set(ALL) == {
        *("shell", "write_file", "append_file", "patch", "mkdir", "remove"),
        *("git_commit", "web_fetch", "web_search"),
    }
    assert all(tool.volatility is Volatility.VOLATILE for tool in ALL.values())
    assert not set(ALL) & {tool.name for tool in READ_TOOLS}


def test_nothing_is_granted_by_default(tmp_path: Path) -> None:
    work = Work(Jail.of(tmp_path, ()))
    given_ = {
        "shell": ("touch a",), "write_file": ("a", "x"), "append_file": ("a", "x"), "patch": ("a", "x", "y"), "mkdir": ("a",), "remove": ("a",),
        "git_commit": ("m",), "web_fetch": ("http://example.com/",), "web_search": ("q",),
    }  # fmt: skip
    for name, tool in ALL.items():
        with contextlib.suppress(ToolError):
            rows = list(ask(tool, work, given_[name]))
            assert name == "shell" and rows[0][2] != 0  # it runs, and writes nothing
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=50)
@given(
    st.sampled_from(list(ALL.values())),
    st.lists(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text(), max_size=3)), max_size=4),
)
def test_a_description_is_one_line_whatever_the_arguments(tool: Tool, arguments: list[object]) -> None:
    assert tool.describe is not None
    line = tool.describe(tuple(arguments))
    assert line and len(line) < 400 and not set(line) & set("\n\r\x00\x1b\u2028")
