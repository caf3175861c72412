"""Commands stay in their sandbox. Each escape is tried for real, with bubblewrap; the tests that need it are skipped where it is missing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import Cancelled, ToolError
from kleene.tools.asking import ask
from kleene.tools.base import Limits, Work
from kleene.tools.jail import Jail
from kleene.tools.private import Private
from kleene.tools.processes import Bounds, Capture, runs_low
from kleene.tools.sandbox import Sandbox, probe, writable_parts
from kleene.tools.shell import MAX_COMMAND_BYTES, UNCONFINED, describe, fill, quote
from kleene.tools.syscalls import REFUSED, refusing
from tests.kleene.tools.work import needs_sandbox, refusal, shell, tree, use
from tests.patience import AT_ONCE_S, soon


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def work(folder: Path) -> Work:
    return Work(Jail.of(folder))


def sh(work: Work, command: str, *, sandbox: Sandbox | None = None, ms: int = 5_000) -> tuple[str, str, int]:
    stdout, stderr, code, duration_ms = use(shell(sandbox or Sandbox()), work, command, None, ms)[0]
    assert 0 <= duration_ms < ms + 2_000
    return stdout, stderr, code


def bounded(**changes: int) -> Sandbox:
    return Sandbox(bounds=attrs.evolve(Bounds(), **changes))


def running(mark: str) -> list[int]:
    """The processes of this machine with a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


# What a command gives


@needs_sandbox
def test_output_code_and_folder_come_back(work: Work, folder: Path) -> None:
    (folder / "src").mkdir()
    rows = use(shell(Sandbox()), work, "pwd; echo oh >&2; echo é > made; exit 3", "src")
    assert rows[0][:3] == (f"{folder}/src\n", "oh\n", 3)
    assert (folder / "src" / "made").read_text() == "é\n"


@needs_sandbox
def test_a_module_that_is_patched_within_the_second_runs_as_it_is_now(work: Work, folder: Path) -> None:
    for value in ("1", "2"):
        (folder / "shop.py").write_text(f"total = {value}\n")
        os.utime(folder / "shop.py", (1_000_000_000, 1_000_000_000))
        assert sh(work, "python3 -c 'import shop; print(shop.total)'")[0] == f"{value}\n"


@needs_sandbox
@pytest.mark.parametrize(
    ("command", "code", "note"),
    [
        ("kill -9 $$", -1, "[ended by signal 9, SIGKILL]"),
        ("sh -c 'kill -SEGV $$'; exit $?", -1, "[ended by signal 11, SIGSEGV]"),
        ("exit 255", 255, ""),
        ("exit 128", 128, ""),
    ],
)
def test_a_signal_is_minus_one_and_said(work: Work, command: str, code: int, note: str) -> None:
    _, stderr, given = sh(work, command)
    assert (given, stderr.splitlines()[-1:]) == (code, [note] if note else [])


@needs_sandbox
def test_output_that_is_no_text_is_mended(work: Work) -> None:
    assert sh(work, r"printf 'a\377b'; printf '\360\237' >&2") == ("a\ufffdb", "\ufffd", 0)


