"""Commits hold what was asked, and no commit runs anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kleene.planner.specs import Volatility
from kleene.tools.base import Work
from kleene.tools.jail import Jail
from kleene.tools.standard import GIT_COMMIT as COMMIT
from tests.kleene.tools.work import refusal, use

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    git(path, "init", "-q", "-b", "main")
    return path


@pytest.fixture
def work(folder: Path) -> Work:
    return Work(Jail.of(folder))


def committed(folder: Path) -> list[str]:
    """The files of the last commit."""
    return git(folder, "show", "--format=", "--name-only", "-z", "HEAD").strip("\0").split("\0")


def test_all_changes_are_committed_with_their_message(work: Work, folder: Path) -> None:
    (folder / "dir").mkdir()
    for name in ("a", "dir/ü b", "-x", "*"):
        (folder / name).write_text("1")
    ((sha, files),) = use(COMMIT, work, "-m First\n\n# body é\n")
    assert (sha, files) == (git(folder, "rev-parse", "HEAD"), 4)
    assert sorted(committed(folder)) == ["*", "-x", "a", "dir/ü b"]
    assert git(folder, "log", "-1", "--format=%s %an %ae") == "-m First Kleene kleene@localhost"
    (folder / "a").unlink()
    (folder / "*").write_text("2")
    assert use(COMMIT, work, "Second")[0][1] == 2 and git(folder, "status", "--porcelain") == ""


def test_the_given_paths_are_committed_and_the_staged_ones_stay(work: Work, folder: Path) -> None:
    (folder / "dir").mkdir()
    for name in ("a", "b", "dir/c", "dir/d", "staged"):
        (folder / name).write_text("1")
    git(folder, "add", "staged")
    assert use(COMMIT, work, "m", ["./a", "dir/", "a"])[0][1] == 3
    assert committed(folder) == ["a", "dir/c", "dir/d"]
    assert git(folder, "status", "--porcelain").splitlines() == ["A  staged", "?? b"]
    assert use(COMMIT, work, "m", "b")[0][1] == 1


@pytest.mark.parametrize(
    ("arguments", "said", "kind"),
    [
        ((" \n",), "a commit needs a message of text", "invalid arguments"),
        (("m", ["same"]), "same has no changes", "invalid arguments"),
        (("m", ["out/a", "b"]), "b may not be written, so it is not committed", "access denied"),
        (("m", ["."]), "b may not be written, so it is not committed", "access denied"),
        (("m", ["../x"]), "../x may not be written, so it is not committed", "access denied"),
    ],
)
def test_what_cannot_be_committed_is_refused(folder: Path, arguments: tuple[Any, ...], said: str, kind: str) -> None:
    work = Work(Jail.of(folder, ("out/**", "same")))
    (folder / "out").mkdir()
    (folder / "same").write_text("")
    use(COMMIT, work, "first")
    for name in ("out/a", "b"):
        (folder / name).write_text("1")
    error = refusal(COMMIT, work, *arguments)
    assert (error.message, error.kind) == (said, kind)
    assert use(COMMIT, work, "the rest")[0][1] == 1 and committed(folder) == ["out/a"]
    assert refusal(COMMIT, work, "again").message == "there is nothing to commit"


def test_the_store_is_never_committed(work: Work, folder: Path) -> None:
    (folder / ".kleene").mkdir()
    (folder / ".kleene" / "run.duckdb").write_text("x")
    (folder / "a").write_text("1")
    use(COMMIT, work, "m")
    assert committed(folder) == ["a"]
    assert refusal(COMMIT, work, "m", [".kleene"]).kind == "access denied"


def test_nothing_that_the_repository_names_is_run(work: Work, folder: Path) -> None:
    mark = folder.parent / "ran"
    program = folder.parent / "program"
    program.write_text(f"#!/bin/sh\necho $0 $* >> {mark}\ncat\n")
    program.chmod(0o755)
    hooks = folder / ".git" / "hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.mkdir()
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "prepare-commit-msg",
        "post-index-change",
        "reference-transaction",
        "pre-auto-gc",
    ):
        shutil.copy(program, hooks / name)
    for key in ("core.fsmonitor", "core.editor", "gpg.program", "core.hooksPath", "filter.x.clean", "filter.x.process", "diff.external",
                "diff.x.textconv", "core.pager", "trailer.x.command", "core.sshCommand", "sequence.editor", "core.askPass"):  # fmt: skip
        git(folder, "config", key, str(hooks if key == "core.hooksPath" else program))
    for key, value in (
        ("commit.gpgSign", "true"),
        ("gc.auto", "1"),
        ("commit.verbose", "true"),
        ("commit.status", "true"),
    ):
        git(folder, "config", key, value)
    nested = folder / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    git(nested, "config", "core.fsmonitor", str(program))
    (nested / "n").write_text("x")
    (folder / ".gitattributes").write_text("*.txt diff=x\n")
    (folder / "a.txt").write_text("1")
    use(COMMIT, work, "first")
    (folder / "a.txt").write_text("2")
    use(COMMIT, work, "second", ["a.txt"])
    assert not mark.exists(), mark.read_text()
    assert "nested" not in git(folder, "-c", "core.fsmonitor=", "ls-files")
    subprocess.run(["git", "commit", "-qa", "-m", "by hand"], cwd=folder, capture_output=True, timeout=30)
    assert mark.exists()  # the traps were real


def test_a_filtered_file_is_not_committed_raw(work: Work, folder: Path) -> None:
    (folder / ".gitattributes").write_text("*.bin filter=lfs\n")
    (folder / "a.bin").write_text("x")
    error = refusal(COMMIT, work, "m")
    assert error.message == "a.bin passes the filter 'lfs' of .gitattributes, which is not run here"
    assert use(COMMIT, work, "m", [".gitattributes"])[0][1] == 1


@pytest.mark.parametrize("where", ["global", "local"])
def test_the_users_name_is_used(work: Work, folder: Path, where: str) -> None:
    if where == "global":
        (folder.parent / ".gitconfig").write_text("[user]\nname = Ann Ö\nemail = ann@example.com\n")
    else:
        git(folder, "config", "user.name", "Ann Ö")
        git(folder, "config", "user.email", "ann@example.com")
    (folder / "a").write_text("1")
    use(COMMIT, work, "m")
    assert git(folder, "log", "-1", "--format=%an <%ae> %cn") == "Ann Ö <ann@example.com> Ann Ö"


def test_a_workspace_below_the_repository_commits_its_own(folder: Path) -> None:
    (folder / "sub").mkdir()
    for name in ("a", "sub/b", "sub/a"):
        (folder / name).write_text("1")
    assert use(COMMIT, Work(Jail.of(folder / "sub")), "m", ["a"])[0][1] == 1
    assert committed(folder) == ["sub/a"]
    assert use(COMMIT, Work(Jail.of(folder / "sub")), "m")[0][1] == 1
    assert git(folder, "status", "--porcelain") == "?? a"


def test_no_repository_is_said(tmp_path: Path) -> None:
    assert refusal(COMMIT, Work(Jail.of(tmp_path)), "m").message == "the workspace is in no git repository"
    assert COMMIT.volatility is Volatility.VOLATILE
