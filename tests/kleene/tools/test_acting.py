"""All effects together: what holds for each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.planner.errors import ToolError
from kleene.planner.specs import Volatility
from kleene.tools import READ_TOOLS, ask
from kleene.tools.acting import Granted, effects
from kleene.tools.base import Work
from kleene.tools.effects import Effect
from kleene.tools.jail import Jail
from kleene.tools.sandbox import Sandbox

ALL = {effect.tool.name: effect for effect in effects(Granted(sandbox=Sandbox(program="no-such-bwrap")))}


def test_they_are_the_ones_of_the_language() -> None:
    assert list(ALL) == [
        *("shell", "write_file", "append_file", "patch", "mkdir", "remove"),
        *("git_commit", "web_fetch", "web_search"),
    ]
    assert all(effect.tool.volatility is Volatility.VOLATILE for effect in ALL.values())
    assert not set(ALL) & {tool.name for tool in READ_TOOLS}


def test_nothing_is_granted_by_default(tmp_path: Path) -> None:
    work = Work(Jail.of(tmp_path, ()))
    given_ = {
        "shell": ("true",), "write_file": ("a", "x"), "append_file": ("a", "x"), "patch": ("a", "x", "y"), "mkdir": ("a",), "remove": ("a",),
        "git_commit": ("m",), "web_fetch": ("http://example.com/",), "web_search": ("q",),
    }  # fmt: skip
    for name, effect in ALL.items():
        with pytest.raises(ToolError):
            list(ask(effect.tool, work, given_[name]))
    assert list(tmp_path.iterdir()) == []


@given(
    st.sampled_from(list(ALL.values())),
    st.lists(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text(), max_size=3)), max_size=4),
)
def test_a_description_is_one_line_whatever_the_arguments(effect: Effect, arguments: list[object]) -> None:
    line = effect.describe(tuple(arguments))
    assert line and len(line) < 400 and not set(line) & set("\n\r\x00\x1b\u2028")
