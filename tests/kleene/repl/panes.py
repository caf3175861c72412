"""The program in a real terminal: a tmux of its own, whose screen can be read."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

TMUX = shutil.which("tmux")
needs_tmux = pytest.mark.skipif(TMUX is None, reason="tmux, which shows the screens, is not installed")
DEADLINE_S = 60.0


@attrs.frozen
class Pane:
    socket: Path

    def tmux(self, *argv: str) -> str:
        assert TMUX is not None
        return subprocess.run(
            [TMUX, "-S", str(self.socket), *argv], check=True, capture_output=True, text=True, timeout=30
        ).stdout

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Tab, Up, C-c."""
        self.tmux("send-keys", *keys)

    def type(self, text: str, *keys: str) -> None:
        self.tmux("send-keys", "-H", *[f"{byte:x}" for byte in text.encode()])
        if keys:
            self.press(*keys)

    def screen(self, *, colors: bool = False) -> str:
        """What stands there, without the blanks at the ends."""
        lines = self.tmux("capture-pane", "-p", *(["-e"] if colors else [])).split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def wait(self, shows: str | Callable[[str], bool]) -> str:
        """The screen once it shows something. Each look starts a process, so looks at what takes long become rarer."""
        test = (lambda screen: shows in screen) if isinstance(shows, str) else shows
        deadline, pause = time.monotonic() + DEADLINE_S, 0.02
        while not test(screen := self.screen()):
            assert time.monotonic() < deadline, f"not shown: {shows}\n{screen}"
            time.sleep(pause)
            pause = min(0.15, pause * 1.25)
        return screen

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))


@contextmanager
def pane(folder: Path, *argv: str, columns: int = 80, rows: int = 24, **environ: str) -> Iterator[Pane]:
    """``python -m kleene`` with these arguments in a folder, and a line that says when it has ended."""
    assert TMUX is not None
    # Ctrl-C reaches the shell too, which must not end with it.
    command = f"trap : INT; {shlex.join([sys.executable, '-m', 'kleene', *argv])}; echo ended with $?; exec sleep 1000"
    home = Path(tempfile.mkdtemp(prefix="kleene-"))  # short, as the path of a socket must be
    shown = Pane(home / "tmux")
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES", "TMUX")} | environ
    where = ["-d", "-x", str(columns), "-y", str(rows), "-c", str(folder)]
    subprocess.run(
        [TMUX, "-S", str(shown.socket), "-f", os.devnull, "new-session", *where, f"exec sh -c {shlex.quote(command)}"],
        check=True,
        env=env,
        timeout=30,
    )
    try:
        yield shown
    finally:
        shown.tmux("kill-server")
        shutil.rmtree(home, ignore_errors=True)
