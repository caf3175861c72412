"""What a statement runs in, and what those who count and price its calls use of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from kleene.planner.experience import fingerprint

if TYPE_CHECKING:
    from kleene.connection import Connection
    from kleene.planner.callplan import Site
    from kleene.planner.errors import KleeneError
    from kleene.planner.learned import Learned
    from kleene.planner.settings import Settings
    from kleene.services import Services
    from kleene.udfs.children import Tools
    from kleene.udfs.ledger import Ledger
    from kleene.udfs.lookups import Lookups, SiteAnswers
    from kleene.udfs.runtime import Task
    from kleene.udfs.statement import Ask, StatementContext


@attrs.frozen
class Surroundings:
    """What a statement runs in: the connection, the lookups registered on it, the budget, the session, the tools."""

    connection: Connection
    services: Services
    lookups: Lookups
    suffix: str
    ledger: Ledger
    settings: Settings
    session: str | None = None
    tools: Tools | None = None

    def learned(self, site: Site) -> Learned | None:
        """What earlier statements saw of calls like those of a site, where the settings let it be used."""
        if not self.settings.estimates or site.spec.session:
            return None
        return self.services.lessons.of(fingerprint(site))


class Asking(Protocol):
    """A statement whose calls are counted (``kleene.runner.Running``): ``number`` stands in the names of its sites, ``failure`` is the typed
    error behind one of DuckDB's."""

    around: Surroundings
    context: StatementContext
    number: int
    failure: KleeneError | None

    def noting(self, number: int) -> SiteAnswers:
        """The answers of a call site, weighed with all others of the statement."""
        ...

    def answer(self, asks: list[Ask]) -> None:
        """Answer calls as those of the statement: remembered, priced, refused and traced alike."""
        ...

    def wait(self, task: Task[Any]) -> Any:
        """The task's result; cancelling the statement ends the wait and the task."""
        ...
