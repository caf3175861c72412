"""The workspace as tools reach it: every path is walked from the workspace's own folder, one name at a time, by file descriptors.

Nothing is checked by path and then used by path. Each step is ``openat(folder, name, O_NOFOLLOW)``, so that whoever swaps a folder for a link
between two steps is refused rather than followed. What holds for every path:

- it is relative, of UTF-8 names without NUL, and has no ``..``; absolute paths are refused even where they lie inside;
- for reading, a symbolic link is followed by hand while it stays in the workspace; for writing, no link is followed;
- ``.git`` and ``.kleene`` are closed under every spelling that a file system may fold into them, wherever they lie, and so is what of the
  user's own lies in the workspace (``private``): the configuration, and the hidden files of a home folder;
- what is opened is a regular file (seen before it is opened, and again by ``fstat`` after), never a device, pipe or socket, and nothing that
  lies on ``/proc``, ``/sys`` or ``/dev``;
- a file that has other hard links is not written, for its other names may lie outside.

A write is a temporary file in the same folder, ``fsync``, and a rename. Errors are ``ToolError``.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import attrs

from kleene.planner.errors import ConfigError, ToolError
from kleene.tools.globs import Globs
from kleene.tools.private import OWN, Parts, Private, fold

MAX_LINKS = 16
"""Links followed on one path; more are taken for a circle."""

_CLOSED = frozenset({".git", ".kleene"})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYSTEM = ("/proc", "/sys", "/dev")
_TEMPORARY = ".kleene-new-"


@attrs.frozen
class Stamp:
    """Which state of a file was seen: a file whose stamp is the same was not written in between."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@attrs.define
class File:
    """An open regular file. ``path`` is its real path in the workspace, links resolved. A context manager that closes the descriptor."""

    fd: int
    path: str
    status: os.stat_result

    @property
    def size(self) -> int:
        return self.status.st_size

    @property
    def stamp(self) -> Stamp:
        return Stamp.of(self.status)

    def read(self, limit: int) -> bytes:
        """The whole content. Raises ``ToolError`` (too large) above ``limit`` bytes, also where the file grows while it is read."""
        if self.size > limit:
            raise too_large(self.path, self.size, limit)
        pieces, held = [], 0
        while piece := os.read(self.fd, 1 << 20):
            pieces.append(piece)
            held += len(piece)
            if held > limit:
                raise too_large(self.path, held, limit)
        return b"".join(pieces)

    def stream(self) -> BinaryIO:
        """The content as a buffered stream, which does not own the descriptor."""
        return os.fdopen(self.fd, "rb", buffering=1 << 18, closefd=False)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@attrs.frozen
class Entry:
    """A name in a folder. ``kind``: file, folder, link or other (device, pipe, socket)."""

    name: str
    kind: str


@attrs.define
class Folder:
    """An open folder of the workspace and its real path (the workspace itself: no parts). A context manager that closes the descriptor."""

    jail: Jail
    fd: int
    parts: tuple[str, ...]

    def entries(self) -> list[Entry]:
        """What lies in it, by name; what is closed is left out."""
        with os.scandir(self.fd) as found:
            entries = [
                Entry(entry.name, _kind_of(entry))
                for entry in found
                if not is_closed(entry.name) and not self.jail.private.has((*self.parts, entry.name))
            ]
        return sorted(entries, key=lambda entry: entry.name)

    def status(self, name: str) -> os.stat_result:
        """Of an entry itself, not of what a link points to. Raises ``OSError``."""
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def file(self, name: str) -> File:
        """Opens a file that lies here. No link is followed."""
        return self.jail.open_at(self.fd, name, self.parts)

    def folder(self, name: str) -> Folder:
        """Opens a folder that lies here. No link is followed."""
        shown = _shown((*self.parts, name))
        self.jail.refuse_closed((*self.parts, name), shown)
        return Folder(self.jail, self.jail.step(self.fd, name, shown), (*self.parts, name))

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@attrs.frozen
class _Place:
    """Where a path ends: an open folder, a name in it (``.`` for the folder itself), and the real path of the folder."""

    fd: int
    name: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        return _shown(self.parts if self.name == "." else (*self.parts, self.name))


