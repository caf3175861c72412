"""The tools that read the workspace's history: git_log, git_status, git_diff, git_blame."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from typing import Any

from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work
from kleene.tools.gitrun import Repository
from kleene.tools.globs import Globs
from kleene.tools.standard import LOGGED

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def log(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    count = LOGGED if arguments[0] is None else arguments[0]
    if count < 0:
        raise ToolError(f"git_log takes a number of commits, not {count}", kind="invalid arguments")
    repository = Repository.of(work)
    if not _has_commits(repository, work):
        return
    output = repository.output(
        *(work, "log", "-z", f"--max-count={count}", "--no-color", "--no-show-signature", "--no-mailmap"),
        *("--format=%H%n%an <%ae>%n%at%n%B", "HEAD", "--", "."),
    )
    for record in _split(output, b"\0"):
        sha, author, moment, message = record.split("\n", 3)
        yield sha, author, _moment(moment), message.strip()


def _has_commits(repository: Repository, work: Work) -> bool:
    try:
        return bool(list(repository.output(work, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")))
    except ToolError as error:
        if error.kind == "invalid arguments":
            return False
        raise


def _moment(seconds: str) -> dt.datetime:
    """In UTC, without a zone."""
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=int(seconds))


def status(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    (glob,) = arguments
    globs = Globs.of("**" if glob is None else glob)
    repository = Repository.of(work)
    (above, *_) = (*_split(repository.output(work, "rev-parse", "--show-prefix"), b"\n"), "")
    options = ("--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames")
    for record in _split(repository.output(work, "status", *options, "--", "."), b"\0"):
        code, path = record[:2], record[3:].removeprefix(above)  # git names paths from the repository's top
        if code and globs.match(path) and work.workspace.reaches(path):
            yield path, _change(code), code[0] not in " ?"


def _change(code: str) -> str:
    """What git's two letters say, the index's and the working tree's.

    >>> [_change(code) for code in ("??", " M", "A ", "AM", " D", "UU")]
    ['untracked', 'modified', 'added', 'added', 'deleted', 'conflicted']
    """
    if "U" in code or code in ("AA", "DD"):
        return "conflicted"
    return next(
        (word for mark, word in (("?", "untracked"), ("D", "deleted"), ("A", "added")) if mark in code), "modified"
    )


def diff(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    (ref,) = arguments
    repository = Repository.of(work)
    if ref is None:
        ref = "HEAD" if _has_commits(repository, work) else EMPTY_TREE
    elif ref.startswith("-") or not ref.strip() or re.search(r"[\0-\x20\x7f]", ref):
        raise _no_revision(ref)
    else:
        _check_commits(repository, work, ref)
    output = repository.output(
        *(work, "diff", "-z", "--raw", "--patch", "--no-color", "--no-ext-diff", "--no-textconv", "--relative", "-M"),
        *("--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=dirty", "--end-of-options", ref, "--", "."),
    )
    raw, _, printed = b"".join(output).partition(b"\0\0")
    paths = list(_changed(raw.decode("utf-8", "replace")))
    patches = re.split(r"^(?=diff --git )", printed.decode("utf-8", "replace"), flags=re.MULTILINE)
    patches = [text for text in patches if text]
    if len(paths) != len(patches):
        raise ToolError("git printed a diff that cannot be read", kind="other")
    for (old, new), patch in zip(paths, patches, strict=True):
        if work.workspace.reaches(old) and work.workspace.reaches(new):
            yield new, patch


def _check_commits(repository: Repository, work: Work, ref: str) -> None:
    """Each side names a commit. Of a folder's tree (``HEAD:.ssh``, or its hash) git would print paths below it, which tell nobody where they lie."""
    for side in filter(None, re.split(r"\.{2,3}", ref)):
        try:
            b"".join(repository.output(work, "rev-parse", "--verify", "--end-of-options", f"{side}^{{commit}}"))
        except ToolError as error:
            if error.kind != "invalid arguments":
                raise
            raise _no_revision(ref) from None


def _no_revision(ref: str) -> ToolError:
    return ToolError(
        f"{ref!r} is no git revision", kind="invalid arguments", hint="a commit, a branch, HEAD~2 or main..HEAD"
    )


def _changed(raw: str) -> Iterator[tuple[str, str]]:
    """The paths of ``--raw -z``, a pair a patch: of a renamed file the old one and the new, else the same twice. A file that became another
    kind (a link, say) has two patches: it goes and comes."""
    fields = iter(raw.split("\0"))
    for field in fields:
        if not field:
            continue
        path, status = next(fields), field.rpartition(" ")[2][:1]
        yield path, next(fields) if status in "RC" else path
        if status == "T":
            yield path, path


def blame(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    (path,) = arguments
    with work.workspace.open(path) as file:
        repository = Repository.of(work)
        command = ("blame", "--no-progress", "--no-textconv", "--line-porcelain", "--contents=-", "--", file.path)
        sha = author = mail = ""
        number = 0
        for line in _split(repository.output(work, *command, stdin=file.stream()), b"\n"):
            if line.startswith("\t"):
                committed = sha.strip("0") != ""
                who = f"{author} {mail}" if committed else None  # as git_log has it
                yield number, sha if committed else None, who, line[1:].removesuffix("\r")
            elif line.startswith("author "):
                author = line.removeprefix("author ")
            elif line.startswith("author-mail "):
                mail = line.removeprefix("author-mail ")
            elif (header := re.match(r"([0-9a-f]{40,64}) \d+ (\d+)", line)) is not None:
                sha, number = header[1], int(header[2])


def _split(pieces: Iterable[bytes], separator: bytes) -> Iterator[str]:
    held = b""
    for piece in pieces:
        *whole, held = (held + piece).split(separator)
        for record in whole:
            yield record.decode("utf-8", "replace")
    if held:
        yield held.decode("utf-8", "replace")
