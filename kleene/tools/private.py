"""What of the user's own may lie in a workspace and is closed to tools, for reading and for writing.

A workspace may be the home folder, or hold it. Then a tool that reads could give a model the user's keys, and one that writes could grant it
whatever the user's configuration grants, or leave a program that the user's next shell starts. So closed are

- the folders of Kleene's configuration and cache, the files that a configuration was read from, and a store that is kept in the workspace,
  each file with what begins with its name and a dot beside it (``run.duckdb.wal``);
- of the home folder everything that begins with a dot (``.ssh``, ``.aws``, ``.config``, ``.bashrc``, ...), on macOS ``Library`` too.

All of it is known by path, so that what is not there yet cannot be made, and folders by their inode too, whatever they are called.
"""

from __future__ import annotations

import os
import pwd
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from kleene.config import cache_dir, config_dir

Parts = tuple[str, ...]

OWN = "is the user's own and closed to tools"
AT_HOME = ("library",) if sys.platform == "darwin" else ()
"""Folders of the home folder besides the hidden ones, folded."""


@attrs.frozen
class Private:
    """``folders`` and ``homes`` (of home folders): folded paths from the workspace; ``files``: paths from there; ``inodes``: (device, inode) of
    folders. ``surrounded``: the folder of the user's own in which the workspace itself lies."""

    folders: frozenset[Parts] = frozenset()
    files: frozenset[Parts] = frozenset()
    _folded: frozenset[Parts] = attrs.field(init=False, repr=False)
    homes: frozenset[Parts] = frozenset()
    inodes: frozenset[tuple[int, int]] = frozenset()
    surrounded: str | None = None

    @_folded.default
    def _fold_files(self) -> frozenset[Parts]:
        return frozenset(tuple(map(fold, parts)) for parts in self.files)

    @classmethod
    def of(
        cls,
        root: str | os.PathLike[str],
        files: Iterable[str | os.PathLike[str]] = (),
        environ: Mapping[str, str] | None = None,
    ) -> Private:
        """What the environment says of the user's folders, and ``files`` besides, as far as they lie below ``root``."""
        env = os.environ if environ is None else environ
        real = os.path.realpath(root)
        own = [str(config_dir(env)), str(cache_dir(env))]
        folders = {path for folder in own for path in _spellings(folder)}
        linked = [entry for folder in folders for entry in _links(folder)]
        inside = [parts for path in sorted(folders) if (parts := _below(real, path)) is not None]
        return cls(
            folders=frozenset(tuple(map(fold, parts)) for parts in inside if parts),
            files=frozenset(
                parts for f in (*files, *linked) for path in _spellings(f) if (parts := _below(real, path))
            ),
            homes=frozenset(
                tuple(map(fold, parts)) for home in _homes(env) if (parts := _below(real, home)) is not None
            ),
            inodes=frozenset(found for path in folders if (found := _inode(path)) is not None),
            surrounded=next((path for path in sorted(folders) if _below(path, real) is not None), None),
        )

    def has(self, parts: Parts) -> bool:
        """Whether a path of the workspace (its real one) is closed, or lies in what is closed."""
        if not (self.folders or self.files or self.homes):
            return False
        folded = tuple(map(fold, parts))
        for n in range(1, len(folded) + 1):
            above, name = folded[: n - 1], folded[n - 1]
            if folded[:n] in self.folders:
                return True
            if above in self.homes and (name.startswith(".") or name in AT_HOME):
                return True
            if any(above == file[:-1] and _is_of(name, file[-1]) for file in self._folded):
                return True
        return False

    def present(self, root: str) -> list[str]:
        """The paths of ``files`` and of what begins with their names, as far as they are there."""
        found = set()
        for *above, name in self.files:
            with suppress(OSError), os.scandir(os.path.join(root, *above)) as entries:
                found |= {"/".join((*above, e.name)) for e in entries if _is_of(fold(e.name), fold(name))}
        return sorted(found)

    @property
    def holds_folders(self) -> bool:
        """Whether a folder of the user's lies in the workspace: no command can be confined there, for it could move what lies around."""
        return bool(self.folders or self.homes)


def fold(name: str) -> str:
    """A name as a file system may take it for another one: without case, compatibility forms and characters that do not show.

    >>> fold(".GIT"), fold(".g\\u200cit")
    ('.git', '.git')
    """
    if name.isascii():
        return name.casefold()
    return "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf").casefold()


def _spellings(path: str | os.PathLike[str]) -> set[str]:
    """Where a path leads, and where it stands itself when it is a link."""
    whole = Path(os.path.abspath(path))
    return {os.path.realpath(whole), os.path.join(os.path.realpath(whole.parent), whole.name)}


def _links(folder: str) -> Iterator[str]:
    """The links in a folder: a configuration may be kept elsewhere."""
    with suppress(OSError), os.scandir(folder) as entries:
        yield from [entry.path for entry in entries if entry.is_symlink()]


def _homes(env: Mapping[str, str]) -> set[str]:
    homes = {env["HOME"]} if env.get("HOME") else set()
    with suppress(KeyError):
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    return {os.path.realpath(home) for home in homes if os.path.isabs(home)}


def _below(root: str, path: str) -> Parts | None:
    """The names from ``root`` to ``path``, None where it does not lie below (or is not the same)."""
    if path != root and not path.startswith(root.rstrip("/") + "/"):
        return None
    return tuple(name for name in path[len(root) :].split("/") if name)


def _is_of(name: str, file: str) -> bool:
    return name == file or name.startswith(file + ".")


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
