"""Commands in a sandbox of Linux namespaces, made by bubblewrap (``bwrap``).

What a command sees: the system's programs and libraries, read-only; of /etc what programs need to start, no secrets; the workspace, writable
where the role may write; a private /tmp, which is its HOME too; its own processes. What it does not see: the network, other files and
processes, the environment of Kleene, the store.

Found while this was built, with bubblewrap 0.8.0, and held as tests:

- bwrap is process 1 of the sandbox, and ``/proc/1/environ`` shows its environment: it is started with the command's own, never with ours.
- Started by root, bwrap leaves ``/proc/sys`` writable, and the kernel asks only for the user there: ``core_pattern`` would run programs outside.
  All of ``/proc`` is mounted read-only.
- The root and /dev are file systems in memory without a limit until they are mounted read-only too.
- ``git`` runs programs that ``.git/config`` and ``.git/hooks`` name: the workspace's ``.git`` is read-only, so that a command plants nothing for
  the user's own next ``git status``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import attrs

from kleene.planner.errors import ToolError
from kleene.tools.jail import Jail
from kleene.tools.processes import Bounds, Command, Finished, run
from kleene.tools.syscalls import refusing

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/run/current-system/sw")
SETTINGS = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "fonts", "group", "hosts", "inputrc", "java"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "lsb-release", "magic", "mime.types", "nsswitch.conf", "os-release"),
    *("passwd", "pki", "protocols", "python3", "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo"),
    "timezone",
)  # fmt: skip
"""Of /etc. Not all of /etc/ssl: /etc/ssl/private holds keys, and root may read them."""
NETWORK_SETTINGS = ("resolv.conf", "gai.conf", "host.conf")
STORE = ".kleene"
HOME = "/tmp/home"
SETUP_S = 10.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ("--die-with-parent", "--new-session", "--info-fd", "--block-fd", "--cap-drop", "--remount-ro", "--clearenv")
ALWAYS = {"PYTHONDONTWRITEBYTECODE": "1"}
"""By its bytecode a module that is patched within the second, to the same size, would run as it was before."""

INSTALL = "install bubblewrap (apt install bubblewrap), or allow commands without a sandbox: --unsafe-shell"


@attrs.frozen
class Sandbox:
    """How commands are confined. A value: nothing runs before ``run``.

    ``program``: the name or path of bwrap. ``network``: the host's network, loopback services and all, is reachable. ``readable``: folders
    outside of the workspace that may be read too; by default those of the Python that runs Kleene. ``unsafe``: where no sandbox can be made, run
    without one.
    """

    program: str = "bwrap"
    network: bool = False
    unsafe: bool = False
    readable: tuple[str, ...] = attrs.field(factory=lambda: (sys.prefix, sys.base_prefix))
    bounds: Bounds = attrs.field(factory=Bounds)


@attrs.frozen
class Outcome:
    """A command's result, and whether it ran in the sandbox."""

    finished: Finished
    confined: bool


@attrs.frozen
class Request:
    """A program with its arguments, to be run in a folder of the workspace (its real path there). ``git``: the repository may be written.
    ``environ`` is added to PATH, HOME and LANG."""

    argv: tuple[str, ...]
    folder: str = ""
    git: bool = False
    environ: Mapping[str, str] = attrs.field(factory=dict)


def run_confined(
    sandbox: Sandbox, jail: Jail, request: Request, *, deadline: float, cancelled: Callable[[], bool]
) -> Outcome:
    """Runs a program in the sandbox, or without where there is none and ``unsafe`` allows that.

    Raises ``ToolError``: unsupported where there is no sandbox, access denied for a workspace that cannot be confined; ``Cancelled``.
    """
    reason = unusable(sandbox)
    if reason is None:
        try:
            return Outcome(_run_in_bubblewrap(sandbox, jail, request, deadline, cancelled), confined=True)
        except _NoNamespaces as error:
            reason = str(error)
    if not sandbox.unsafe:
        raise ToolError(f"no sandbox for commands: {reason}", kind="unsupported", hint=INSTALL)
    return Outcome(_run_bare(sandbox, jail, request, deadline, cancelled), confined=False)


