"""Runs one command to its end, whatever it does: output is cut, time and memory are bounded, and no process of it stays behind.

The command is watched from one thread. Every 50 ms it looks at the clock, at ``cancelled``, and at the processes that came out of the command:
limits of the kernel are a process's own, so that a hundred small ones pass them, and none of them counts processes of root.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import attrs

from kleene.planner.errors import Cancelled, ToolError

POLL_S = 0.05
AFTER_EXIT_S = 1.0
"""So long may it take until the pipes of an ended command are closed: somebody outside may hold them."""
KILL_ROUNDS = 50
"""Who forks while it is killed is looked for again, so many times."""
MOST_KILLED = 10_000
PIECE = 1 << 18


@attrs.frozen
class Bounds:
    """What a command may use. ``cpu_s``, ``file_bytes`` (of one file that it writes) and ``files`` (open at a time) are each process's own;
    ``memory_bytes`` and ``processes`` bound a process and all of them together; ``stream_bytes`` is kept of each output, the first half and
    the last; who says more than ``drained_bytes`` is ended, for reading what nobody keeps costs time too. ``scratch_bytes``: of its private
    /tmp and of /dev/shm. ``reserve_bytes``: a command is ended too when the machine has less memory left than
    this and had ``memory_bytes`` more (or twice as much) when it began: what lies in pipes, sockets and nameless files is no process's own.
    """

    cpu_s: int = 600
    memory_bytes: int = 4 << 30
    processes: int = 256
    files: int = 1024
    file_bytes: int = 1 << 30
    scratch_bytes: int = 512 << 20
    stream_bytes: int = 1 << 20
    drained_bytes: int = 512 << 20
    reserve_bytes: int = 512 << 20


@attrs.frozen
class Finished:
    """``status`` is what the system gave: an exit code, or minus a signal. ``ended`` says why the command was killed, None where it was not."""

    stdout: str
    stderr: str
    status: int
    ended: str | None
    duration_ms: int


@attrs.define
class Capture:
    """Keeps the beginning and the end of a stream, ``limit`` bytes in all.

    >>> c = Capture(4); c.add(b"abcdef"); c.add(b"gh"); c.text()
    'ab\\n[4 bytes left out]\\ngh'
    """

    limit: int
    total: int = 0
    head: bytearray = attrs.field(factory=bytearray)
    tail: deque[bytes] = attrs.field(factory=deque)
    held: int = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        keep = self.limit - self.limit // 2
        if data:
            self.tail.append(data[-keep:])
            self.held += len(self.tail[-1])
            while self.held - len(self.tail[0]) >= keep:
                self.held -= len(self.tail.popleft())

    def text(self) -> str:
        keep = self.limit - self.limit // 2
        end = b"".join(self.tail)[-keep:]
        left_out = self.total - len(self.head) - len(end)
        if not left_out:
            return (bytes(self.head) + end).decode("utf-8", "replace")
        return f"{_decode(self.head)}\n[{left_out:,} bytes left out]\n{_decode(end)}"


def _decode(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")


Prepare = Callable[[int], None]
"""Called with the process id once it runs; may raise, which ends the command."""


@attrs.frozen
class Command:
    """What is run. ``environ`` is the whole environment. ``prepare`` is called once it has started; ``pass_fds`` stay open in it."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    cwd: str | None = None
    pass_fds: tuple[int, ...] = ()
    stdin: int = subprocess.DEVNULL
    prepare: Prepare | None = None


def run(command: Command, bounds: Bounds, *, deadline: float, cancelled: Callable[[], bool]) -> Finished:
    """Runs a command in a session of its own until it exits, ``deadline`` (of ``time.monotonic``) comes, or a bound is passed; then kills
    whatever it left behind. Raises ``Cancelled`` after the same, and ``ToolError`` where it cannot be started."""
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            list(command.argv),
            env=dict(command.environ),
            cwd=command.cwd,
            stdin=command.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=command.pass_fds,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise ToolError(f"{command.argv[0]} cannot be run: {error.strerror or error}", kind="io") from error
    except ValueError as error:  # NUL in an argument
        raise ToolError(f"the command cannot be run: {error}", kind="invalid arguments") from error
    watch = _Watch(process, bounds, deadline, cancelled)
    try:
        if command.prepare is not None:
            command.prepare(process.pid)
        ended = watch.until_exit()
    finally:
        watch.end()
    if ended == "cancelled":
        raise Cancelled("the statement was cancelled")
    return Finished(
        watch.out.text(), watch.err.text(), process.returncode, ended, round((time.monotonic() - begun) * 1000)
    )