@needs_sandbox
def test_no_variable_of_the_users_is_there(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 1 of the sandbox is bwrap, whose environment any process in it may read."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    stdout, _, _ = sh(work, "tr '\\0' '\\n' < /proc/1/environ; env; tr '\\0' '\\n' < /proc/self/environ")
    assert {line.partition("=")[0] for line in stdout.splitlines()} <= {
        "PATH",
        "HOME",
        "LANG",
        "PWD",
        "PYTHONDONTWRITEBYTECODE",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((" ",), "the command is empty"),
        (("a\0b",), "the command holds a NUL character"),
        (("true", None, 0), "timeout_ms is 0; it may be 1 to 3,600,000"),
        (("x" * (MAX_COMMAND_BYTES + 1),), "the command has more than 131,071 bytes, which the system takes for one argument"),
        (("true", "../"), "../ climbs out of a folder"),
        (("true", "/etc"), "/etc is an absolute path"),
        (("true", ".kleene"), ".kleene is closed to tools"),
        (("true", "nowhere"), "nowhere: there is no such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused(work: Work, arguments: tuple[object, ...], said: str) -> None:
    assert refusal(shell(Sandbox()), work, *arguments).message == said


def test_a_folder_behind_a_link_out_is_refused(work: Work, folder: Path) -> None:
    (folder / "out").symlink_to("/etc")
    assert refusal(shell(Sandbox()), work, "ls", "out").kind == "access denied"


# Files


@needs_sandbox
@pytest.mark.parametrize(
    "command",
    [
        "cat {secret}",
        "cat {folder}/../secret",
        "ln -s {secret} here; cat here",
        "ln {secret} here; cat here",
        "cat /proc/1/root{secret}",
        "cat /proc/self/root{secret}",
        "cat /proc/1/cwd/../secret",
        "for f in /proc/*/fd/*; do cat $f/../secret $f/secret; done; ls {outside} /root/.ssh",
        "cat /etc/shadow",
        "ls /etc/ssl/private/",
        "ls /var/lib /home /run",
        "cat .kleene/run.duckdb",
        "cat /proc/kcore",
        "dmesg",
        "mount -t proc proc /mnt; mount --bind / /mnt; umount .kleene",
        "chroot /proc/1/root cat {secret}",
        "ls /dev/vda /dev/sda /dev/mem /dev/kmsg",
    ],
)
def test_nothing_outside_can_be_read(work: Work, folder: Path, command: str) -> None:
    outside = folder.parent
    (outside / "secret").write_text("the secret")
    (folder / ".kleene").mkdir()
    (folder / ".kleene" / "run.duckdb").write_text("the secret")
    command = command.format(secret=outside / "secret", outside=outside, folder=folder)
    stdout, stderr, code = sh(work, f"{command}; exit $?")
    assert code != 0 and "secret\n" not in stdout and "the secret" not in stdout + stderr


@needs_sandbox
@pytest.mark.parametrize(
    "target",
    [
        "{outside}/made",
        "/made",
        "/usr/made",
        "/etc/made",
        "/dev/made",
        "/proc/made",
        "{folder}/.kleene/made",
        "{folder}/.git/hooks/post-commit",
        "{folder}/.git/config",
        "{folder}/.git/commondir",
    ],
)
def test_nothing_outside_can_be_written(work: Work, folder: Path, target: str) -> None:
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "config").write_text("mine")
    path = target.format(outside=folder.parent, folder=folder)
    sh(work, f"mkdir -p $(dirname {path}); echo x > {path}")
    assert not Path(path).exists() or Path(path).read_text() == "mine"


@needs_sandbox
def test_the_systems_settings_cannot_be_written_even_by_root(work: Work) -> None:
    """Without /proc mounted read-only root can; what is written here is what stands there."""
    stdout, stderr, _ = sh(work, 'f=/proc/sys/kernel/core_pattern; v=$(cat $f); echo "$v" > $f && echo written')
    assert "written" not in stdout and ("Read-only" in stderr or "Permission" in stderr)


@needs_sandbox
def test_closed_folders_cannot_be_moved_away(work: Work, folder: Path) -> None:
    for name in (".git", ".kleene"):
        (folder / name).mkdir()
        (folder / name / "config").write_text("mine")
    _, _, code = sh(
        work, "mv .git g && exit 1; mv .kleene k && exit 1; rm -rf .git .kleene; cd .git && rm config && exit 1; exit 0"
    )
    assert code == 0
    assert [(folder / n / "config").read_text() for n in (".git", ".kleene")] == ["mine", "mine"]


@needs_sandbox
def test_a_store_that_is_not_there_yet_cannot_be_planted(work: Work, folder: Path) -> None:
    sh(work, "mkdir -p .kleene/skills/evil; echo bad > .kleene/skills/evil/SKILL.md")
    assert not (folder / ".kleene" / "skills").exists()


@needs_sandbox
def test_many_commands_may_run_at_once(work: Work) -> None:
    with ThreadPoolExecutor(6) as threads:
        done = list(threads.map(lambda n: sh(work, f"echo {n} > f{n}; cat f{n}", ms=20_000)[0], range(12)))
    assert done == [f"{n}\n" for n in range(12)]


@needs_sandbox
def test_a_probe_leaves_nothing_behind(folder: Path) -> None:
    assert probe(Sandbox(), Jail.of(folder)) is None and list(folder.iterdir()) == []


@needs_sandbox
def test_a_store_kept_elsewhere_is_hidden_too(folder: Path) -> None:
    (folder / "a" / "data").mkdir(parents=True)
    (folder / "a" / "data" / "my.duckdb").write_text("rows")
    (folder / "a" / "data" / "my.duckdb.wal").write_text("more rows")
    private = Private.of(folder, [folder / "a" / "data" / "my.duckdb"])
    work = Work(Jail.of(folder, private=private))
    for command in (
        "cat a/data/my.duckdb*; echo x > a/data/my.duckdb; rm a/data/my.duckdb.wal",
        "mv a/data a/other; mkdir a/data; echo x > a/data/my.duckdb",
        "mv a b; mkdir -p a/data; echo x > a/data/my.duckdb",
    ):
        assert sh(work, command)[0] == "", command
        assert tree(folder) == {
            "a/data/my.duckdb": "rows",
            "a/data/my.duckdb.wal": "more rows",
            ".kleene/.gitignore": "*\n",
        }
    assert sh(work, "echo y > a/data/mine.txt; cat a/data/mine.txt")[0] == "y\n"


@needs_sandbox
@pytest.mark.parametrize("name", ["HOME", "KLEENE_CONFIG_DIR", "XDG_CACHE_HOME"])
def test_no_command_runs_around_what_is_the_users_own(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, str(folder / "ada"))
    with pytest.raises(ToolError, match="your home folder or your configuration lies there"):
        sh(Work(Jail.of(folder)), "echo evil >> ada/.bashrc")
    assert list(folder.iterdir()) == []


@needs_sandbox
@pytest.mark.parametrize(
    ("writable", "made"),
    [
        (("**",), ["a", "missing/a", "out/a", "out/deep/a", "src/a"]),
        (("out/**",), ["out/a", "out/deep/a"]),
        (("./out/deep/",), ["out/deep/a"]),
        (("*.md", "src/*"), []),
        ((), []),
        (("linked/**",), []),
        ((".git/**", "missing/**"), []),
    ],
)
def test_a_role_writes_where_it_may(folder: Path, writable: tuple[str, ...], made: list[str]) -> None:
    for name in ("out/deep", "src", ".git"):
        (folder / name).mkdir(parents=True)
    target = folder.parent / "target"
    target.mkdir()
    (folder / "linked").symlink_to(target)
    work = Work(Jail.of(folder, writable))
    sh(work, "for d in . out out/deep src .git linked missing; do mkdir -p $d; echo x > $d/a; done")
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("a")) == made
    assert list(target.iterdir()) == []


def test_only_what_is_there_and_no_link_can_be_mounted(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "file").write_text("")
    (folder / "link").symlink_to("a")
    jail = Jail.of(folder, ("a/b/**", "./file", "link/b/**", "link/**", "no/**", "a/../**", "*.md", "a/*"))
    assert writable_parts(jail) == ["a/b", "file"]


@needs_sandbox
def test_scratch_is_private_and_bounded(work: Work) -> None:
    sandbox = bounded(scratch_bytes=1 << 20)
    command = "echo x > /tmp/mark; head -c 3000000 /dev/zero > /tmp/big || head -c 3000000 /dev/zero > /dev/shm/big"
    _, stderr, code = sh(work, command, sandbox=sandbox)
    assert code != 0 and stderr.count("No space left") == 2
    assert sh(work, "ls /tmp/mark")[2] != 0


# Network, processes, signals


@pytest.fixture
def listening() -> Iterator[tuple[int, str]]:
    """A port and an abstract socket that somebody else on this machine listens on."""
    name = f"kleene-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0" + name)
        unix.listen()
        yield tcp.getsockname()[1], name


