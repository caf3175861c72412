"""The plain names of one engine on its user's connection: kept in step with the catalog, answered by the engine's models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import duckdb

from kleene import macros
from kleene.macronames import Macro
from kleene.planner.errors import PlanError
from kleene.planner.specs import Volatility
from kleene.udfs.lookups import Key, Lookups, SiteAnswers
from kleene.udfs.statement import Ask, CallSite, StatementContext

if TYPE_CHECKING:
    from kleene.connection import Connection
    from kleene.own import State
    from kleene.services import Services
    from kleene.udfs.register import Registration

MOST_ANSWERS = 100_000
"""That a site keeps: DuckDB runs of such a statement are not told apart, so the answers of one would be kept for ever."""


class PlainNames:
    """``con.sql("SELECT llm('hi')")`` without the planner: macros over the functions on demand, see ``kleene.macros``.

    ``registration`` is of the engine's functions, whose names they call. ``context`` gives the statement that asks: the engine's running one, or
    one of its own.
    """

    def __init__(
        self,
        connection: Connection,
        lookups: Lookups,
        registration: Registration,
        services: Services,
        state: State,
        context: Callable[[], StatementContext],
    ):
        self._connection = connection
        self._con = connection.con
        self._lookups = lookups
        self._registration = registration
        self._services = services
        self._state = state
        self._context = context
        self._made: dict[str, Macro] = {}

    def open(self, *, alone: bool = False) -> list[str]:
        """Put the names on the connection. What a user should know of it, a line each. ``alone``: nobody else can have any there."""
        self.open_sites()
        try:
            made, macros_left = macros.create(self._con, self._wanted(), alone=alone)
        except duckdb.Error as error:
            return [f"the plain names are not available on this connection: {str(error).splitlines()[0]}"]
        self._made = {macro.name: macro for macro in made}
        if not macros_left:
            return []
        left = [macro.name for macro in macros_left]
        is_one = len(left) == 1
        return [
            f"{', '.join(left)} on this connection {'is' if is_one else 'are'} yours already and stay{'s' if is_one else ''} so; "
            "k.sql means Kleene's"
        ]

    def open_sites(self) -> None:
        """Sites without answers: those of an earlier definition or setting are another question's."""
        names = [spec.name for spec in self._state.catalog.functions.values()]
        self._lookups.open([SiteAnswers(name=f"{macros.SITE}:{name}", ask=self._ask) for name in names])

    def renew(self) -> None:
        """After the functions under the names were registered anew."""
        made, _ = macros.create(self._con, self._wanted())
        self._made = {macro.name: macro for macro in made}

    def extend(self) -> None:
        """After a declaration: the names that it brought are opened too, where the connection takes them."""
        self.open_sites()
        with suppress(duckdb.Error):
            sure = self._connection.in_autocommit()
            made, _ = macros.create(
                self._con, [macro for macro in self._wanted() if self._made.get(macro.name) != macro]
            )
            for macro in made:
                # What a transaction of the user's makes goes when it is rolled back: such a name is wanted again the next time.
                self._made[macro.name] = macro if sure else attrs.evolve(macro, sql="")

    def _wanted(self) -> list[Macro]:
        return list(macros.macros(self._state.catalog, self._registration.suffix))

    def drop(self) -> None:
        macros.drop(self._con, self._made.values(), self._registration.suffix)

    def _ask(self, site: SiteAnswers, keys: list[Key]) -> None:
        """Answer calls that DuckDB makes outside ``sql``: the same memo, budget and trace, a statement of its own per vector."""
        name = site.name.split(":", 1)[1]
        spec = self._state.catalog.function(name)
        if spec is None:
            raise PlanError(f"there is no function {name}", hint="it was dropped; SHOW FUNCTIONS lists what there is")
        if len(site.answers) > MOST_ANSWERS:
            site.answers.clear()
        asks = []
        calls: dict[Any, CallSite] = {}
        for key in keys:
            arguments = (key,) if isinstance(key, str) else key
            call_spec, values = macros.plain_spec(spec, arguments, self._state.settings)
            if call_spec not in calls:
                calls[call_spec] = CallSite(call_spec, Volatility.STABLE, SiteAnswers(name=site.name))
            asks.append((key, Ask(calls[call_spec], values[0] if len(values) == 1 else values)))
        task = self._services.runtime.submit(self._services.dispatcher.answer, self._context(), [a for _, a in asks])
        task.wait()
        for key, ask in asks:
            site.answers[key] = ask.site.answers.answers.get(ask.key)