def unusable(sandbox: Sandbox) -> str | None:
    """Why bubblewrap cannot be used, as far as that is known without running it; None where it seems usable."""
    if not sys.platform.startswith("linux"):
        return f"bubblewrap needs Linux, this is {sys.platform}"
    return None if shutil.which(sandbox.program) else f"{sandbox.program} is not installed"


def probe(sandbox: Sandbox, jail: Jail) -> str | None:
    """Runs ``true`` in the sandbox, in a workspace that it may only read. Why that fails, None where it works; for ``kleene doctor``."""
    strict = attrs.evolve(sandbox, unsafe=False)
    try:
        done = run_confined(
            strict, jail.writing(), Request(("true",)), deadline=time.monotonic() + SETUP_S, cancelled=lambda: False
        )
    except ToolError as error:
        return error.message
    return None if done.finished.status == 0 else done.finished.stderr.strip() or "true fails in it"


def environment(path: str | None = None) -> dict[str, str]:
    """What a command finds in its environment inside of the sandbox: PATH, HOME, LANG, and what ``ALWAYS`` is there."""
    lang = os.environ.get("LANG", "C.UTF-8")
    return {
        "PATH": path or PATH,
        "HOME": HOME,
        "LANG": lang if "\0" not in lang else "C.UTF-8",
        **ALWAYS,
    }


# bubblewrap


class _NoNamespaces(Exception):
    """bwrap is there and could not set up the sandbox."""


def _run_in_bubblewrap(
    sandbox: Sandbox, jail: Jail, request: Request, deadline: float, cancelled: Callable[[], bool]
) -> Finished:
    with ExitStack() as stack:
        options = _options(sandbox.program)
        info_read, info_write = _pipe(stack)
        block_read, block_write = _pipe(stack)
        started: list[int] = []
        mounts = _Mounts(sandbox, jail, stack, by_fd="--bind-fd" in options)
        argv = [
            *(sandbox.program, "--info-fd", str(info_write.fileno()), "--block-fd", str(block_read.fileno())),
            *_namespaces(sandbox, options),
            *mounts.arguments(request, sized="--size" in options),
            *_seccomp(stack, options, mounts.fds),
            *("--chdir", str(Path(jail.root, request.folder)), "--", *request.argv),
        ]

        def prepare(pid: int) -> None:
            info_write.close()
            child = _child_of(info_read.fileno(), time.monotonic() + SETUP_S)
            if child is None:
                return  # it could not set up the sandbox, and says why on stderr
            for kind, bound in _kernel_limits(sandbox.bounds):
                with contextlib.suppress(ProcessLookupError):
                    _limit(child, kind, bound)
            started.append(child)
            block_write.write(b"x")

        environ = {**environment(_search_path([*mounts.readable, jail.root])), **request.environ}
        fds = (info_write.fileno(), block_read.fileno(), *mounts.fds)
        command = Command(argv, environ, pass_fds=fds, prepare=prepare)
        finished = run(command, sandbox.bounds, deadline=deadline, cancelled=cancelled)
    if not started and finished.ended is None:
        raise _NoNamespaces(finished.stderr.strip().removeprefix("bwrap: ") or "bwrap fails without a word")
    return finished


