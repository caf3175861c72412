"""All effects, put together from what a session was granted."""

from __future__ import annotations

import attrs

from kleene.tools.effects import Effect
from kleene.tools.git_commit import git_commit
from kleene.tools.hosts import HostRules
from kleene.tools.sandbox import Sandbox
from kleene.tools.shell import shell
from kleene.tools.web import web_fetch
from kleene.tools.webclient import Reach
from kleene.tools.websearch import Service, web_search
from kleene.tools.writing import writing


@attrs.frozen
class Granted:
    """What effects may use. By default: the sandbox without network, no host, no search service."""

    sandbox: Sandbox = attrs.field(factory=Sandbox)
    reach: Reach = attrs.field(factory=lambda: Reach(HostRules()))
    search: Service | None = None


def effects(granted: Granted) -> tuple[Effect, ...]:
    """The tools that CALL runs, each VOLATILE, in the order in which they are shown."""
    return (
        shell(granted.sandbox),
        *writing(),
        git_commit(),
        web_fetch(granted.reach),
        web_search(granted.search, granted.reach),
    )
