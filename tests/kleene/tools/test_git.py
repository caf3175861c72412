from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import attrs
import pytest

from kleene.planner.errors import Cancelled, ToolError
from kleene.tools.base import Work
from kleene.tools.jail import Jail
from kleene.tools.standard import GIT_BLAME, GIT_DIFF, GIT_LOG, GIT_STATUS
from tests.kleene.tools.working import rows, work, write

NOON = dt.datetime(2024, 3, 1, 10, 0)

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(root: Path, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": "2024-03-01T12:00:00+02:00",
        "GIT_COMMITTER_DATE": "2024-03-01T12:00:00+02:00",
    }
    who = ("-c", "user.name=Ada Ü", "-c", "user.email=ada@x.example", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    write(root, {"a.txt": "one\ntwo\n", "sub/ü b.txt": "x\n", "old.txt": "".join(f"{i}\n" for i in range(20))})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Begin\n\nWith a body,\nof two lines")
    write(root, {"a.txt": "one\nTWO\nthree\n"})
    git(root, "commit", "-qam", "Change a")
    return root


def failed(tool: object, where: Path | Work, *arguments: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        rows(tool, where, *arguments)  # type: ignore[arg-type]
    return caught.value


def test_the_log_is_newest_first(repository: Path) -> None:
    shas = git(repository, "log", "--format=%H").split()
    assert rows(GIT_LOG, repository) == [
        (shas[0], "Ada Ü <ada@x.example>", NOON, "Change a"),
        (shas[1], "Ada Ü <ada@x.example>", NOON, "Begin\n\nWith a body,\nof two lines"),
    ]
    assert len(rows(GIT_LOG, repository, 1)) == 1
    assert rows(GIT_LOG, repository, 0) == []
    assert failed(GIT_LOG, repository, -1).kind == "invalid arguments"


def test_a_repository_without_commits_and_none(tmp_path: Path) -> None:
    assert failed(GIT_LOG, tmp_path).message == "the workspace is in no git repository"
    git(tmp_path, "init", "-q")
    assert rows(GIT_LOG, tmp_path) == rows(GIT_DIFF, tmp_path) == []
    write(tmp_path, {"a": "x\n"})
    git(tmp_path, "add", "a")
    assert [row[0] for row in rows(GIT_DIFF, tmp_path)] == ["a"]


def test_the_diff_is_a_row_a_file(repository: Path) -> None:
    assert rows(GIT_DIFF, repository) == []
    write(repository, {"a.txt": "one\n", "sub/ü b.txt": "y\n", "bin": b"\0"})
    (repository / "old.txt").rename(repository / "sub" / "new name.txt")
    git(repository, "add", "-A")
    found = rows(GIT_DIFF, repository)
    assert [row[0] for row in found] == ["a.txt", "bin", "sub/new name.txt", "sub/ü b.txt"]
    assert found[0][1].endswith("@@ -1,3 +1 @@\n one\n-TWO\n-three\n")
    assert "Binary files" in found[1][1]
    assert "rename from old.txt" in found[2][1]
    assert all(diff.startswith("diff --git a/") for _, diff in found)
    assert [row[0] for row in rows(GIT_DIFF, repository, "HEAD~1..HEAD")] == ["a.txt"]
    assert [row[0] for row in rows(GIT_DIFF, repository, "main")] == [row[0] for row in found]


@pytest.mark.parametrize(
    "ref", ["--output=/tmp/out", "-O/etc/passwd", "--no-index", "", " ", "a b", "none", "HEAD\n--output=x", "a\0b"]
)
def test_a_revision_that_is_none(repository: Path, ref: str) -> None:
    error = failed(GIT_DIFF, repository, ref)
    assert error.kind == "invalid arguments"
    assert error.message in (f"{ref!r} is no git revision", f"git: bad revision '{ref}'")


def test_blame_says_who_wrote_what_is_there_now(repository: Path) -> None:
    first, second = git(repository, "log", "--reverse", "--format=%H").split()
    write(repository, {"a.txt": "one\nTWO\nthree\nfour\r\n"})
    assert rows(GIT_BLAME, repository, "a.txt")[:3] == [
        (1, first, "Ada Ü <ada@x.example>", "one"),
        (2, second, "Ada Ü <ada@x.example>", "TWO"),
        (3, second, "Ada Ü <ada@x.example>", "three"),
    ]
    assert rows(GIT_BLAME, repository, "a.txt")[3][1:] == (None, None, "four")
    assert rows(GIT_BLAME, repository, "sub/ü b.txt")[0][3] == "x"
    write(repository, {"new.txt": "x"})
    assert failed(GIT_BLAME, repository, "new.txt").kind == "invalid arguments"
    assert failed(GIT_BLAME, repository, "../x").kind == "access denied"


def test_in_a_folder_of_a_repository_only_that_folder_is_seen(repository: Path) -> None:
    write(repository, {"a.txt": "changed\n", "sub/ü b.txt": "changed\n"})
    assert [row[0] for row in rows(GIT_DIFF, repository / "sub")] == ["ü b.txt"]
    assert [row[3] for row in rows(GIT_LOG, repository / "sub")] == ["Begin\n\nWith a body,\nof two lines"]
    assert rows(GIT_BLAME, repository / "sub", "ü b.txt")[0][3] == "changed"


def test_nothing_that_a_repository_says_is_executed(repository: Path, tmp_path: Path) -> None:
    """Whoever may run a shell in the workspace can write its configuration; the tools run outside of that sandbox."""
    ran = tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(script, hooks / "post-index-change")
    evil = str(script)
    for key in (
        *(
            "core.fsmonitor",
            "core.pager",
            "core.sshCommand",
            "core.editor",
            "diff.external",
            "gpg.program",
            "pager.log",
        ),
        *(
            "filter.evil.clean",
            "filter.evil.smudge",
            "filter.evil.process",
            "filter.EVIL2.clean",
            "diff.evil.textconv",
            "diff.evil.command",
        ),
        *("core.alternateRefsCommand", "credential.helper", "core.askPass"),
    ):
        git(repository, "config", key, evil)
    git(repository, "config", "filter.evil.required", "true")
    git(repository, "config", "core.hooksPath", str(hooks))
    git(repository, "config", "log.showSignature", "true")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\nsub/* filter=EVIL2\n")
    write(repository, {"a.txt": "one\nnew\n", "sub/ü b.txt": "y\n"})
    assert [row[0] for row in rows(GIT_DIFF, repository)] == ["a.txt", "sub/ü b.txt"]
    assert [row[:2] for row in rows(GIT_STATUS, repository)] == [("a.txt", "modified"), ("sub/ü b.txt", "modified")]
    assert len(rows(GIT_LOG, repository)) == 2
    assert len(rows(GIT_BLAME, repository, "a.txt")) == 2
    assert not ran.exists()
    # The trap is a real one: git itself falls into it.
    subprocess.run(["git", "--no-pager", "diff", "HEAD"], cwd=repository, capture_output=True, check=False)
    assert ran.exists()


def test_a_git_folder_that_leads_elsewhere_is_refused(repository: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".git").symlink_to(repository / ".git")
    assert failed(GIT_LOG, elsewhere).message == "the workspace's .git leads to another repository"
    (elsewhere / ".git").unlink()
    (elsewhere / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    assert failed(GIT_LOG, elsewhere).kind == "access denied"


def test_a_worktree_and_a_submodule_are_the_workspaces_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"), "HEAD~1")
    assert [row[3][:5] for row in rows(GIT_LOG, tmp_path / "tree")] == ["Begin"]
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")
    assert len(rows(GIT_LOG, outer / "inner")) == 2


def test_core_worktree_does_not_move_the_tree(repository: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", {"a.txt": "secret\n"})
    git(repository, "config", "core.worktree", str(other))
    assert rows(GIT_DIFF, repository) == []


def test_git_is_missing_slow_or_cancelled(repository: Path, tmp_path: Path) -> None:
    assert failed(GIT_LOG, attrs.evolve(work(repository), git="/nonexistent/git")).hint == "install git"
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    start = time.monotonic()
    assert failed(GIT_LOG, attrs.evolve(work(repository, seconds=0.2), git=str(slow))).kind == "timed out"
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Cancelled):
        rows(GIT_LOG, Work(Jail.of(repository), git=str(slow), cancelled=stop.is_set))
    assert time.monotonic() - start < 10
    assert failed(GIT_DIFF, work(repository, result_bytes=10), "HEAD~1").kind == "too large"


def test_the_status_names_what_differs(repository: Path) -> None:
    assert rows(GIT_STATUS, repository) == []
    write(repository, {"a.txt": "ONE\n", "new.txt": "n\n", "sub/staged.txt": "s\n", "sub/more/ü.txt": "u\n"})
    (repository / "old.txt").unlink()
    git(repository, "add", "sub/staged.txt")
    assert sorted(rows(GIT_STATUS, repository)) == [
        ("a.txt", "modified", False),
        ("new.txt", "untracked", False),
        ("old.txt", "deleted", False),
        ("sub/more/ü.txt", "untracked", False),
        ("sub/staged.txt", "added", True),
    ]
    assert rows(GIT_STATUS, repository, "new*") == [("new.txt", "untracked", False)]


def test_the_status_of_a_folder_inside_a_repository_is_the_folders(repository: Path) -> None:
    write(repository, {"a.txt": "ONE\n", "sub/x.txt": "x\n"})
    assert rows(GIT_STATUS, repository / "sub") == [("x.txt", "untracked", False)]
