"""The standard tools, declared: what the catalog needs to know of them. What they do is imported when one is used."""

from __future__ import annotations

from functools import partial
from typing import Any

from kleene.config import Access
from kleene.planner.specs import Param, Volatility
from kleene.tools.base import Tool
from kleene.tools.lazy import Lazy
from kleene.tools.settings import MAX_SHELL_MS, ToolSettings

SEARCHED = 10
"""Files that ``search`` gives where the statement does not say how many."""
LOGGED = 100
"""Commits that ``git_log`` gives."""


def _params(*named: str, **other: str) -> tuple[Param, ...]:
    """Texts by their names, then those of another type; ``_`` after a name is not part of it.

    >>> _params("path", from_="BIGINT")
    (Param(name='path', type='VARCHAR'), Param(name='from', type='BIGINT'))
    """
    texts = [Param(name, "VARCHAR") for name in named]
    return (*texts, *(Param(name.removesuffix("_"), kind) for name, kind in other.items()))


def _lazy(module: str, name: str) -> Lazy[Any]:
    return Lazy(f"kleene.tools.{module}", name)


FILES = Tool(
    name="files",
    params=_params("glob"),
    required=1,
    columns=_params("path", size="BIGINT", mtime="TIMESTAMP", kind="VARCHAR"),
    run=_lazy("reading", "files"),
    volatility=Volatility.STABLE,
    description="what a glob means here: '**' all, '*.md' by name at any depth, './*' the top; kind: file, folder",
)
LINES = Tool(
    name="lines",
    params=_params("path", from_="BIGINT", to="BIGINT"),
    required=1,
    columns=_params(lineno="BIGINT", text="VARCHAR"),
    run=_lazy("reading", "lines"),
    volatility=Volatility.STABLE,
    description="the lines of a text file, from one number to another",
)
READ = Tool(
    name="read",
    params=_params("path"),
    required=1,
    columns=_params("text"),
    run=_lazy("reading_documents", "read"),
    volatility=Volatility.STABLE,
    description="a whole file as text (one row); PDF, DOCX, XLSX, PPTX, EML, HTML too, as Markdown",
)
READ_PAGES = Tool(
    name="read_pages",
    params=_params("path"),
    required=1,
    columns=_params(page="BIGINT", title="VARCHAR", text="VARCHAR"),
    run=_lazy("reading_documents", "read_pages"),
    volatility=Volatility.STABLE,
    description="a document by pages: of PDF, slides, sheets as CSV, a mail and its attachments, sections of others",
)
READ_TABLE = Tool(
    name="read_table",
    params=_params("path", "sheet", header="BIGINT"),
    required=1,
    columns=_params("sheet", row="BIGINT", cells="JSON"),
    run=_lazy("reading_documents", "read_table"),
    volatility=Volatility.STABLE,
    description="the rows of tables in XLSX, CSV, DOCX, PPTX, HTML: cells->>'Column'; header 0: no names, A, B, ...",
)
GREP = Tool(
    name="grep",
    params=_params("pattern", "glob"),
    required=1,
    columns=_params("path", lineno="BIGINT", text="VARCHAR"),
    run=_lazy("reading", "grep"),
    volatility=Volatility.STABLE,
    description="the lines that match a regular expression (Python's; (?i) ignores case) in the texts a glob means",
)
SEARCH = Tool(
    name="search",
    params=_params("query", "glob", n="BIGINT"),
    required=1,
    columns=_params("path", lineno="BIGINT", snippet="VARCHAR", rank="BIGINT", score="DOUBLE"),
    run=_lazy("searching", "search"),
    volatility=Volatility.STABLE,
    description=f"the n files ({SEARCHED} by default) that hold the words of a query most (BM25), with the best line of each",
)
CHUNKS = Tool(
    name="chunks",
    params=_params("text", size="BIGINT", overlap="BIGINT"),
    required=2,
    columns=_params(ordinal="BIGINT", text="VARCHAR", tokens="BIGINT"),
    run=_lazy("chunking", "chunks"),
    volatility=Volatility.IMMUTABLE,
    description="a text in pieces of at most size tokens (4 characters each), cut at headings, paragraphs, sentences",
)
ENV = Tool(
    name="env",
    params=_params("name"),
    required=1,
    columns=_params("value"),
    run=_lazy("lookups", "env"),
    volatility=Volatility.STABLE,
    description="the value of an environment variable that the configuration lets tools see",
)
SKILL = Tool(
    name="skill",
    params=_params("name"),
    required=1,
    columns=_params("text"),
    run=_lazy("lookups", "skill"),
    volatility=Volatility.STABLE,
    description="the text of a skill: how a kind of task is done here",
)
GIT_LOG = Tool(
    name="git_log",
    params=_params(n="BIGINT"),
    required=0,
    columns=_params("sha", "author", date="TIMESTAMP", message="VARCHAR"),
    run=_lazy("git", "log"),
    volatility=Volatility.STABLE,
    description=f"the last n commits ({LOGGED} by default) that touch the workspace, the newest first",
)
GIT_STATUS = Tool(
    name="git_status",
    params=_params("glob"),
    required=0,
    columns=_params("path", "change", staged="BOOLEAN"),
    run=_lazy("git", "status"),
    volatility=Volatility.STABLE,
    description="the files that differ from the last commit, and how",
)
GIT_DIFF = Tool(
    name="git_diff",
    params=_params("ref"),
    required=0,
    columns=_params("path", "diff"),
    run=_lazy("git", "diff"),
    volatility=Volatility.STABLE,
    description="what differs between a revision (HEAD by default) and the working tree, or between two (main..HEAD), a row a file",
)
GIT_BLAME = Tool(
    name="git_blame",
    params=_params("path"),
    required=1,
    columns=_params(lineno="BIGINT", sha="VARCHAR", author="VARCHAR", text="VARCHAR"),
    run=_lazy("git", "blame"),
    volatility=Volatility.STABLE,
    description="who wrote each line of a file, and in which commit (NULL: not committed yet)",
)