class _Watch:
    """A running command and what it said so far."""

    def __init__(
        self, process: subprocess.Popen[bytes], bounds: Bounds, deadline: float, cancelled: Callable[[], bool]
    ) -> None:
        self.process = process
        self.bounds = bounds
        self.deadline = deadline
        self.cancelled = cancelled
        self.out = Capture(bounds.stream_bytes)
        self.err = Capture(bounds.stream_bytes)
        self.family = Family(process.pid)
        self.begun_with = _available() or 0
        self._selector = selectors.DefaultSelector()
        for stream, capture in ((process.stdout, self.out), (process.stderr, self.err)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, capture)

    def until_exit(self) -> str | None:
        """Reads until the command exits. Why it has to be killed, None where it exited by itself."""
        looked = 0.0
        while not self._exited():
            now = time.monotonic()
            if now - looked >= POLL_S:
                looked = now
                reason = self._over(now)
                if reason is not None:
                    return reason
            self._read(POLL_S)
            if self.out.total + self.err.total > self.bounds.drained_bytes:
                return f"more than {self.bounds.drained_bytes >> 20:,} MiB of output"
        return None

    def end(self) -> None:
        """Kills what is left, reads the rest of the output, and reaps the command."""
        self.family.kill()
        until = time.monotonic() + AFTER_EXIT_S
        while self._selector.get_map() and time.monotonic() < until:
            self._read(POLL_S)
            if self.out.total + self.err.total > self.bounds.drained_bytes:
                break
        self._selector.close()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        self.process.wait()

    def _exited(self) -> bool:
        # Not reaped: as long as it is a zombie its number, which is its group's too, belongs to nobody else.
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _over(self, now: float) -> str | None:
        if self.cancelled():
            return "cancelled"
        if now > self.deadline:
            return "timed out"
        count = self.family.look(self.bounds.processes)
        if count > self.bounds.processes:
            return f"more than {self.bounds.processes} processes"
        most = self.bounds.memory_bytes
        if self.family.memory(exact=False) > most and self.family.memory(exact=True) > most:
            return f"more than {most >> 20:,} MiB of memory"
        left = _available()
        if left is not None and runs_low(left, self.begun_with, self.bounds):
            return f"the machine has only {left >> 20:,} MiB of memory left"
        return None

    def _read(self, wait_s: float) -> None:
        if not self._selector.get_map():
            time.sleep(0.005)
            return
        for key, _ in self._selector.select(wait_s):
            data = b""
            with suppress(BlockingIOError):
                data = os.read(key.fd, PIECE)
                if data:
                    key.data.add(data)
                else:
                    self._selector.unregister(key.fileobj)


class Family:
    """A process, and those that came out of it as far as they were seen, also when they left its session since."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._seen: dict[int, str] = {}
        self._alive: list[int] = []

    def look(self, most: int) -> int:
        """Walks the tree, until it has found more than ``most``. How many there are. Systems that do not tell a process's children show the
        first one only."""
        found, todo = [], [self.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            self._seen[pid] = _birth(pid)
            todo.extend(_children(pid))
            if len(found) > most:
                break
        self._alive = found
        return len(found)

    def memory(self, *, exact: bool) -> int:
        """Bytes of memory of their own; not ``exact``: what processes share counts for each of them, which is quick and never too little."""
        return sum((_proportional(pid) if exact else _resident(pid)) for pid in self._alive)

    def kill(self) -> None:
        """SIGKILL to the group, then to all that were seen and still are the same process."""
        for _ in range(KILL_ROUNDS):
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            self.look(MOST_KILLED)
            alive = [pid for pid, birth in self._seen.items() if pid != self.pid and birth and _lives(pid, birth)]
            for pid in alive:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not alive:
                return
            time.sleep(0.001)


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                yield from map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())


def _birth(pid: int) -> str:
    """The clock tick at which a process began; empty where it is gone."""
    return _stat(pid)[1]


def _lives(pid: int, birth: str) -> bool:
    state, begun = _stat(pid)
    return begun == birth and state not in "ZX"


def _stat(pid: int) -> tuple[str, str]:
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], fields[19]
    return "", ""


def runs_low(left: int, begun_with: int, bounds: Bounds) -> bool:
    """Whether a machine with ``left`` bytes of memory, and ``begun_with`` when a command began, can bear it no longer.

    >>> bounds = Bounds(memory_bytes=4 << 30, reserve_bytes=512 << 20)
    >>> [runs_low(left << 20, begun << 20, bounds) for left, begun in ((500, 8000), (600, 8000), (500, 700), (300, 700))]
    [True, False, False, True]
    """
    return left < min(bounds.reserve_bytes, begun_with - min(bounds.memory_bytes, begun_with // 2))


def _available() -> int | None:
    """Bytes of memory that the machine could still give; None where it does not say."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


def _resident(pid: int) -> int:
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return 0


def _proportional(pid: int) -> int:
    """As ``_resident``, with each shared page divided among those that share it."""
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(errors="replace").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return _resident(pid)
