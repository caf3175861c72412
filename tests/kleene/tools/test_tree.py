"""What is found in a workspace is what git would find that knows nothing yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import ToolError
from kleene.tools.standard import FILES
from kleene.tools.tree import walk
from tests.kleene.tools.working import rows, work, write

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def found(root: Path, glob: str | None = None) -> list[str]:
    return [f.path for f in walk(work(root), glob) if f.entry.kind == "file"]


def git_finds(root: Path) -> list[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for command in (["git", "init", "-q"], ["git", "ls-files", "-coz", "--exclude-standard"]):
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True)
    return sorted(os.fsdecode(path) for path in done.stdout.split(b"\0") if path)


NAMES = st.sampled_from(["a", "b", "ab", "a.log", "b.log", "build", "x y", "#a", "!a", "a[1]", "keep.log", ".env"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
RULES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "*.log",
                "!keep.log",
                "build/",
                "/a",
                "a/b",
                "a/**",
                "**/b",
                "a/**/b",
                "*",
                "!*/",
                "!/b/",
                "#a",
                r"\#a",
                r"\!a",
                "x y",
                "x\\ ",
                "a[1]",
                r"a\[1\]",
                "[ab]",
                "[!a]",
                "?",
                "a*",
                "*/b",
                "/*",
                "!/build",
                "a/",
                "**",
                "**/",
                "/**",
                "a ",
                "",
                "!",
                "/",
                "a//b",
                "[a",
                "a\\",
            ]
        ),
        st.text("ab*?/[]!. ", max_size=6),
    ),
    max_size=5,
).map("\n".join)


@needs_git
@settings(max_examples=30, deadline=None)
@given(st.lists(PATHS, min_size=1, max_size=12), RULES, st.tuples(NAMES, RULES))
def test_gitignore_is_read_as_git_reads_it(paths: list[str], rules: str, inner: tuple[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path in paths:
            target = root / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text("")
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        (root / ".gitignore").write_text(rules)
        if (root / inner[0]).is_dir():
            (root / inner[0] / ".gitignore").write_text(inner[1])
        ours = sorted(found(root))
        assert ours == git_finds(root)


def test_what_is_named_is_found_though_ignored(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "build/\n*.log\n",
            "build/out.txt": "",
            "build/x.log": "",
            "a.log": "",
            "a.txt": "",
            "s/a.log": "",
        },
    )
    assert found(tmp_path) == [".gitignore", "a.txt"]
    assert found(tmp_path, "build/**") == ["build/out.txt"]
    assert found(tmp_path, "build/out.txt") == ["build/out.txt"]
    assert found(tmp_path, "s/a.log") == ["s/a.log"]
    assert found(tmp_path, "./a.log") == ["a.log"]
    assert found(tmp_path, "*.log") == []


def test_git_and_store_are_not_found(tmp_path: Path) -> None:
    write(tmp_path, {".git/config": "", ".kleene/run.duckdb": "", "s/.GIT/x": "", ".github/w.yml": ""})
    assert found(tmp_path) == [".github/w.yml"]
    with pytest.raises(ToolError, match="is closed to tools"):
        found(tmp_path, ".git/**")


@pytest.mark.parametrize("glob", ["none/**", "none/a.txt", "none.txt"])
def test_a_glob_that_means_nothing_gives_no_rows(tmp_path: Path, glob: str) -> None:
    assert rows(FILES, tmp_path, glob) == []


def test_rows_come_in_the_order_of_names_with_folders_first_and_links_as_links(tmp_path: Path) -> None:
    write(tmp_path, {"b/1": "x", "b/a/2": "xyz", "a.txt": "", "b.txt": "ü"})
    (tmp_path / "c").symlink_to("b")
    (tmp_path / "d").symlink_to("/etc/passwd")
    assert [(path, size, kind) for path, size, _, kind in rows(FILES, tmp_path, "**")] == [
        ("a.txt", 0, "file"),
        ("b", None, "folder"),
        ("b/1", 1, "file"),
        ("b/a", None, "folder"),
        ("b/a/2", 3, "file"),
        ("b.txt", 2, "file"),
        ("c", None, "link"),
        ("d", None, "link"),
    ]
    os.utime(tmp_path / "a.txt", (0, 86_400.5))
    assert [str(row[2]) for row in rows(FILES, tmp_path, "a.txt")] == ["1970-01-02 00:00:00.500000"]


def test_a_name_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    assert [row[0] for row in rows(FILES, tmp_path, "**")] == ["caf\ufffd.txt"]


def test_folders_nested_without_end_are_an_error_and_leave_nothing_open(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(250):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(ToolError, match="nested more than 200 deep"):
        found(tmp_path)
    assert len(os.listdir("/dev/fd")) == before
    shutil.rmtree(tmp_path / "d")


def test_a_walk_that_is_left_early_leaves_nothing_open(tmp_path: Path) -> None:
    write(tmp_path, {"a/b/c/1": "", "a/b/c/2": "", "a/d": ""})
    before = len(os.listdir("/dev/fd"))
    for glob in (None, "a/b/**", "a/b/c/1"):
        walking = walk(work(tmp_path), glob)
        next(walking)
        walking.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/dev/fd")) == before