REACH = """python3 -c "
import socket
for family, address in ((socket.AF_INET, ('127.0.0.1', {port})), (socket.AF_UNIX, chr(0) + '{name}')):
    try:
        socket.socket(family).connect(address)
        print('reached')
    except OSError as error:
        print('refused')
" """


@needs_sandbox
@pytest.mark.parametrize(("network", "said"), [(False, "refused\nrefused\n"), (True, "reached\nreached\n")])
def test_the_network_is_there_only_when_granted(
    work: Work, listening: tuple[int, str], network: bool, said: str
) -> None:
    port, name = listening
    assert sh(work, REACH.format(port=port, name=name), sandbox=Sandbox(network=network))[0] == said


@needs_sandbox
def test_other_processes_can_be_neither_seen_nor_signalled(work: Work) -> None:
    with subprocess.Popen(["sleep", "77.125"]) as other:
        stdout, _, _ = sh(work, f"kill -9 {other.pid}; kill -9 -1; cat /proc/*/cmdline; ls /proc")
        assert other.poll() is None and "77.125" not in stdout and str(other.pid) not in stdout.split()
        other.kill()


@needs_sandbox
def test_there_is_no_terminal_and_no_input(work: Work) -> None:
    stdout, _, _ = sh(work, "cat; tty; (echo x > /dev/tty) 2>&1 | grep -c 'No such device'")
    assert stdout == "not a tty\n1\n"


