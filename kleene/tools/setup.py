"""The toolbox of an engine: the standard tools on its workspace, and the user's own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.config import Config
from kleene.planner.errors import ConfigError
from kleene.tools.base import Limits, Tool, Work
from kleene.tools.functions import tool
from kleene.tools.settings import ToolSettings
from kleene.tools.standard import READ_TOOLS, effect_tools, shell_function
from kleene.tools.toolbox import Approve, Toolbox
from kleene.udfs.events import Event

if TYPE_CHECKING:
    from kleene.tools.index import SearchIndex
    from kleene.tools.private import Private
    from kleene.tools.reading_apart import Readers
    from kleene.tools.skills import Skill

RESULT_BYTES = 64 << 20
"""Of one use's rows: DuckDB holds them as JSON beside its table of them."""


GIT = frozenset({"git_log", "git_status", "git_diff", "git_blame"})
FILE_TOOLS = frozenset({"files", "lines", "read", "read_pages", "read_table", "grep", "search", "chunks"})


class Workplace:
    """What the tools of one engine share: its workspace, and from the first use on the index for search and the processes that read documents."""

    def __init__(self, workspace: str | Path, settings: ToolSettings, *, keep: bool, own: Iterable[str | Path] = ()):
        self._workspace = workspace
        self._own = tuple(own)
        self._settings = settings
        self._limits = Limits(result_bytes=RESULT_BYTES)
        self._root = os.path.realpath(workspace) if keep else None
        self._lock = threading.Lock()
        self._shared: tuple[SearchIndex, Readers, Private] | None = None
        self._env = {name: os.environ[name] for name in settings.env if name in os.environ}

    def close(self) -> None:
        with self._lock:
            for shared in (self._shared or ())[:2]:
                shared.close()

    def idle(self) -> frozenset[str]:
        """The tools that have nothing to work on: those of files in an empty workspace, of git outside a repository, env and skill without any of the user's."""
        root = Path(self._workspace).resolve()
        found = set() if self._env else {"env"}
        if all(skill.scope == "built in" for skill in self.skills()):
            found |= {"skill"}  # how to work with Kleene a session is told anyway
        if not any((folder / ".git").exists() for folder in (root, *root.parents)):
            found |= GIT
        try:
            with os.scandir(root) as entries:
                is_empty = all(entry.name.startswith(".") for entry in entries)
        except OSError:
            is_empty = True
        return frozenset(found | FILE_TOOLS if is_empty else found)

    def skills(self) -> tuple[Skill, ...]:
        """What ``skill`` can tell, by name."""
        from kleene.tools.skills import find_skills

        return tuple(find_skills(self._workspace).values())

    def work(self, cancelled: Callable[[], bool], statement: str) -> Work:
        """For one use. Raises ``ConfigError`` where the workspace is no folder."""
        from kleene.tools.index import SearchIndex
        from kleene.tools.jail import Jail
        from kleene.tools.private import Private
        from kleene.tools.reading_apart import Readers
        from kleene.tools.skills import SkillTexts, find_skills

        with self._lock:
            if self._shared is None:
                self._shared = SearchIndex(self._root), Readers(), Private.of(self._workspace, self._own)
            index, readers, private = self._shared
        return Work(
            workspace=Jail.of(self._workspace, self._settings.writable, private),
            limits=self._limits,
            cancelled=cancelled,
            env=self._env,
            skills=SkillTexts(partial(find_skills, self._workspace)),
            index=index,
            readers=readers,
            statement=statement,
        )


def effects(settings: ToolSettings, config: Config) -> tuple[Tool, ...]:
    """The standard tools with effects. Raises ``ConfigError`` for a host or a search provider that is none."""
    if settings.allow_hosts:
        from kleene.tools.hosts import HostRules

        HostRules.of(settings.allow_hosts)
    if config.web_search.provider is not None:
        from kleene.tools.providers import choose, load_providers

        choose(load_providers(), config.web_search.provider, config.web_search.api_key, os.environ)
    return effect_tools(settings, config.web_search)


def toolbox_for(
    workspace: str | Path,
    config: Config,
    settings: ToolSettings,
    own: Sequence[Any],
    emit: Callable[[Event], None],
    approve: Approve | None = None,
    *,
    keep: bool = True,
    private: Iterable[str | Path] = (),
    more: Callable[[Collection[str]], Sequence[Tool]] | None = None,
) -> Toolbox:
    """The standard tools, and ``own``: Python functions or what ``kleene.tool`` made of them, which may take a standard tool's place.

    ``keep``: the index for search stays in the workspace. ``private``: files of the user's own that tools do not reach where they lie there. ``more`` gives other people's tools, told the names that are taken. Raises ``ConfigError`` for two of one name.
    """
    tools = {t.name: t for t in (*READ_TOOLS, *effects(settings, config))}
    named: set[str] = set()
    for given in own:
        made = given if isinstance(given, Tool) else tool(given)
        if made.name.lower() in named:
            raise ConfigError(
                f"there are two tools {made.name}", hint="kleene.tool(function, name='...') gives one another name"
            )
        named.add(made.name.lower())
        tools[made.name.lower()] = made
    for made in more(tools.keys()) if more is not None else ():
        tools[made.name.lower()] = made
    place = Workplace(workspace, settings, keep=keep, own=private)
    command = partial(shell_function, settings)
    return Toolbox(
        tools.values(),
        place.work,
        emit,
        approve,
        on_close=place.close,
        idle=place.idle,
        command=command,
        skills=place.skills,
    )
