"""``CALL git_commit(message [, paths])``: records changes of the workspace in its repository.

Git runs as it does for the tools that read history: nothing that the repository names is executed, hooks and filters included. What the role may
not write it may not commit; what the user staged stays staged.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work
from kleene.tools.effects import shortened
from kleene.tools.gitrun import Repository

NOBODY = ("Kleene", "kleene@localhost")
_QUIET = ("gc.auto=0", "maintenance.auto=false", "diff.ignoreSubmodules=all", "advice.addEmbeddedRepo=false")


def describe(arguments: tuple[Any, ...]) -> str:
    """
    >>> describe(("Fix it\\n\\nLong story", ["a.py", "b.py"])), describe(("x", None))
    ("commit a.py, b.py: 'Fix it'", "commit all changes: 'x'")
    """
    message, paths = (*arguments, None, None)[:2]
    what = shortened(", ".join(map(str, _listed(paths)))) or "all changes"
    return f"commit {what}: {shortened(str(message).partition(chr(10))[0], 80)!r}"


def commit(work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    message, given = arguments[0], _listed(arguments[1])
    if not message.strip() or "\0" in message:
        raise ToolError("a commit needs a message of text", kind="invalid arguments")
    repository = Repository.of(work)
    paths = _chosen(work, _changed(work, repository), given)
    _refuse_filtered(work, repository, paths)
    name, email = _identity(work, repository)
    settings = [part for pair in (*_QUIET, f"user.name={name}", f"user.email={email}") for part in ("-c", pair)]
    options = ("--pathspec-from-file=-", "--pathspec-file-nul")
    _with_paths(work, repository, paths, *settings, "add", "--all", *options)
    told = ("--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=strip", f"--message={message}", "--only")
    _with_paths(work, repository, paths, *settings, "commit", *told, *options)
    sha = b"".join(repository.output(work, "rev-parse", "HEAD")).decode().strip()
    yield (sha, len(paths))


def _listed(paths: Any) -> Sequence[str]:
    if isinstance(paths, (list, tuple)):
        return [str(path) for path in paths if path is not None]
    return [] if paths is None else [str(paths)]


def _changed(work: Work, repository: Repository) -> list[str]:
    """The changed files below the workspace, as paths from there; folders that are repositories themselves are left out."""
    prefix = os.path.relpath(work.workspace.root, repository.top)
    prefix = "" if prefix == "." else prefix + "/"
    options = ("--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
    status = b"".join(repository.output(work, "status", *options, "--", "."))
    names = [os.fsdecode(entry[3:]) for entry in status.split(b"\0") if entry]
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix) and not name.endswith("/")]


def _chosen(work: Work, changed: list[str], given: Sequence[str]) -> list[str]:
    """The files to commit. Raises ``ToolError`` for a path that may not be written or has no changes, and where nothing is left."""
    if not given:
        chosen = [path for path in changed if _may_write(work, path)]
        if not chosen:
            raise ToolError(
                "there is nothing to commit", kind="invalid arguments", hint="see what changed with git_diff()"
            )
        return chosen
    chosen = []
    for path in given:
        plain = "/".join(part for part in path.split("/") if part not in ("", "."))
        below = [name for name in changed if not plain or name == plain or name.startswith(plain + "/")]
        for name in below or [plain or "."]:
            if not _may_write(work, name):
                raise ToolError(f"{name} may not be written, so it is not committed", kind="access denied")
        if not below:
            raise ToolError(f"{path} has no changes", kind="invalid arguments", hint="see what changed with git_diff()")
        chosen.extend(below)
    return list(dict.fromkeys(chosen))


def _may_write(work: Work, path: str) -> bool:
    """Paths that no tool could write (``.kleene``) are not committed either."""
    with suppress(ToolError):
        return work.workspace.may_write(path) and work.workspace.reaches(path)
    return False


def _refuse_filtered(work: Work, repository: Repository, paths: Sequence[str]) -> None:
    """Filters are programs and do not run; without theirs the whole content of, say, a Git LFS file would be recorded."""
    found = _with_paths(work, repository, paths, "check-attr", "-z", "--stdin", "filter").split(b"\0")
    for path, value in zip(found[0::3], found[2::3], strict=False):
        if value not in (b"unspecified", b"unset"):
            raise ToolError(
                f"{os.fsdecode(path)} passes the filter {value.decode(errors='replace')!r} of .gitattributes, which is not run here",
                kind="unsupported",
                hint="commit it by hand, and give git_commit the other paths",
            )


def _with_paths(work: Work, repository: Repository, paths: Sequence[str], *arguments: str) -> bytes:
    """Runs git with paths on its standard input, each ended by NUL: there may be more than a command line holds."""
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(os.fsencode(path) + b"\0" for path in paths))
        file.seek(0)
        return b"".join(repository.output(work, *arguments, stdin=file))


def _identity(work: Work, repository: Repository) -> tuple[str, str]:
    """Who commits: as the repository says, else the user's own configuration (which is read, and nothing of it run)."""
    return (
        _setting(work, repository, "user.name") or NOBODY[0],
        _setting(work, repository, "user.email") or NOBODY[1],
    )


def _setting(work: Work, repository: Repository, key: str) -> str:
    with suppress(ToolError):
        return b"".join(repository.output(work, "config", "--get", key)).decode("utf-8", "replace").strip()
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in os.environ}
    with suppress(OSError, subprocess.SubprocessError):
        command = [work.git, "config", "--global", "--get", key]
        done = subprocess.run(
            command, env=environ, cwd=Path("/"), capture_output=True, timeout=10, stdin=subprocess.DEVNULL
        )
        return done.stdout.decode("utf-8", "replace").strip()
    return ""
