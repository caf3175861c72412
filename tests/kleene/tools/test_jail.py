"""Nothing outside the workspace is read or written, whatever a path says and whoever changes folders meanwhile."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kleene.planner.errors import ConfigError, ToolError
from kleene.tools.jail import Jail, is_closed

LIMIT = 1 << 20
SECRET = b"outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_bytes(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("inside")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("token")
    (folder / ".kleene").mkdir()
    return folder


@pytest.fixture
def jail(root: Path) -> Jail:
    return Jail.of(root)


def refused(act: Callable[[], object], kind: str = "access denied") -> str:
    with pytest.raises(ToolError) as caught:
        act()
    assert caught.value.kind == kind, caught.value.render()
    return caught.value.message


PATHS = [
    ("/etc/passwd", "access denied", "/etc/passwd is an absolute path"),
    ("//etc/passwd", "access denied", "//etc/passwd is an absolute path"),
    ("../outside/secret.txt", "access denied", "../outside/secret.txt climbs out of a folder"),
    ("src/../../outside/secret.txt", "access denied", "src/../../outside/secret.txt climbs out of a folder"),
    ("src/..", "access denied", "src/.. climbs out of a folder"),
    ("src/a.txt/../../x", "access denied", "src/a.txt/../../x climbs out of a folder"),
    ("a\0b", "invalid arguments", "a path holds a NUL character"),
    ("src/a.txt\0.md", "invalid arguments", "a path holds a NUL character"),
    ("x" * 300, "invalid arguments", f"{'x' * 60}…: the name is too long"),
    (".git/config", "access denied", ".git/config is closed to tools"),
    (".GIT/config", "access denied", ".GIT/config is closed to tools"),
    (".g\u200cit/config", "access denied", ".g\u200cit/config is closed to tools"),
    ("src/.git", "access denied", "src/.git is closed to tools"),
    (".kleene/run.duckdb", "access denied", ".kleene/run.duckdb is closed to tools"),
    ("src", "invalid arguments", "src is a folder"),
    ("", "invalid arguments", " is a folder"),
    ("./", "invalid arguments", "./ is a folder"),
    ("src/b.txt", "io", "src/b.txt: there is no such file"),
    ("src/a.txt/x", "io", "src/a.txt/x: Not a directory"),
    ("a\ud800b", "invalid arguments", "'a\\ud800b' cannot be a file name"),
    ("~/x", "io", "~/x: there is no such file"),
    ("file:///etc/passwd", "io", "file:///etc/passwd: there is no such file"),
    ("src\\..\\..\\outside", "io", "src\\..\\..\\outside: there is no such file"),
    ("%2e%2e/outside/secret.txt", "io", "%2e%2e/outside/secret.txt: there is no such file"),
]


@pytest.mark.parametrize(("path", "kind", "message"), PATHS, ids=[repr(p[0][:20]) for p in PATHS])
def test_a_path_that_is_no_file_of_the_workspace(jail: Jail, outside: Path, path: str, kind: str, message: str) -> None:
    assert refused(lambda: jail.open(path), kind) == message


@pytest.mark.parametrize("path", [p[0] for p in PATHS if p[1] != "io"], ids=lambda p: repr(p[:20]))
def test_what_cannot_be_read_cannot_be_written(jail: Jail, outside: Path, path: str) -> None:
    with pytest.raises(ToolError):
        jail.write(path, b"x")
    with pytest.raises(ToolError):
        jail.append(path, b"x", limit=LIMIT)
    if path != "src":
        with pytest.raises(ToolError):
            jail.remove(path)
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_an_absolute_path_inside_is_refused_with_the_relative_one(jail: Jail, root: Path) -> None:
    with pytest.raises(ToolError) as caught:
        jail.open(f"{jail.root}/src/a.txt")
    assert caught.value.hint == "paths are relative to the workspace: 'src/a.txt'"


@pytest.mark.parametrize("path", ["src/a.txt", "./src/a.txt", "src//a.txt", "src/./a.txt"])
def test_a_file_is_read_by_any_spelling_of_its_path(jail: Jail, path: str) -> None:
    with jail.open(path) as file:
        assert (file.path, file.read(LIMIT)) == ("src/a.txt", b"inside")


def test_a_link_inside_is_followed_for_reading(jail: Jail, root: Path) -> None:
    (root / "latest").symlink_to("src")
    (root / "src" / "up").symlink_to("../src/a.txt")
    (root / "chain").symlink_to("latest/up")
    with jail.open("chain") as file:
        assert (file.path, file.read(LIMIT)) == ("src/a.txt", b"inside")
    with jail.folder("latest") as folder:
        assert folder.parts == ("src",)


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../outside/secret.txt", "../outside", "src/../../outside/secret.txt", ".git/config", "loop", "."],
)
def test_a_link_that_leads_elsewhere_is_refused(jail: Jail, root: Path, outside: Path, target: str) -> None:
    (root / "loop").symlink_to(target)
    with pytest.raises(ToolError) as caught:
        jail.open("loop").close()
    assert caught.value.kind == ("invalid arguments" if target == "." else "access denied")
    (root / "deep").symlink_to("loop")
    with pytest.raises(ToolError):
        jail.open("deep/secret.txt")


def test_no_link_is_followed_for_writing(jail: Jail, root: Path, outside: Path) -> None:
    (root / "out").symlink_to("../outside")
    (root / "in").symlink_to("src")
    (root / "file").symlink_to("src/a.txt")
    for path in ("out/new.txt", "in/new.txt", "file"):
        refused(lambda path=path: jail.write(path, b"x"))  # type: ignore[misc]
        refused(lambda path=path: jail.append(path, b"x", limit=LIMIT))  # type: ignore[misc]
    refused(lambda: jail.mkdir("out/x"))
    refused(lambda: jail.remove("out/secret.txt"))
    assert sorted(p.name for p in outside.iterdir()) == ["secret.txt"]
    assert (root / "src" / "a.txt").read_text() == "inside"


def test_removing_a_link_leaves_what_it_points_to(jail: Jail, root: Path, outside: Path) -> None:
    (root / "out").symlink_to("../outside/secret.txt")
    jail.remove("out")
    assert not (root / "out").is_symlink()
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_a_file_with_another_hard_link_is_not_written(jail: Jail, root: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", root / "twin")
    assert refused(lambda: jail.write("twin", b"x")) == "twin has other hard links, which may lie outside"
    refused(lambda: jail.append("twin", b"x", limit=LIMIT))
    assert (outside / "secret.txt").read_bytes() == SECRET
    jail.remove("twin")
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_pipes_sockets_and_devices_are_no_files(jail: Jail, root: Path) -> None:
    os.mkfifo(root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(root / "socket"))
    server.close()
    names = ["pipe", "socket"]
    if os.geteuid() == 0:
        try:
            os.mknod(root / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            names.append("null")
        except OSError:
            pass
    for name in names:
        message = f"{name} is a device, pipe or socket, not a file"
        assert refused(lambda name=name: jail.open(name)) == message  # type: ignore[misc]
        assert refused(lambda name=name: jail.write(name, b"x")) == message  # type: ignore[misc]
    with jail.folder() as folder:
        assert {e.name: e.kind for e in folder.entries() if e.name in names} == dict.fromkeys(names, "other")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a system without /proc")
def test_a_system_folder_is_neither_workspace_nor_reached_from_one() -> None:
    with pytest.raises(ConfigError, match="is a system folder"):
        Jail.of("/proc")
    jail = Jail.of("/")
    assert refused(lambda: jail.open("proc/self/environ")) == "proc/self/environ lies on a system file system"


def test_the_workspace_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        Jail.of(tmp_path / "none")


def test_a_workspace_that_vanished_is_an_error_of_the_tool(jail: Jail, root: Path) -> None:
    root.rename(root.with_name("elsewhere"))
    assert refused(lambda: jail.open("src/a.txt"), "io") == "src/a.txt: there is no such file"


def test_only_the_allowed_paths_are_written(root: Path) -> None:
    jail = Jail.of(root, writable=("out/**", "*.md"))
    for path in ("out/a/b.txt", "notes.md", "src/deep/x.md"):
        jail.write(path, b"x")
    for path in ("a.txt", "src/x.txt", "outside/x", "out"):
        refused(lambda path=path: jail.write(path, b"x"))  # type: ignore[misc]
    with pytest.raises(ToolError) as caught:
        jail.write("a.txt", b"x")
    assert caught.value.hint == "writable here: out/**, *.md"
    refused(lambda: jail.writing().write("out/b.txt", b"x"))


def test_a_write_replaces_the_file_and_keeps_its_mode(jail: Jail, root: Path) -> None:
    path = root / "src" / "a.txt"
    path.chmod(0o751)
    inode = path.stat().st_ino
    with open(path, "rb") as reader:
        stamp = jail.write("src/a.txt", b"new")
        assert reader.read() == b"inside"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert path.stat().st_ino != inode
    with jail.open("src/a.txt") as file:
        assert file.stamp == stamp
    assert sorted(p.name for p in (root / "src").iterdir()) == ["a.txt"]


def test_a_write_is_refused_where_the_file_changed(jail: Jail, root: Path) -> None:
    with jail.open("src/a.txt") as file:
        stamp = file.stamp
    (root / "src" / "a.txt").write_text("changed meanwhile")
    assert refused(lambda: jail.write("src/a.txt", b"x", expected=stamp)) == "src/a.txt changed since it was read"
    (root / "src" / "a.txt").unlink()
    refused(lambda: jail.write("src/a.txt", b"x", expected=stamp))


def test_a_failed_write_leaves_nothing(jail: Jail, root: Path) -> None:
    (root / "folder").mkdir()
    refused(lambda: jail.write("folder", b"x"), "invalid arguments")
    assert sorted(p.name for p in root.iterdir()) == [".git", ".kleene", "folder", "src"]


def test_append_mkdir_and_remove(jail: Jail, root: Path) -> None:
    jail.append("log/a.txt", b"1", limit=LIMIT)
    jail.append("log/a.txt", b"2", limit=LIMIT)
    assert (root / "log" / "a.txt").read_bytes() == b"12"
    refused(lambda: jail.append("log/a.txt", b"345", limit=4), "too large")
    jail.mkdir("a/b/c")
    jail.mkdir("a/b/c")
    refused(lambda: jail.mkdir("src/a.txt"), "io")
    refused(lambda: jail.remove("a/b"), "io")
    jail.remove("a/b/c")
    jail.remove("log/a.txt")
    refused(lambda: jail.remove("log/a.txt"), "io")
    refused(lambda: jail.remove(""), "invalid arguments")
    assert jail.status("a/b") is not None
    assert jail.status("a/b/c") is None


def test_a_file_larger_than_the_limit_is_not_read(jail: Jail, root: Path) -> None:
    (root / "big").write_bytes(b"x" * 101)
    assert refused(lambda: jail.read("big", 100), "too large") == "big has 101 bytes, more than the limit of 100"
    assert len(jail.read("big", 101)) == 101
    with jail.open("src/a.txt") as file:
        with open(root / "src" / "a.txt", "ab") as grows:
            grows.write(b"x" * 100)
        refused(lambda: file.read(50), "too large")


def test_closed_names() -> None:
    assert [n for n in (".git", ".Git", ".kleene", ".KLEENE", ".gitignore", "git", ".github") if is_closed(n)] == [
        ".git",
        ".Git",
        ".kleene",
        ".KLEENE",
    ]


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_race_of_links_never_leaves_the_workspace(jail: Jail, root: Path, outside: Path, what: str) -> None:
    """Another thread swaps a folder (or a file) for a link to outside and back while it is read and written."""
    victim, spare = (root / "swap", root / "spare") if what == "folder" else (root / "swap.txt", root / "spare.txt")
    if what == "folder":
        victim.mkdir()
        (victim / "secret.txt").write_text("inside")
    else:
        victim.write_text("inside")
    (root / "bait").symlink_to("../outside" if what == "folder" else "../outside/secret.txt")
    path = "swap/secret.txt" if what == "folder" else "swap.txt"
    stop = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            for old, new in ((victim, spare), (root / "bait", victim), (victim, root / "bait"), (spare, victim)):
                with suppress(OSError):
                    os.rename(old, new)
            if spare.exists():  # a write made the folder anew in between
                shutil.rmtree(victim, ignore_errors=True)
            swaps += 1

    thread = threading.Thread(target=swap)
    thread.start()
    seen: dict[str, int] = {"read": 0, "refused": 0, "written": 0}
    try:
        for i in range(1_500):
            try:
                data = jail.read(path, LIMIT)
                assert data != SECRET
                seen["read"] += 1
                if i % 3 == 0:
                    jail.write("swap/new.txt" if what == "folder" else path, b"inside")
                    seen["written"] += 1
            except ToolError:
                seen["refused"] += 1
    finally:
        stop.set()
        thread.join()
    assert sorted(p.name for p in outside.iterdir()) == ["secret.txt"]
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert swaps > 0
    assert seen["read"] > 0


def test_no_descriptor_is_left_open(jail: Jail, root: Path) -> None:
    def count() -> int:
        return len(os.listdir("/dev/fd"))

    before = count()
    for path in ("src/a.txt", "src", "src/none", ".git/config", "../x", "src/a.txt/x"):
        with suppress(ToolError):
            jail.open(path).close()
        with suppress(ToolError):
            jail.write(path, b"x")
    jail.folder("src").close()
    assert count() == before