def _namespaces(sandbox: Sandbox, options: frozenset[str]) -> list[str]:
    missing = [option for option in NEEDED if option not in options]
    if missing:
        raise _NoNamespaces(f"this bwrap is too old: it has no {missing[0]}")
    arguments = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not sandbox.network:
        arguments.append("--unshare-net")
    if "--disable-userns" in options:
        arguments.append("--disable-userns")
    return [*arguments, "--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]


def _seccomp(stack: ExitStack, options: frozenset[str], fds: list[int]) -> list[str]:
    program = refusing(os.uname().machine)
    if program is None or "--seccomp" not in options:
        return []
    read, write = _pipe(stack)
    write.write(program)
    write.close()
    fds.append(read.fileno())
    return ["--seccomp", str(read.fileno())]


class _Mounts:
    """What the sandbox's file system is made of, as arguments of bwrap."""

    def __init__(self, sandbox: Sandbox, jail: Jail, stack: ExitStack, *, by_fd: bool) -> None:
        self.sandbox = sandbox
        self.jail = jail
        self.stack = stack
        self.by_fd = by_fd
        self.fds: list[int] = []
        self.readable = [os.path.realpath(path) for path in sandbox.readable if os.path.isdir(path)]

    def arguments(self, request: Request, *, sized: bool) -> list[str]:
        size = ("--size", str(self.sandbox.bounds.scratch_bytes)) if sized else ()
        return [
            *self._system(),
            *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
            *(*size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", *size, "--tmpfs", "/tmp", "--dir", HOME),
            *self._folders(),
            *self._workspace(request),
            *("--remount-ro", "/"),
        ]

    def _system(self) -> Iterator[str]:
        for path in SYSTEM:
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif os.path.isdir(path):
                yield from ("--ro-bind", path, path)
        for name in (*SETTINGS, *(NETWORK_SETTINGS if self.sandbox.network else ())):
            yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")

    def _folders(self) -> Iterator[str]:
        for path in self.readable:
            if path != "/" and not any(_inside(path, system) for system in SYSTEM):
                yield from ("--ro-bind", path, path)

    def _workspace(self, request: Request) -> Iterator[str]:
        root = self.jail.root
        if any(_inside(path, root) for path in ("/usr", "/etc", "/proc", "/dev", "/tmp")):
            raise ToolError(
                f"commands cannot be confined in {root}", kind="access denied", hint="give a smaller --workspace"
            )
        if self.jail.private.holds_folders:
            raise ToolError(
                f"commands cannot be confined in {root}: your home folder or your configuration lies there",
                kind="access denied",
                hint="give a folder of its own with --workspace",
            )
        everything = "**" in self.jail.writable.patterns
        yield from self._bind("", writable=everything)
        if not everything:
            for part in writable_parts(self.jail):
                yield from self._bind(part, writable=True)
        git = Path(root, ".git")
        if os.path.lexists(git) and not (request.git and not git.is_symlink()):
            yield from self._bind(".git", writable=False)
        elif request.git and not everything and git.is_dir():
            yield from self._bind(".git", writable=True)
        yield from self._closed(everything)

    def _closed(self, everything: bool) -> Iterator[str]:
        store = Path(self.jail.root, STORE)
        if everything and not os.path.lexists(store):
            # A command that could make it would leave skills and settings there, to be believed later.
            with contextlib.suppress(OSError):  # made meanwhile, or not to be made by a command either
                store.mkdir(mode=0o700)
                (store / ".gitignore").write_text("*\n")
        own = self.jail.private.present(self.jail.root)
        # What lies around a file is mounted on itself: else a command moves the folder away and makes another in its place.
        around = {"/".join(parts[:n]) for path in own for parts in [path.split("/")] for n in range(1, len(parts))}
        for part in sorted(around) if everything else ():
            yield from self._bind(part, writable=True)
        for path in dict.fromkeys((str(store), *(os.path.join(self.jail.root, name) for name in own))):
            if os.path.islink(path):
                raise ToolError(
                    f"{path} is a symbolic link", kind="access denied", hint="replace it by what it points to"
                )
            if os.path.isdir(path):
                yield from ("--tmpfs", path, "--remount-ro", path)
            elif os.path.exists(path):
                yield from ("--ro-bind", "/dev/null", path)

    def _bind(self, part: str, *, writable: bool) -> Iterator[str]:
        """Mounts a path of the workspace on itself. It is opened step by step without following links, and that descriptor is mounted."""
        path = os.path.join(self.jail.root, part) if part else self.jail.root
        option = "--bind" if writable else "--ro-bind"
        fd = _open_unlinked(self.jail.root, part)
        if fd is None:
            return
        self.stack.callback(os.close, fd)
        if self.by_fd:
            self.fds.append(fd)
            yield from (f"{option}-fd", str(fd), path)
        else:
            yield from (option, path, path)


def writable_parts(jail: Jail) -> list[str]:
    """The folders and files that mounts can make writable for a write allow-list: ``docs/**`` and ``docs/`` are a folder, a path without wildcards
    is what it names. Other patterns (``*.md``) have no mount and are read-only for commands. What is missing or a link is left out.
    """
    parts = []
    for pattern in jail.writable.patterns:
        plain = re.sub(r"/(\*\*)?$", "", pattern.removeprefix("./").removeprefix("/"))
        rooted = "/" in pattern
        if (
            plain
            and rooted
            and not re.search(r"[*?\[{\\]", plain)
            and not {"..", ".git", STORE} & set(plain.split("/"))
        ):
            fd = _open_unlinked(jail.root, plain)
            if fd is not None:
                os.close(fd)
                parts.append(plain)
    return sorted(set(parts))


def _open_unlinked(root: str, part: str) -> int | None:
    """Opens a path below ``root`` for mounting (O_PATH); None where it is missing, or a link stands anywhere on it."""
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in filter(None, part.split("/")):
        try:
            step = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        except OSError:
            os.close(fd)
            return None
        os.close(fd)
        fd = step
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            os.close(fd)
            return None
    return fd


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _search_path(folders: list[str]) -> str:
    """What of our own PATH can be seen inside, then the system's folders of programs."""
    seen = (*SYSTEM, *folders)
    own = [entry for entry in os.environ.get("PATH", "").split(":") if any(_inside(entry, folder) for folder in seen)]
    return ":".join(dict.fromkeys([*own, *PATH.split(":")]))


def _options(program: str) -> frozenset[str]:
    """What this bwrap can do, by its own help: distributions backport options, so that its version says little."""
    try:
        done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=SETUP_S, env={"PATH": PATH})
    except (OSError, subprocess.SubprocessError) as error:
        raise _NoNamespaces(f"{program} cannot be run: {error}") from error
    return frozenset(re.findall(r"^\s+(--[a-z0-9-]+)", done.stdout + done.stderr, re.MULTILINE))


def _pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    """Both ends as objects: these may be closed twice, numbers of descriptors may not."""
    read, write = os.pipe()
    return stack.enter_context(FileIO(read, "r")), stack.enter_context(FileIO(write, "w"))


def _child_of(info: int, deadline: float) -> int | None:
    """The process that bwrap reports to have started (its process 1), None where it ends without."""
    text = b""
    while time.monotonic() < deadline:
        if not select.select([info], [], [], 0.05)[0]:
            continue
        piece = os.read(info, 4096)
        text += piece
        with contextlib.suppress(ValueError, KeyError):
            return int(json.loads(text)["child-pid"])
        if not piece:
            return None
    return None


def _kernel_limits(bounds: Bounds) -> Iterator[tuple[int, int]]:
    """RLIMIT_DATA and not RLIMIT_AS: node, Java and Go reserve address space by the tens of gigabytes and use little of it."""
    yield resource.RLIMIT_CPU, bounds.cpu_s
    yield resource.RLIMIT_DATA, bounds.memory_bytes
    yield resource.RLIMIT_FSIZE, bounds.file_bytes
    yield resource.RLIMIT_NOFILE, bounds.files
    yield resource.RLIMIT_CORE, 0
    if _counts_by_namespace():
        yield resource.RLIMIT_NPROC, bounds.processes


def _counts_by_namespace() -> bool:
    """Since Linux 5.14 RLIMIT_NPROC counts the processes of a user namespace; before, all of the user's."""
    major, minor = (int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
    return (major, minor) >= (5, 14)


def _limit(pid: int, kind: int, bound: int) -> None:
    hard = resource.prlimit(pid, kind)[1]
    value = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.prlimit(pid, kind, (value, value))


# Without a sandbox


def _run_bare(
    sandbox: Sandbox, jail: Jail, request: Request, deadline: float, cancelled: Callable[[], bool]
) -> Finished:
    """With the user's own HOME and PATH. Limits that a shell can set itself, and those that the watch sees."""
    environ = ALWAYS | {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    blocks = sandbox.bounds.file_bytes // 512
    script = f'ulimit -c 0 2>/dev/null; ulimit -t {sandbox.bounds.cpu_s}; ulimit -f {blocks}; exec "$@"'
    argv = ["/bin/sh", "-c", script, "sh", *request.argv]
    command = Command(argv, {**environ, **request.environ}, cwd=str(Path(jail.root, request.folder)))
    return run(command, sandbox.bounds, deadline=deadline, cancelled=cancelled)
