"""A second process for tests: runs a few lines of Python and can be told to go on, or be killed."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType


class Other:
    """Runs ``code`` in another process; ``ready`` waits for the line it prints first. Killed when the block ends."""

    def __init__(self, code: str):
        self._code = code

    def __enter__(self) -> Other:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self._code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    @property
    def pid(self) -> int:
        return self.process.pid

    def ready(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def holding(path: object) -> Other:
    """A process that holds the store at ``path`` until it is told to go on."""
    return Other(
        "from kleene.store import Store\n"
        f"store = Store.open({str(path)!r})\n"
        "print('held', flush=True)\ninput()\nstore.close()\nprint('gone', flush=True)\ninput()"
    )