@needs_sandbox
def test_namespaces_cannot_be_nested(work: Work) -> None:
    assert sh(work, "unshare -Ur true")[2] != 0


@needs_sandbox
def test_a_command_holds_no_descriptor_of_ours(work: Work, folder: Path) -> None:
    """One of a folder outside would lead out by ``..``."""
    (folder / ".git").mkdir()
    stdout, _, _ = sh(work, "exec ls /proc/self/fd")
    assert stdout.split() == ["0", "1", "2", "3"]  # the last is the folder that ls lists


CALLS = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in map(int, sys.argv[1:]):
    ctypes.set_errno(0)
    made = libc.syscall(number, -1, -1, -1, -1, -1)
    print(errno.errorcode.get(ctypes.get_errno()) if made == -1 else "made")
"""


@needs_sandbox
@pytest.mark.skipif(
    os.uname().machine not in REFUSED, reason="the numbers of this machine's system calls are not known"
)
def test_keyrings_and_calls_into_the_kernel_are_refused(work: Work, folder: Path) -> None:
    (folder / "calls.py").write_text(CALLS)
    numbers = REFUSED[os.uname().machine]
    stdout, stderr, _ = sh(
        work, f"python3 calls.py {' '.join(map(str, numbers.values()))}; grep Seccomp: /proc/self/status"
    )
    assert stdout.split() == ["EPERM"] * len(numbers) + ["Seccomp:", "2"], stderr


@pytest.mark.parametrize("machine", REFUSED)
def test_each_refused_call_and_no_other_fails(machine: str) -> None:
    """The program is run here as the kernel runs it."""
    program = refusing(machine)
    assert program is not None
    arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    refused = set(REFUSED[machine].values())
    assert {n for n in range(600) if run_bpf(program, n, arch) == 0x50001} == refused
    assert {run_bpf(program, n, arch) for n in set(range(600)) - refused} == {0x7FFF0000}
    assert {run_bpf(program, n, 0x40000003) for n in range(600)} == {0x50026}
    assert run_bpf(program, 0x40000001, arch) == (0x50026 if machine == "x86_64" else 0x7FFF0000)


def run_bpf(program: bytes, number: int, arch: int) -> int:
    held, at = 0, 0
    while True:
        code, yes, no, k = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            held = {0: number, 4: arch}[k]
        elif code == 0x06:
            return k
        else:
            at += yes if (held == k if code == 0x15 else held >= k) else no


# Bombs


@pytest.mark.slow  # it takes the machine from every test beside it
@needs_sandbox
def test_a_fork_bomb_is_ended(work: Work) -> None:
    begun = time.monotonic()
    error = refusal(shell(bounded(processes=40)), work, "b() { b | b & }; b; sleep 19.5", None, 8_000)
    # The kernel's own limit may hold it down until the time is over; root has none, and is ended at the count.
    assert error.kind in ("too large", "timed out") and time.monotonic() - begun < 10
    assert soon(lambda: not running("sleep\x0019.5"))
    assert sh(work, "echo well") == ("well\n", "", 0)


@needs_sandbox
def test_a_process_that_wants_too_much_memory_gets_none(work: Work) -> None:
    _, stderr, code = sh(work, "python3 -c 'bytearray(10**9)'", sandbox=bounded(memory_bytes=200 << 20))
    assert code == 1 and stderr.endswith("MemoryError\n")


@needs_sandbox
def test_many_processes_that_want_too_much_together_are_ended(work: Work) -> None:
    command = "for i in 1 2 3 4 5; do (head -c 40000000 /dev/zero; sleep 9) | tail -c 40000000 > /dev/null & done; wait"
    error = refusal(shell(bounded(memory_bytes=100 << 20)), work, command, None, 8_000)
    assert "was killed: more than 100 MiB of memory" in error.message and error.kind == "too large"


@pytest.mark.parametrize(
    ("left", "begun", "low"), [(500, 8000, True), (600, 8000, False), (500, 700, False), (300, 700, True)]
)
def test_a_command_ends_before_the_machine_does(left: int, begun: int, low: bool) -> None:
    bounds = Bounds(memory_bytes=4 << 30, reserve_bytes=512 << 20)
    assert runs_low(left << 20, begun << 20, bounds) is low


@pytest.mark.slow  # what others on the machine free meanwhile hides it
@needs_sandbox
def test_memory_that_no_process_maps_is_seen_on_the_machine(work: Work) -> None:
    program = "import os,time; f=os.memfd_create('x'); [os.write(f, bytes(1<<20)) for _ in range(400)]; time.sleep(9)"
    sandbox = bounded(memory_bytes=200 << 20, reserve_bytes=1 << 60)
    error = refusal(shell(sandbox), work, f'python3 -c "{program}"', None, 8_000)
    assert "was killed: the machine has only" in error.message and error.kind == "too large"


@needs_sandbox
def test_memory_that_processes_share_counts_once(work: Work) -> None:
    program = "import os,time; x = bytearray(40_000_000); [os.fork() for _ in range(2)]; time.sleep(0.3); print('well')"
    stdout, stderr, _ = sh(work, f'python3 -c "{program}"', sandbox=bounded(memory_bytes=100 << 20))
    assert stdout == "well\n" * 4, stderr


@needs_sandbox
def test_ten_gigabytes_of_output_are_cut_and_ended(work: Work) -> None:
    begun = time.monotonic()
    error = refusal(shell(bounded(drained_bytes=32 << 20)), work, "head -c 10G /dev/zero | tr '\\0' x", None, 20_000)
    assert "was killed: more than 32 MiB of output" in error.message and len(error.message) < 2_000
    assert time.monotonic() - begun < 5


@needs_sandbox
def test_a_long_output_keeps_its_ends(work: Work) -> None:
    stdout, _, _ = sh(work, "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert stdout.startswith("first\n") and stdout.endswith("\nlast\n")
    assert "\n[3,951,436 bytes left out]\n" in stdout and len(stdout) < (1 << 20) + 100


@needs_sandbox
def test_a_file_that_grows_too_large_is_ended(work: Work, folder: Path) -> None:
    _, _, code = sh(work, "exec head -c 3000000 /dev/zero > big", sandbox=bounded(file_bytes=1 << 20))
    assert code == -1 and (folder / "big").stat().st_size == 1 << 20


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(2, 8))
def test_a_capture_keeps_what_it_says(pieces: list[bytes], limit: int) -> None:
    capture = Capture(limit)
    for piece in pieces:
        capture.add(piece)
    whole = b"".join(pieces)
    held = bytes(capture.head) + b"".join(capture.tail)[-(limit - limit // 2) :]
    assert held == (whole if len(whole) <= limit else whole[: limit // 2] + whole[-(limit - limit // 2) :])
    assert ("left out" in capture.text()) == (len(whole) > limit)


# The end


@needs_sandbox
@pytest.mark.parametrize(
    "command",
    [
        "trap '' TERM INT HUP QUIT; while :; do sleep 31.625; done",
        "setsid nohup sh -c 'trap \"\" TERM; sleep 31.625' & sleep 31.625",
        "kill -STOP $$; sleep 31.625",
        "exec > /dev/null 2>&1; sleep 31.625",
    ],
)
def test_a_timeout_kills_all_of_it(work: Work, command: str) -> None:
    begun = time.monotonic()
    error = refusal(shell(Sandbox()), work, command, None, 250)
    assert error.kind == "timed out" and time.monotonic() - begun < AT_ONCE_S
    assert soon(lambda: not running("31.625"))


@needs_sandbox
def test_a_timeout_shows_what_was_said_last(work: Work) -> None:
    error = refusal(shell(Sandbox()), work, "echo one; echo two; sleep 9", None, 1_000)
    said = r"'echo one; echo two; sleep 9' was not done after \d\.\d s and was killed; its last output:\n"
    assert re.match(said, error.message)
    assert error.message.endswith("\none\ntwo")
    assert error.hint == "give it longer with shell(cmd, cwd, timeout_ms), or do less at once"


@needs_sandbox
def test_the_deadline_of_the_statement_holds_too(work: Work) -> None:
    work = attrs.evolve(work, deadline=time.monotonic() + 0.2)
    error = refusal(shell(Sandbox()), work, "sleep 9", None, 9_000)
    assert (error.kind, error.hint) == ("timed out", "the statement's own time was over: do less at once")


@needs_sandbox
def test_a_command_has_the_time_it_was_given(work: Work) -> None:
    """Not that of the tools that take no time as an argument."""
    short = attrs.evolve(work, limits=Limits(seconds=0.1))
    assert next(iter(ask(shell(Sandbox()), short, ("sleep 0.3; echo done", None, 5_000))))[0] == "done\n"


@needs_sandbox
def test_a_cancel_kills_it_at_once(work: Work) -> None:
    begun = time.monotonic()
    work = attrs.evolve(work, cancelled=lambda: time.monotonic() - begun > 0.15)
    with pytest.raises(Cancelled):
        use(shell(Sandbox()), work, "trap '' TERM; sleep 32.375", None, 9_000)
    assert time.monotonic() - begun < AT_ONCE_S and soon(lambda: not running("32.375"))


BACKGROUND = "(sleep 3; echo x > late) & setsid sh -c 'sleep 3; echo x > late' & sleep 33.875 & sleep 0.1; echo done"


@needs_sandbox
def test_what_a_command_leaves_running_is_ended_with_it(work: Work, folder: Path) -> None:
    begun = time.monotonic()
    assert sh(work, BACKGROUND)[0] == "done\n"
    assert time.monotonic() - begun < 2.9 and soon(lambda: not running("33.875"))
    time.sleep(max(0.0, begun + 3.3 - time.monotonic()))
    assert not (folder / "late").exists()


@needs_sandbox
def test_a_command_does_not_outlive_a_killed_kleene(folder: Path) -> None:
    program = f"""
        from kleene.tools.base import Work
        from kleene.tools.jail import Jail
        from kleene.tools.sandbox import Sandbox
        from kleene.tools.shell import run_in
        list(run_in(Sandbox(), Work(Jail.of({str(folder)!r})), ("touch here; sleep 34.125", None, None)))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)]) as process:
        assert soon((folder / "here").exists, 10)
        process.send_signal(signal.SIGKILL)
    assert soon(lambda: not running("34.125"))


