"""Which servers are on: the user's, and of a workspace's those that the user trusts as they are written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kleene.mcp.entries import Entry, add_entry, find_entries, remove_entry, trust, user_file
from kleene.planner.errors import ConfigError


def write(path: Path, servers: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"other": 1, "mcpServers": servers}), "utf-8")


@pytest.fixture
def work(folders: Path) -> Path:
    return folders / "work"


def test_there_are_none_without_files(work: Path) -> None:
    found = find_entries(work)
    assert (dict(found.on), found.off, found.notes) == ({}, (), ())


def test_the_users_are_on_and_the_workspaces_off_until_they_are_trusted(work: Path) -> None:
    write(user_file(), {"a": {"command": "one"}, "b": {"command": "two", "disabled": True}})
    write(work / ".mcp.json", {"a": {"command": "evil"}, "c\x1b[2J": {"command": "rm", "args": ["-rf", "/"]}})
    found = find_entries(work)
    assert {n: e.command for n, e in found.on.items()} == {"a": "one"}
    assert [(e.name, why) for e, why in found.off] == [
        ("b", "disabled"),
        ("a", "not trusted"),
        ("c\x1b[2J", "not trusted"),
    ]
    assert found.notes == (
        ".mcp.json of this workspace names MCP servers that are off: a, c?[2J. "
        "python -m kleene mcp list shows what they start, mcp add --project NAME trusts one",
    )


def test_trust_holds_for_the_entry_as_it_was_in_this_workspace(work: Path, tmp_path: Path) -> None:
    write(work / ".mcp.json", {"c": {"command": "tool", "args": ["x"]}})
    ((entry, _),) = find_entries(work).off
    trust(work, "c", entry.digest)
    assert list(find_entries(work).on) == ["c"]
    os.symlink(work, tmp_path / "link")
    assert list(find_entries(tmp_path / "link").on) == ["c"]

    for changed in ({"command": "tool", "args": ["y"]}, {"command": "tool", "args": ["x"], "env": {"A": "1"}}):
        write(work / ".mcp.json", {"c": changed})
        assert [why for _, why in find_entries(work).off] == ["changed since it was trusted"]
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / ".mcp.json", {"c": {"command": "tool", "args": ["x"]}})
    assert [why for _, why in find_entries(elsewhere).off] == ["not trusted"]

    write(work / ".mcp.json", {"c": {"command": "tool", "args": ["x"]}})
    assert list(find_entries(work).on) == ["c"]
    trust(work, "c", None)
    assert not find_entries(work).on


def test_where_both_have_a_name_the_trusted_one_of_the_workspace_counts(work: Path) -> None:
    write(user_file(), {"a": {"command": "mine"}})
    entry = add_entry(work / ".mcp.json", "a", {"command": "theirs"})
    assert find_entries(work).on["a"].command == "mine"
    trust(work, "a", entry.digest)
    assert find_entries(work).on["a"].command == "theirs"


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}', "\x00", '{"mcpServers": {"a": {}}}', "[" * 100_000])
def test_a_workspaces_file_that_is_wrong_is_a_note_and_the_users_an_error(work: Path, text: str) -> None:
    (work / ".mcp.json").write_text(text, "utf-8")
    (note,) = find_entries(work).notes
    assert note.startswith(str(work / ".mcp.json"))
    assert note.endswith(": its servers are off")
    user_file().parent.mkdir(parents=True)
    user_file().write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=r"mcp\.json"):
        find_entries(work)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_workspaces_file_that_is_none_is_not_read(work: Path, make: Any) -> None:
    make(work / ".mcp.json")
    assert find_entries(work).notes == ()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "f: the server a is no object"),
        ({"command": 1}, "f: the server a has command = 1"),
        ({"command": "x", "args": "y"}, 'f: the server a has args = "y"'),
        ({"command": "x", "args": [1]}, "f: the server a has args = [1]"),
        ({"command": "x", "env": {"A": 1}}, 'f: the server a has env = {"A": 1}'),
        ({"command": "x", "url": "y"}, "f: the server a has both a command and a url"),
        ({}, "f: the server a has neither command nor url"),
        ({"url": "y", "type": "sse"}, "f: the server a speaks the old SSE transport"),
    ],
)
def test_an_entry_that_is_none_is_told(written: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Entry.read("a", written, "user", "f")
    assert (caught.value.message, bool(caught.value.hint)) == (message, True)


def test_variables_are_filled_in_when_it_starts(work: Path) -> None:
    written = {"command": "x", "args": ["${A}", "${B:-b}${A}"], "env": {"K": "${A}"}}
    entry = Entry.read("a", written, "user", "f")
    filled = entry.expanded({"A": "1"})
    assert (filled.args, filled.env) == (("1", "b1"), {"K": "1"})
    assert filled.digest == entry.digest
    assert entry.line == "K=... x ${A} ${B:-b}${A}"
    with pytest.raises(ConfigError, match="needs A in the environment"):
        entry.expanded({})


def test_files_keep_what_else_is_in_them(work: Path) -> None:
    write(user_file(), {"a": {"command": "one", "theirs": [1]}})
    add_entry(user_file(), "b", {"command": "two"})
    assert remove_entry(user_file(), "b")
    assert not remove_entry(user_file(), "b")
    assert json.loads(user_file().read_text("utf-8")) == {
        "other": 1,
        "mcpServers": {"a": {"command": "one", "theirs": [1]}},
    }
    assert user_file().stat().st_mode & 0o077 == 0