@attrs.frozen
class Jail:
    """A folder that tools stay in. ``writable`` are the globs (see ``globs``) of paths that may be written; none: read-only. ``private`` is closed."""

    root: str
    writable: Globs
    system_devices: frozenset[int] = attrs.field(eq=False, repr=False)
    private: Private = attrs.field(factory=Private, eq=False, repr=False)

    def read_only(self) -> Jail:
        """The same folder, in which nothing may be written."""
        return attrs.evolve(self, writable=Globs.of())

    @classmethod
    def of(
        cls, root: str | os.PathLike[str], writable: tuple[str, ...] = ("**",), private: Private | None = None
    ) -> Jail:
        """The jail over an existing folder. ``private``: what of it is the user's own; by default what the environment says.

        Raises ``ConfigError`` where there is no folder, where it lies on ``/proc``, ``/sys`` or ``/dev``, or in the user's configuration.
        """
        real = os.path.realpath(root)
        if not os.path.isdir(real):
            raise ConfigError(f"the workspace {Path(root)} is no folder", hint="give a folder with --workspace")
        devices = _system_devices()
        if os.stat(real).st_dev in devices:
            raise ConfigError(f"the workspace {Path(root)} is a system folder", hint="give another with --workspace")
        private = Private.of(real) if private is None else private
        if private.surrounded is not None:
            raise ConfigError(
                f"the workspace {Path(root)} lies in your own configuration", hint="give another with --workspace"
            )
        return cls(real, Globs.of(*writable), devices, private)

    def writing(self, *globs: str) -> Jail:
        """The same workspace with another write allow-list."""
        return attrs.evolve(self, writable=Globs.of(*globs))

    # Reading

    def open(self, path: str) -> File:
        """Opens a regular file for reading; links are followed inside the workspace. Raises ``ToolError``."""
        with self._at(path, follow=True) as place:
            if place.name == ".":
                raise _is_folder(path)
            return self.open_at(place.fd, place.name, place.parts)

    def folder(self, path: str = "") -> Folder:
        """Opens a folder (the workspace itself by default); links are followed inside the workspace."""
        with self._at(path, follow=True) as place:
            if place.name == ".":
                return Folder(self, os.dup(place.fd), place.parts)
            return Folder(self, self.step(place.fd, place.name, path), (*place.parts, place.name))

    def read(self, path: str, limit: int) -> bytes:
        with self.open(path) as file:
            return file.read(limit)

    def status(self, path: str) -> os.stat_result | None:
        """Of the file or folder behind a path, None where there is none."""
        try:
            with self._at(path, follow=True) as place:
                return os.stat(place.name, dir_fd=place.fd, follow_symlinks=False)
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    # Writing

    def write(self, path: str, data: bytes, *, expected: Stamp | None = None) -> Stamp:
        """Puts a file in place of what is there, in one step; missing folders are made. Its mode is kept.

        With ``expected`` the write is refused when the file is not in that state any more. Raises ``ToolError``.
        """
        with self._to_write(path, make=True) as place:
            before = self._replaceable(place, path)
            if expected is not None and (before is None or Stamp.of(before) != expected):
                raise ToolError(
                    f"{path} changed since it was read",
                    kind="access denied",
                    hint="read it again, then repeat the change",
                )
            temporary = _TEMPORARY + secrets.token_hex(8)
            fd = os.open(temporary, _NEW, 0o666, dir_fd=place.fd)
            try:
                try:
                    if before is not None:
                        os.fchmod(fd, stat.S_IMODE(before.st_mode) & 0o777)
                    _write_all(fd, data)
                    os.fsync(fd)
                    status = os.fstat(fd)
                finally:
                    os.close(fd)
                os.rename(temporary, place.name, src_dir_fd=place.fd, dst_dir_fd=place.fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=place.fd)
                raise
            os.fsync(place.fd)
            return Stamp.of(status)

    def append(self, path: str, data: bytes, *, limit: int) -> Stamp:
        """Adds to the end of a file, which is made where it is missing. Raises ``ToolError`` (too large) above ``limit`` bytes in all."""
        try:
            with self.open(path) as file:
                old, stamp = file.read(limit), file.stamp
        except ToolError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            old, stamp = b"", None
        if len(old) + len(data) > limit:
            raise too_large(path, len(old) + len(data), limit)
        return self.write(path, old + data, expected=stamp)

    def mkdir(self, path: str) -> None:
        """Makes a folder and those above it; one that is there already is well."""
        with self._to_write(path, make=True) as place:
            try:
                os.mkdir(place.name, dir_fd=place.fd)
            except FileExistsError:
                if not stat.S_ISDIR(os.stat(place.name, dir_fd=place.fd, follow_symlinks=False).st_mode):
                    raise ToolError(f"{path} is there already and is no folder", kind="io") from None

    def remove(self, path: str) -> None:
        """Removes a file, a link (not what it points to), or an empty folder."""
        with self._to_write(path, make=False) as place:
            mode = os.stat(place.name, dir_fd=place.fd, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                os.rmdir(place.name, dir_fd=place.fd)
            else:
                os.unlink(place.name, dir_fd=place.fd)

    def may_write(self, path: str) -> bool:
        """Whether the write allow-list has the path; the path need not exist. Raises ``ToolError`` for a path that could be none."""
        return self.writable.match("/".join(self._names(path)))

    def reaches(self, path: str) -> bool:
        """Whether no name on a path is closed; the path need not exist. Raises ``ToolError`` for a path that could be none."""
        names = self._names(path)
        return not any(map(is_closed, names)) and not self.private.has(names)

    # Steps

    def open_at(self, folder: int, name: str, parts: tuple[str, ...]) -> File:
        """Opens a regular file by its name in an open folder. No link is followed."""
        shown = _shown((*parts, name))
        self.refuse_closed((*parts, name), shown)
        with _said(shown):
            # A look first: opening a device can do something, and a pipe would wait for its other end.
            _refuse_irregular(os.stat(name, dir_fd=folder, follow_symlinks=False), shown)
            fd = os.open(name, _FILE, dir_fd=folder)
        try:
            status = os.fstat(fd)
            _refuse_irregular(status, shown)
            self._refuse_system(status, shown)
        except BaseException:
            os.close(fd)
            raise
        return File(fd, shown, status)

    def step(self, folder: int, name: str, shown: str) -> int:
        """Opens a folder by its name in an open one. No link is followed."""
        with _said(shown):
            fd = os.open(name, _FOLDER, dir_fd=folder)
        try:
            status = os.fstat(fd)
            self._refuse_system(status, shown)
            if (status.st_dev, status.st_ino) in self.private.inodes:
                raise _denied(f"{shown} {OWN}")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def refuse_closed(self, parts: Parts, shown: str) -> None:
        """Raises ``ToolError`` for a real path that tools do not reach. Of the names only the last is compared with those that are always closed."""
        if is_closed(parts[-1]):
            tools = "use git_log, git_status, git_diff and git_blame" if "git" in parts[-1].casefold() else None
            raise _denied(f"{shown} is closed to tools", hint=tools)
        if self.private.has(parts):
            raise _denied(
                f"{shown} {OWN}", hint="keep what tools are for in a folder of its own, and give that with --workspace"
            )

    @contextmanager
    def _at(self, path: str, *, follow: bool, make: bool = False) -> Iterator[_Place]:
        """Walks to where a path ends. The last name need not exist; what it is, the caller asks the open folder."""
        pending = deque(self._names(path))
        folders: list[int] = []
        real: list[str] = []
        last, links = ".", 0
        try:
            with _said(path or "."):
                folders.append(os.open(self.root, _FOLDER & ~os.O_NOFOLLOW))
                while pending:
                    name = pending.popleft()
                    if name == "..":  # of a link's target
                        if not real:
                            raise _leaves(path)
                        os.close(folders.pop())
                        real.pop()
                        continue
                    self.refuse_closed((*real, name), path)
                    target = _target(folders[-1], name)
                    if target is not None and (follow or pending):
                        links += 1
                        if not follow:
                            raise _denied(f"{path} passes a symbolic link", hint="write to the real path")
                        if links > MAX_LINKS:
                            raise _denied(f"{path} passes more than {MAX_LINKS} symbolic links")
                        if target.startswith("/"):
                            raise _leaves(path)
                        pending.extendleft(reversed([part for part in target.split("/") if part not in ("", ".")]))
                    elif not pending:
                        last = name
                    else:
                        if make:
                            with suppress(FileExistsError):
                                os.mkdir(name, dir_fd=folders[-1])
                        folders.append(self.step(folders[-1], name, path))
                        real.append(name)
                yield _Place(folders[-1], last, tuple(real))
        finally:
            for fd in folders:
                os.close(fd)

    @contextmanager
    def _to_write(self, path: str, *, make: bool) -> Iterator[_Place]:
        if not self._names(path):
            raise _is_folder(path or ".")
        if not self.may_write(path):
            allowed = ", ".join(self.writable.patterns) or "nothing"
            raise _denied(f"{path} may not be written", hint=f"writable here: {allowed}")
        with self._at(path, follow=False, make=make) as place:
            yield place

    def _replaceable(self, place: _Place, path: str) -> os.stat_result | None:
        try:
            status = os.stat(place.name, dir_fd=place.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise _denied(f"{path} is a symbolic link", hint="write to the real path")
        _refuse_irregular(status, path)
        if status.st_nlink > 1:
            raise _denied(
                f"{path} has other hard links, which may lie outside", hint="remove it first, or write another file"
            )
        return status

    def _names(self, path: str) -> tuple[str, ...]:
        """The names of a path; none for the workspace itself."""
        if "\0" in path:
            raise ToolError("a path holds a NUL character", kind="invalid arguments")
        if path.startswith("/"):
            inside = os.path.relpath(path, self.root)
            hint = "paths are relative to the workspace"
            raise _denied(
                f"{path} is an absolute path", hint=hint if inside.startswith("..") else f"{hint}: {inside!r}"
            )
        names = tuple(name for name in path.split("/") if name not in ("", "."))
        if ".." in names:
            raise _denied(f"{path} climbs out of a folder", hint="write the path without ..")
        return names

    def _refuse_system(self, status: os.stat_result, shown: str) -> None:
        if status.st_dev in self.system_devices:
            raise _denied(f"{shown} lies on a system file system")


def _system_devices() -> frozenset[int]:
    """The devices of ``/proc``, ``/sys`` and ``/dev`` where they are file systems of their own."""
    devices = set()
    for path in _SYSTEM:
        with suppress(OSError):
            devices.add(os.stat(path).st_dev)
    return frozenset(devices - {os.stat("/").st_dev})


def is_closed(name: str) -> bool:
    """True for names that no tool reaches, and for those that a file system may take for one of them.

    >>> is_closed(".git"), is_closed(".GIT"), is_closed(".g\\u200cit"), is_closed(".github")
    (True, True, True, False)
    """
    return fold(name) in _CLOSED


def too_large(path: str, size: int, limit: int) -> ToolError:
    return ToolError(
        f"{path} has {size:,} bytes, more than the limit of {limit:,}",
        kind="too large",
        hint="read a part of it with lines(path, from, to), or find what you need with grep",
    )


def _kind_of(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _target(folder: int, name: str) -> str | None:
    """What a symbolic link points to, None for anything else, missing names included."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _refuse_irregular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise _is_folder(path)
    if stat.S_ISLNK(status.st_mode):
        raise _denied(f"{path} became a symbolic link while it was opened")
    if not stat.S_ISREG(status.st_mode):
        raise _denied(f"{path} is a device, pipe or socket, not a file")


@contextmanager
def _said(path: str) -> Iterator[None]:
    """Turns what the system says of a path into a ``ToolError`` that names it."""
    try:
        yield
    except OSError as error:
        raise _explained(error, path) from error
    except UnicodeEncodeError:
        raise ToolError(f"{path!r} cannot be a file name", kind="invalid arguments") from None


def _explained(error: OSError, path: str) -> ToolError:
    if isinstance(error, FileNotFoundError):
        return ToolError(f"{path}: there is no such file", kind="io", hint="list what is there with files('**')")
    if error.errno == errno.ELOOP:
        return _denied(f"{path} became a symbolic link while it was opened")
    if error.errno == errno.ENAMETOOLONG:
        return ToolError(f"{path[:60]}…: the name is too long", kind="invalid arguments")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _denied(f"{path}: {error.strerror}")
    return ToolError(f"{path}: {error.strerror or error}", kind="io")


def _denied(message: str, *, hint: str | None = None) -> ToolError:
    return ToolError(message, kind="access denied", hint=hint)


def _leaves(path: str) -> ToolError:
    return _denied(f"{path} leads out of the workspace by a symbolic link")


def _is_folder(path: str) -> ToolError:
    return ToolError(
        f"{path} is a folder", kind="invalid arguments", hint=f"list it with files('{path.strip('/')}/**')"
    )


def _shown(parts: tuple[str, ...]) -> str:
    return "/".join(parts) or "."


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