# Without a sandbox


def stub_bwrap(folder: Path, script: str) -> Sandbox:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Sandbox(program=str(path))


HELP = "\n".join(
    f"    {o}  x" for o in ("--die-with-parent", "--new-session", "--info-fd", "--block-fd", "--cap-drop", "--remount-ro", "--clearenv")
)  # fmt: skip


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "no-such-bwrap is not installed"),
        ("echo '    --bind SRC DEST'", "this bwrap is too old: it has no --die-with-parent"),
        (f"if [ $1 = --help ]; then echo '{HELP}'; else echo 'bwrap: No permissions to create new namespace' >&2; exit 1; fi",
         "No permissions to create new namespace"),
        (f"if [ $1 = --help ]; then echo '{HELP}'; else exit 1; fi", "bwrap fails without a word"),
    ],
)  # fmt: skip
def test_without_a_sandbox_commands_are_refused(tmp_path: Path, work: Work, script: str | None, reason: str) -> None:
    sandbox = stub_bwrap(tmp_path, script) if script else Sandbox(program="no-such-bwrap")
    error = refusal(shell(sandbox), work, "touch made")
    assert (error.kind, error.message) == ("unsupported", f"no sandbox for commands: {reason}")
    assert (
        error.hint == "install bubblewrap (apt install bubblewrap), or allow commands without a sandbox: --unsafe-shell"
    )
    assert probe(sandbox, work.workspace) == error.message
    assert not (Path(work.workspace.root) / "made").exists()


