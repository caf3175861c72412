"""What of the user's own lies in a workspace is closed to every tool: read, written, listed, searched, committed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kleene
from kleene.planner.errors import CallFailed, ConfigError, ToolError
from kleene.tools.jail import Jail
from kleene.tools.private import Private
from tests.kleene.engines import engine
from tests.kleene.tools.working import write

SECRETS = {
    ".ssh/id_ed25519": "PRIVATE KEY",
    ".netrc": "password hunter2",
    ".config/kleene/config.toml": '[anthropic]\napi_key = "sk-hunter2"\n',
    ".config/kleene/mcp.json": "{}",
    ".cache/kleene/mcp/x.json": "hunter2",
    ".bashrc": "export KEY=hunter2",
    ".gitignore": "*.tmp\n",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "homes" / "ada"
    write(path, {**SECRETS, "work/notes.md": "find me, hunter", "work/.env": "seen", "x.tmp": ""})
    for name in ("KLEENE_CONFIG_DIR", "KLEENE_CACHE_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.mark.parametrize("above", [0, 1, 2], ids=["the home folder", "the folder above", "two above"])
def test_a_workspace_that_holds_the_home_folder_shows_nothing_hidden_of_it(home: Path, above: int) -> None:
    root = home.parents[above - 1] if above else home
    prefix = f"{home.relative_to(root)}/" if above else ""
    with engine(workspace=root) as (k, _):
        seen = k.sql("SELECT path FROM files('**') WHERE kind = 'file'").fetchall()
        assert seen == [(f"{prefix}{name}",) for name in ("work/.env", "work/notes.md", "x.tmp")]
        for statement in ("grep('hunter')", "search('hunter password key')"):
            assert k.sql(f"SELECT path FROM {statement}").fetchall() == [(f"{prefix}work/notes.md",)]
        for statement in ("SELECT * FROM read('{}')", "CALL write_file('{}', 'evil')", "SELECT * FROM git_blame('{}')"):
            with pytest.raises(CallFailed, match="is the user's own and closed to tools"):
                k.sql(statement.format(f"{prefix}.netrc")).fetchall()
    jail = Jail.of(root)
    for name in [*SECRETS, ".profile", ".config/kleene/new.toml", ".SSH/config", ".c\u200bonfig/x"]:
        path = prefix + name
        for act in (
            lambda path=path: jail.read(path, 100),
            lambda path=path: jail.write(path, b"evil"),
            lambda path=path: jail.append(path, b"evil", limit=100),
            lambda path=path: jail.remove(path),
            lambda path=path: jail.mkdir(path),
            lambda path=path: jail.folder(path),
        ):
            with pytest.raises(ToolError, match="is the user's own and closed to tools"):
                act()  # type: ignore[no-untyped-call]
    for path, text in SECRETS.items():
        assert (home / path).read_text() == text
    assert not (home / ".profile").exists()


@pytest.mark.parametrize("linked", [False, True])
def test_a_configuration_elsewhere_is_closed_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    root = write(tmp_path / "w", {"a/own/config.toml": "[tools]\n", "b/real.toml": "", "a/x.txt": "x"})
    (root / "a" / "own" / "router.toml").symlink_to("../../b/real.toml")
    if linked:
        (root / "link").symlink_to("a/own")
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(root / ("link" if linked else "a/own")))
    jail = Jail.of(root)
    assert jail.read("a/x.txt", 10) == b"x"
    for path in ("a/own/config.toml", "a/OWN/config.toml", "b/real.toml", *(["link", "link/x"] if linked else [])):
        for act in (lambda path=path: jail.read(path, 10), lambda path=path: jail.write(path, b"x")):  # type: ignore[misc]
            with pytest.raises(ToolError) as caught:
                act()
            assert caught.value.kind == "access denied"
    with jail.folder("a") as folder:
        assert [e.name for e in folder.entries()] == ["x.txt"]


def test_a_configuration_that_is_not_there_yet_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path / "conf" / "kleene"))
    jail = Jail.of(tmp_path)
    for act in (
        lambda: jail.write("conf/kleene/config.toml", b"x"),
        lambda: jail.mkdir("conf/kleene"),
        lambda: jail.write("conf/kleene", b"x"),
    ):
        with pytest.raises(ToolError, match="is the user's own"):
            act()
    jail.write("conf/other.toml", b"x")
    assert sorted(p.name for p in (tmp_path / "conf").iterdir()) == ["other.toml"]


def test_a_folder_of_the_users_is_known_by_another_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"own/config.toml": "x"})
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path / "own"))
    jail = Jail.of(tmp_path)
    (tmp_path / "own").rename(tmp_path / "other")
    with pytest.raises(ToolError, match=r"other/config\.toml is the user's own"):
        jail.read("other/config.toml", 10)


@pytest.mark.parametrize("where", ["own", "own/deeper"])
def test_the_users_configuration_is_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    (tmp_path / where).mkdir(parents=True)
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path / "own"))
    with pytest.raises(ConfigError, match="lies in your own configuration"):
        Jail.of(tmp_path / where)


def test_the_files_of_an_engine_are_closed_where_they_lie_in_the_workspace(tmp_path: Path) -> None:
    write(tmp_path, {"my.toml": "[tools]\n", "servers.json": '{"mcpServers": {}}', "kleene.toml": "", "a.txt": ""})
    config = kleene.config.load_config(tmp_path, file=tmp_path / "my.toml")
    with kleene.connect(
        store=tmp_path / "mine.duckdb", workspace=tmp_path, config=config, mcp=tmp_path / "servers.json"
    ) as k:
        assert k.sql("SELECT path FROM files('**') WHERE kind = 'file'").fetchall() == [("a.txt",), ("kleene.toml",)]
        for path in ("my.toml", "servers.json", "mine.duckdb", "mine.duckdb.wal", "mine.events.jsonl"):
            with pytest.raises(CallFailed, match=f"{path} is the user's own"):
                k.sql(f"CALL write_file('{path}', 'x')")


def test_git_shows_no_file_that_is_closed(home: Path) -> None:
    for command in ("init -q", "add -f .", "-c user.name=a -c user.email=a@b.c commit -qm one"):
        subprocess.run(["git", *command.split()], cwd=home, check=True, env={"PATH": os.environ["PATH"]})
    for path in (".netrc", "work/notes.md"):
        (home / path).write_text("changed: hunter3\n")
    (home / ".bashrc").rename(home / "bashrc")
    with engine(workspace=home) as (k, _):
        assert k.sql("SELECT path FROM git_diff() ORDER BY path").fetchall() == [("work/notes.md",)]
        tree = subprocess.run(
            ["git", "rev-parse", "HEAD:.ssh"], cwd=home, capture_output=True, text=True
        ).stdout.strip()
        empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        assert len(tree) == 40
        for ref in (
            "HEAD:.ssh",
            f"{empty}..HEAD:.ssh",
            "HEAD:.ssh..HEAD",
            tree,
            f"{empty}..{tree}",
            f"{tree[:6]}..HEAD",
        ):
            with pytest.raises(CallFailed, match="is no git revision"):
                k.sql("SELECT path, diff FROM git_diff(?)", [ref])
        with pytest.raises(CallFailed, match="may not be written, so it is not committed"):
            k.sql("CALL git_commit('x', ['.netrc'])")
        k.sql("CALL git_commit('all')")
        assert ".netrc" in subprocess.run(["git", "status", "--short"], cwd=home, capture_output=True, text=True).stdout


NAMES = st.sampled_from(
    [".config", ".CONFIG", "kleene", "a", "homes", "ada", ".ssh", "b.toml", "b.toml.wal", "b.tomlx", "ａｄａ"]
)


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_what_lies_in_what_is_closed_is_closed(parts: list[str]) -> None:
    private = Private(
        folders=frozenset({("a", "kleene")}), files=frozenset({("a", "b.toml")}), homes=frozenset({("homes", "ada")})
    )
    closed = [private.has(tuple(parts[:n])) for n in range(1, len(parts) + 1)]
    assert closed == sorted(closed)
    expected = parts[:2] == ["a", "kleene"] or (parts[0] == "a" and parts[1:2] in (["b.toml"], ["b.toml.wal"]))
    at_home = (
        parts[0] == "homes" and parts[1:2] in (["ada"], ["ａｄａ"]) and len(parts) > 2 and parts[2].startswith(".")
    )
    assert closed[-1] == (expected or at_home)
