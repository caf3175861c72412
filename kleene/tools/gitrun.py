"""Runs git on the workspace's repository so that nothing which the repository says is executed, and nothing outside is read or written.

A repository's own configuration can name programs (file system monitor, hooks, filters, textconv, external diff, pager, ssh) and whoever may
run a shell in the workspace can write it. So every such key is overridden; the system's and the user's configuration are not read.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import attrs

from kleene.planner.errors import ToolError
from kleene.tools.base import Work

POLL_S = 0.05
_PIECE = 1 << 18
_STDERR = 64 << 10

_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PAGER": "cat",
    "GIT_ASKPASS": "",
    "GIT_LITERAL_PATHSPECS": "1",
}
_OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.alternateRefsCommand": "true",
    "core.quotePath": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "blame.ignoreRevsFile": "",
    "i18n.logOutputEncoding": "UTF-8",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
}
_PROGRAMS = re.compile(r"(?:filter\..*\.(?:clean|smudge|process)|diff\..*\.(?:textconv|command))\Z", re.IGNORECASE)


@attrs.frozen
class Repository:
    """``top`` is its working tree: the workspace, or a folder above."""

    top: str
    git_dir: str
    overrides: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, work: Work) -> Repository:
        """The repository that the workspace lies in. Raises ``ToolError`` where there is none, or one that belongs elsewhere."""
        root = Path(work.workspace.root)
        top = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None)
        if top is None:
            raise ToolError("the workspace is in no git repository", kind="unsupported")
        link = top / ".git"
        if link.is_symlink() or (link.is_file() and not _belongs(link)):
            raise ToolError("the workspace's .git leads to another repository", kind="access denied")
        plain = cls(str(top), str(link))
        names = b"".join(plain.output(work, "config", "--null", "--name-only", "--list")).decode("utf-8", "replace")
        programs = sorted({name for name in names.split("\0") if _PROGRAMS.search(name)})
        required = {re.sub(r"\.[^.]*\Z", ".required", name) for name in programs if name.lower().startswith("filter.")}
        off = [(name, "") for name in programs] + [(name, "false") for name in sorted(required)]
        return attrs.evolve(plain, overrides=tuple(off))

    def output(self, work: Work, *arguments: str, stdin: IO[bytes] | None = None) -> Iterator[bytes]:
        """What git prints, as it comes. Raises ``ToolError`` with what git says where it fails, above the limit of bytes, and at the deadline."""
        command = [
            *(work.git, "--no-pager", "--no-optional-locks", f"--git-dir={self.git_dir}", f"--work-tree={self.top}"),
            *_settings(_OVERRIDES.items()),
            *_settings(self.overrides),
            *arguments,
        ]
        environment = {"PATH": os.environ.get("PATH", os.defpath), **_ENVIRONMENT}
        try:
            process = subprocess.Popen(
                command,
                cwd=work.workspace.root,
                env=environment,
                stdin=stdin or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(f"git cannot be run: {error.strerror}", kind="unsupported", hint="install git") from None
        with process:
            try:
                said = yield from _read(process, work)
                if process.wait(timeout=max(POLL_S, min(work.remaining, 60.0))) != 0:
                    raise _failed(said)
            finally:
                with suppress(OSError):
                    process.kill()


def _settings(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for key, value in pairs:
        yield from ("-c", f"{key}={value}")


def _read(process: subprocess.Popen[bytes], work: Work) -> Generator[bytes, None, bytes]:
    """Yields standard output and returns the beginning of standard error."""
    assert process.stdout is not None and process.stderr is not None
    said, held = b"", 0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            work.check()
            for key, _ in selector.select(POLL_S):
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    said = (said + piece)[:_STDERR]
                else:
                    held += len(piece)
                    if held > work.limits.result_bytes:
                        raise ToolError(f"git prints more than {work.limits.result_bytes:,} bytes", kind="too large")
                    yield piece
    return said


def _failed(said: bytes) -> ToolError:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    message = next(
        (line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "git failed"
    )
    return ToolError(f"git: {message.partition(': ')[2] or message}"[:500], kind="invalid arguments")


def _belongs(link: Path) -> bool:
    """Whether the folder that a ``.git`` file names says in turn that this is its working tree (as one of `git worktree` does), or lies below
    the ``.git`` of a folder above (as a submodule's does)."""
    try:
        text = link.read_text(encoding="utf-8", errors="surrogateescape")
        named = text.removeprefix("gitdir:").strip()
        folder = Path(os.path.realpath(link.parent / named))
        back = folder / "gitdir"
        if back.is_file():
            return os.path.realpath(folder / back.read_text().strip()) == os.path.realpath(link)
        above = [Path(os.path.realpath(parent / ".git" / "modules")) for parent in link.parent.parents]
        return any(folder.is_relative_to(modules) for modules in above)
    except (OSError, ValueError):
        return False