@needs_sandbox
def test_an_older_bubblewrap_will_do(tmp_path: Path, work: Work, folder: Path) -> None:
    """Without mounts by descriptor, sizes, and the switch against nested namespaces."""
    script = 'if [ "$1" = --help ]; then bwrap --help | grep -v -e bind-fd -e --size -e disable-userns; else exec bwrap "$@"; fi'
    (folder / ".git").mkdir()
    stdout, stderr, code = sh(work, "echo x > made; echo x > .git/x; cat made", sandbox=stub_bwrap(tmp_path, script))
    assert (stdout, code) == ("x\n", 0) and "Read-only" in stderr


UNSAFE = Sandbox(program="no-such-bwrap", unsafe=True)


def test_unsafe_commands_run_and_say_so(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    stdout, stderr, code = sh(work, "pwd; echo oh >&2; env; exit 4", sandbox=UNSAFE)
    assert stdout.startswith(f"{work.workspace.root}\n") and "sk-secret" not in stdout
    assert (stderr, code) == (f"oh\n{UNCONFINED}", 4)
    assert sh(work, "kill -9 $$", sandbox=UNSAFE)[1:] == (f"[ended by signal 9, SIGKILL]\n{UNCONFINED}", -1)


def test_an_unsafe_command_is_killed_as_a_tree(work: Work, folder: Path) -> None:
    begun = time.monotonic()
    assert sh(work, BACKGROUND, sandbox=UNSAFE)[0] == "done\n"
    assert refusal(shell(UNSAFE), work, "setsid sleep 33.875 & sleep 33.875", None, 200).kind == "timed out"
    assert soon(lambda: not running("33.875"))
    time.sleep(max(0.0, begun + 3.3 - time.monotonic()))
    assert not (folder / "late").exists()


@needs_sandbox
def test_allowing_unsafe_commands_does_not_take_the_sandbox_away(work: Work) -> None:
    stdout, stderr, _ = sh(work, "echo $HOME", sandbox=Sandbox(unsafe=True))
    assert (stdout, stderr) == ("/tmp/home\n", "")


def test_a_workspace_that_holds_the_system_is_refused() -> None:
    error = refusal(shell(Sandbox()), Work(Jail.of("/")), "true")
    assert error.kind in ("access denied", "unsupported")


# SHELL functions


HOSTILE = st.text(
    st.sampled_from(list("a '\"$`\\;|&<>(){}*?!#~-\n\t=%é")) | st.characters(exclude_characters="\0", codec="utf-8"),
    max_size=30,
)


@settings(max_examples=30)
@given(HOSTILE)
def test_a_quoted_value_is_one_word(value: str) -> None:
    done = subprocess.run(["sh", "-c", f"printf '%s' {quote(value)}"], capture_output=True, check=True)
    assert done.stdout.decode() == value


BODIES = {
    "bare": "printf '%s' {a}",
    "double": "printf '%s' \"{a}\"",
    "within": "printf '%s' x\"{a}\"y | sed '1s/^x//; $s/y$//'",
    "comment": "# it's {a}\nprintf '%s' {a}",
    "quoted hash": "printf '%s' \" # {a}\" | sed '1s/^ # //'",
    "quoted backslash": "printf '%s' '\\' > /dev/null; printf '%s' {a}",
    "braces": "f() {{ printf '%s' {a}; }}; f",
    "substitution": "printf '%s' \"$(printf '%s.' {a})\" | sed '$s/[.]$//'",
}


@settings(max_examples=40)
@given(HOSTILE, st.sampled_from(sorted(BODIES)))
def test_an_argument_never_becomes_a_command(value: str, body: str) -> None:
    done = subprocess.run(["sh", "-c", fill(BODIES[body], {"a": value})], capture_output=True, check=True)
    assert done.stdout.decode() == value


def test_a_here_document_runs_nothing() -> None:
    script = fill("cat <<END\n{a}\nEND", {"a": "$(echo bad)`echo bad`"})
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == '"$(echo bad)`echo bad`"\n'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo {b}", "{b} is no parameter of this function"),
        ("echo '{a}'", "{a} stands between single quotes, where the shell fills in nothing"),
        ("echo {n}", "an argument of a shell command holds a NUL character"),
    ],
)
def test_a_body_that_cannot_be_filled_is_refused(body: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        fill(body, {"a": "x", "n": "\0"})
    assert (caught.value.message, caught.value.kind) == (said, "invalid arguments")


def test_a_dry_run_shows_the_command_on_one_line() -> None:
    assert (
        describe(("a\n  b \x1b[2K" + "x" * 5000, "d\u202e"))
        == r"run in d\u202e: a\n b \x1b[2K" + "x" * 3991 + "... (1,009 more)"
    )
    assert describe((None, None, None)) == "run: None"
