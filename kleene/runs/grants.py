"""Which tools a run's root session may use. Reading tools always; effects only where whoever starts the run grants them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kleene.planner.catalog import Catalog
from kleene.planner.errors import ConfigError, did_you_mean
from kleene.planner.tools import has_effects

GROUPS: dict[str, tuple[str, ...]] = {
    "write": ("write_file", "append_file", "patch", "mkdir", "remove"),
    "git": ("git_commit",),
    "shell": ("shell",),
    "web": ("web_fetch", "web_search"),
}
"""Names for tools that are granted together. ``all`` stands for every tool there is."""


def granted(
    catalog: Catalog,
    allow: Sequence[str] | None,
    *,
    approved: bool,
    servers: Mapping[str, Collection[str]] | None = None,
) -> Catalog:
    """The catalog with the tools that a run may use. ``allow`` names tools, groups, and MCP servers (``servers``: the tools of each); None grants
    every effect where somebody is asked before each (``approved``), and none elsewhere. Raises ``ConfigError`` for a name that is none of them.

    >>> [t.name for t in granted(Catalog(), None, approved=True).tools()]
    []
    """
    effects = {t.name.lower() for t in catalog.tools() if has_effects(t)}
    reading = {t.name.lower() for t in catalog.tools()} - effects
    if allow is None:
        return catalog.restricted(tuple(reading | (effects if approved else set())))
    servers = servers or {}
    found: set[str] = set()
    for name in allow:
        key = name.strip().lower()
        if key == "all":
            found |= effects
        elif key in GROUPS:
            found |= effects & set(GROUPS[key])
        elif key in effects | reading:
            found.add(key)
        elif key in servers:
            found |= (effects | reading) & set(servers[key])
        else:
            near = did_you_mean(key, (*GROUPS, "all", *sorted(effects), *servers))
            raise ConfigError(
                f"there is no tool {name} to allow",
                hint=f"did you mean {near}?" if near else f"groups are {', '.join(GROUPS)}, all; or name a tool",
            )
    return catalog.restricted(tuple(reading | found))
