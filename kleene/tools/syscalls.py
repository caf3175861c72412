"""Which system calls a sandboxed command may not make, as the program that the kernel runs on each (seccomp, classic BPF).

Namespaces do not divide the kernel's keyrings, in which a user's tickets and keys may lie; and a few calls exist for those who look into the
kernel, have a long record of faults, and are needed by no build or test. Containers refuse the same ones (see Docker's default profile). They
fail with EPERM. Programs for another architecture than the machine's own (32 bits, x32) make no calls at all: their numbers mean others.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

REFUSED: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "open_by_handle_at": 304,
        "kexec_load": 246,
    },
    "aarch64": {
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "open_by_handle_at": 265,
        "kexec_load": 104,
    },
}
"""The calls and their numbers, of include/uapi/asm-generic/unistd.h and arch/x86/entry/syscalls/syscall_64.tbl of Linux 6."""

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*, linux/audit.h
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JGE|K, BPF_RET|K
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000


def refusing(machine: str) -> bytes | None:
    """The program for a machine (``os.uname().machine``); None where its numbers are not known here.

    Its instructions are a load, one comparison for each call, and the three returns that they jump to.
    """
    if machine not in REFUSED:
        return None
    numbers = sorted(REFUSED[machine].values())
    x32 = machine == "x86_64"
    rest = len(numbers)
    program = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 0, rest + 3 + x32, _ARCHITECTURE[machine]),
        (_LOAD, 0, 0, _NUMBER),
        *([(_AT_LEAST, rest + 2, 0, _X32)] if x32 else []),
        *((_EQUAL, rest - place, 0, number) for place, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | _EPERM),
        (_RETURN, 0, 0, _FAIL | _ENOSYS),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
