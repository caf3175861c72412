"""The reader process: takes documents from ``reading_apart``, one after the other, and answers with what they hold.

It is confined by what the system enforces on a process whatever the libraries in it do: address space, no file written, no core dump, an alarm
for each document, and on Linux a signal when whoever started it is gone.
"""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress

from kleene.planner.errors import ToolError
from kleene.tools import documents
from kleene.tools.documents import Source
from kleene.tools.replies import HEAD, Request, TooLarge, packed, packed_rows, received

KEPT_BYTES = 512 << 20
"""Who once needed more memory is not used again."""
REQUEST_BYTES = 1 << 20
FILES = 64


def main() -> None:
    """Serves the socket whose number is the first argument until its other side is closed, or nothing was asked for as many seconds as the third
    says. The second is the bytes of address space that there are."""
    _confine(int(sys.argv[2]))
    asked = socket.socket(fileno=int(sys.argv[1]))
    asked.sendall(packed(["ready"]))
    while select.select([asked], [], [], float(sys.argv[3]))[0]:
        try:
            request, document = _request(asked)
        except (EOFError, OSError, ValueError, TypeError, TooLarge):
            break
        try:
            for message in _answer(request, document):
                signal.setitimer(signal.ITIMER_REAL, request.seconds)
                asked.sendall(message)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except OSError:
            break
    os._exit(0)


def _confine(memory_bytes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the system ends it: no line of Python has to run for that
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, FILES),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))
    if sys.platform == "linux":
        # Standard input is a pipe that nobody writes to. When its other end is closed, by kill -9 too, the system sends SIGIO, which ends.
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _request(asked: socket.socket) -> tuple[Request, int]:
    """A message, and the descriptor of the document that comes with its first bytes."""
    head, descriptors, _, _ = socket.recv_fds(asked, HEAD.size, 1)
    if not head:
        raise EOFError
    (document,) = descriptors
    parts = iter((head,))

    def read(size: int) -> bytes:
        data = next(parts, b"")
        while len(data) < size:
            piece = asked.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    return Request(*received(read, REQUEST_BYTES)), document


def _answer(request: Request, document: int) -> Iterator[bytes]:
    """The messages of one document, the last of them ``end`` or ``error``."""
    signal.setitimer(signal.ITIMER_REAL, request.seconds)
    name = request.name
    with os.fdopen(document, "rb") as stream:
        try:
            yield from _messages(request, Source(name, stream))
            yield packed(["end", _is_fit()])
        except ToolError as error:
            yield packed(["error", error.message, error.kind, error.hint, _is_fit()])
        except (MemoryError, RecursionError) as error:
            what = "needs more memory than there is" if isinstance(error, MemoryError) else "is nested too deep"
            yield packed(["error", f"{name} {what}", "too large", None, False])
        except Exception as error:  # libraries raise anything over broken input
            said = " ".join(str(error).split())[:200] or type(error).__name__
            yield packed(["error", f"{name} cannot be read: {said}", "unsupported", None, False])


def _messages(request: Request, source: Source) -> Iterator[bytes]:
    match request.job:
        case "kind":
            kind = documents.kind_of(source)
            yield packed(["kind", kind and kind.name])
        case "text":
            yield packed(["text", documents.text(source)])
        case "pages":
            for page in documents.pages(source):
                yield packed(["page", page.number, page.title, page.text])
        case "tables":
            for number, table in enumerate(documents.tables(source), 1):
                yield packed(["table", table.name])
                if documents.is_wanted(table.name, number, request.wanted):
                    yield from packed_rows(table.rows)


def _is_fit() -> bool:
    """Whether the process may go on with other documents."""
    return _peak() < KEPT_BYTES


def _peak() -> int:
    """The most memory that was resident, in bytes. Linux says of ``ru_maxrss`` that of whoever started the process, where it was more."""
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used * (1 if sys.platform == "darwin" else 1024)
