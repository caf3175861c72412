"""The store's place on disk: a private folder, private files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kleene.planner.errors import ConfigError

MEMORY = ":memory:"


def make_folder(path: Path) -> None:
    """Creates the folder of the store where it is missing: 0700, with a .gitignore that covers all of it. An existing one stays as it is.

    Raises ``ConfigError`` where it cannot be created, or where ``path`` is itself a folder.
    """
    folder = path.parent
    try:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = folder / ".gitignore"
            ignore.write_text("*\n")
            ignore.chmod(0o600)
        if path.is_dir():
            raise ConfigError(f"the store {path} is a folder", hint="give a file: --store FILE.duckdb")
    except OSError as error:
        raise ConfigError(
            f"the store's folder {folder} cannot be created: {error.strerror}",
            hint="choose another place with --store PATH",
        ) from error


def make_private(path: Path) -> None:
    """Makes the store's file and its write-ahead log readable by their owner only. Files that are not there are left out."""
    for file in (path, wal(path)):
        with contextlib.suppress(OSError):
            os.chmod(file, 0o600)


def wal(path: Path) -> Path:
    """DuckDB's write-ahead log of a database file."""
    return path.with_name(path.name + ".wal")


def beside(path: Path, suffix: str) -> Path:
    """A file name next to ``path`` that does not exist: ``run.duckdb.corrupt``, then ``run.duckdb.corrupt.2``, ..."""
    place, n = path.with_name(path.name + suffix), 1
    while place.exists():
        n += 1
        place = path.with_name(f"{path.name}{suffix}.{n}")
    return place