READ_TOOLS = (
    *(FILES, LINES, READ, READ_PAGES, READ_TABLE),
    *(GREP, SEARCH, CHUNKS),
    *(ENV, SKILL),
    *(GIT_LOG, GIT_STATUS, GIT_DIFF, GIT_BLAME),
)
"""The tools that change nothing."""


def _effect(name: str, params: tuple[Param, ...], columns: tuple[Param, ...], description: str, module: str) -> Tool:
    """A tool that needs all its arguments; its functions are ``name`` and ``describe_name`` of the module."""
    run, describe = _lazy(module, name), _lazy(module, f"describe_{name}")
    return Tool(name, params, len(params), columns, run, Volatility.VOLATILE, description, describe)


WRITE_FILE = _effect(
    "write_file",
    _params("path", "text"),
    _params("path", bytes="BIGINT"),
    "writes a file; .docx is built from Markdown, .xlsx from CSV",
    "writing",
)
APPEND_FILE = _effect(
    "append_file",
    _params("path", "text"),
    _params("path", bytes="BIGINT"),
    "adds text to the end of a file",
    "writing",
)
PATCH = _effect(
    "patch",
    _params("path", "old", "new"),
    _params("path", replaced="INTEGER", diff="VARCHAR"),
    "replaces the one place where old stands in a file by new",
    "writing",
)
MKDIR = _effect("mkdir", _params("path"), _params("path"), "makes a folder", "writing")
REMOVE = _effect("remove", _params("path"), _params("path"), "removes a file or an empty folder", "writing")
GIT_COMMIT = Tool(
    name="git_commit",
    params=_params("message", paths="VARCHAR[]"),
    required=1,
    columns=_params("sha", files="INTEGER"),
    run=_lazy("git_commit", "commit"),
    volatility=Volatility.VOLATILE,
    description="commits changed files of the workspace; hooks do not run",
    describe=_lazy("git_commit", "describe"),
)


def shell(settings: ToolSettings) -> Tool:
    network = "with" if settings.shell_network else "without"
    return Tool(
        name="shell",
        params=_params("cmd", "cwd", timeout_ms="BIGINT"),
        required=1,
        columns=_params("stdout", "stderr", exit_code="INTEGER", duration_ms="BIGINT"),
        run=partial(_lazy("shell", "run"), settings),
        volatility=Volatility.VOLATILE,
        description=f"runs a command of sh in the workspace, in a sandbox {network} network; .git is read-only in it",
        describe=_lazy("shell", "describe"),
        seconds=MAX_SHELL_MS / 1000,
    )


def shell_function(settings: ToolSettings, name: str, params: tuple[str, ...], command: str) -> Tool:
    """What runs the command of a SHELL function."""
    return Tool(
        name=name,
        params=_params(*params),
        required=len(params),
        columns=_params("stdout"),
        run=partial(_lazy("shell", "run_function"), settings, params, command),
        volatility=Volatility.VOLATILE,
        describe=partial(_lazy("shell", "describe_function"), params, command),
    )


def web_fetch(settings: ToolSettings) -> Tool:
    return Tool(
        name="web_fetch",
        params=_params("url"),
        required=1,
        columns=_params("url", status="INTEGER", text="VARCHAR", tokens="BIGINT"),
        run=partial(_lazy("web", "run"), settings.allow_hosts),
        volatility=Volatility.VOLATILE,
        description="fetches a page of an allowed host as Markdown",
        describe=_lazy("web", "describe"),
    )


def web_search(access: Access) -> Tool:
    return Tool(
        name="web_search",
        params=_params("q", n="INTEGER"),
        required=1,
        columns=_params(rank="INTEGER", title="VARCHAR", url="VARCHAR", snippet="VARCHAR"),
        run=partial(_lazy("websearch", "run"), access),
        volatility=Volatility.VOLATILE,
        description="asks a web search service; 10 results unless n says otherwise",
        describe=_lazy("websearch", "describe"),
    )


def effect_tools(settings: ToolSettings, search: Access) -> tuple[Tool, ...]:
    """The tools with effects, as the settings grant them."""
    return (
        *(WRITE_FILE, APPEND_FILE, PATCH, MKDIR, REMOVE),
        shell(settings),
        GIT_COMMIT,
        web_fetch(settings),
        web_search(search),
    )
