"""Notebooks: ``%load_ext kleene`` gives ``%%callsql`` (a cell of statements) and ``%callsql`` (one line). IPython is imported here only.

    %load_ext kleene

    %%callsql
    SELECT id, llm('Name the product in: ' || body) FROM mails

Words before the statements: ``--engine NAME`` (a variable that holds an engine or a DuckDB connection; else the engine called ``k``, else one
in memory of the notebook's own), ``--explain`` (the plan, no call) and ``NAME <<`` (keep the result in a variable, show nothing).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from kleene.planner.errors import ConfigError, KleeneError, did_you_mean
from kleene.rendering.html import live_bundle

if TYPE_CHECKING:
    from kleene.explain import Plan
    from kleene.result import Result

OWN = "_kleene_engine"
PAINT_S = 0.5
PAINT_WIDTH = 110
WORD = re.compile(
    r"\s*(?:--engine[ =](?P<engine>\w+)|(?P<explain>--explain)|(?P<unknown>--\w+)|(?P<name>[^\W\d]\w*)\s*<<)(?=\s|\Z)"
)


@attrs.frozen
class Asked:
    """What a magic's line and cell say. ``text`` are the statements."""

    text: str
    engine: str | None = None
    explain: bool = False
    name: str | None = None


def read(line: str, cell: str | None) -> Asked:
    """The words before the statements, and the statements: the rest of the line, then the cell. Raises ``ConfigError`` for an unknown word.

    >>> read("--engine shop found << SELECT 1", None)
    Asked(text='SELECT 1', engine='shop', explain=False, name='found')
    """
    words: dict[str, str] = {}
    while (found := WORD.match(line)) is not None:
        if found["unknown"]:
            near = did_you_mean(found["unknown"], ("--engine", "--explain"))
            raise ConfigError(
                f"%callsql does not know {found['unknown']}",
                hint=f"did you mean {near}?" if near else "it knows --engine NAME, --explain and NAME <<",
            )
        words |= {name: value for name, value in found.groupdict().items() if value}
        line = line[found.end() :]
    text = "\n".join(part for part in (line.strip(), cell or "") if part.strip())
    if not text:
        raise ConfigError("there is no statement to run", hint="%callsql SELECT 6 * 7")
    return Asked(text, words.get("engine"), "explain" in words, words.get("name"))


class Magics:
    """Runs cells in one notebook. An engine that it opened is closed when the notebook ends."""

    def __init__(self, shell: Any):
        self.shell = shell

    def callsql(self, line: str, cell: str | None = None) -> Result | Plan | None:
        """The result of the last statement, or None where it is kept in a variable. An error is said in one line with its hint."""
        try:
            asked = read(line, cell)
            engine = self.engine(asked.engine)
            # Run in the notebook's own scope, where the engine finds data frames that a statement names.
            call = "__callsql(__text)"
            scope = {"__callsql": engine.explain if asked.explain else engine.sql, "__text": asked.text}
            with progress(self.shell, engine):
                result: Result | Plan = eval(call, self.shell.user_ns, scope)
        except KleeneError as error:
            raise self.usage_error(error) from error
        if asked.name is not None:
            self.shell.user_ns[asked.name] = result
            return None
        return result

    def engine(self, name: str | None) -> Any:
        """Raises ``ConfigError`` where the variable holds no engine."""
        from kleene.engine import Engine

        names = self.shell.user_ns
        if name is not None:
            value = names.get(name)
            if value is None:
                raise ConfigError(f"there is no variable {name}", hint="k = kleene.connect('shop.duckdb')")
            return value if isinstance(value, Engine) else self._attached(name, value)
        if isinstance(names.get("k"), Engine):
            return names["k"]
        if OWN not in names:
            from kleene.attaching import connect

            names[OWN] = connect()
        return names[OWN]

    def _attached(self, name: str, con: Any) -> Any:
        from kleene.attaching import attach

        known = self.shell.user_ns.setdefault(f"{OWN}s", {})
        if name not in known or known[name].con is not con:
            known[name] = attach(con)  # says what is wrong with anything but a connection
        return known[name]

    def usage_error(self, error: KleeneError) -> Exception:
        """IPython prints a ``UsageError`` without a traceback."""
        from IPython.core.error import UsageError

        return UsageError(error.render())


@contextmanager
def progress(shell: Any, engine: Any) -> Iterator[None]:
    """Show below the cell, while the block runs, what each call of the statement has and lacks; it goes when the block ends. Only in a
    notebook: other shells have no place that can be written anew."""
    if getattr(shell, "kernel", None) is None:
        yield
        return
    from IPython.display import display

    from kleene.rendering.tally import Tally

    tally, done = Tally(), threading.Event()
    handle: Any = None

    def show(bundle: dict[str, str]) -> None:
        nonlocal handle
        if handle is None:
            handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            handle.update(bundle, raw=True)

    def paint() -> None:
        said = ""
        while not done.wait(PAINT_S):
            text = "\n".join([*tally.lines(time.monotonic(), PAINT_WIDTH), tally.line(time.monotonic())])
            if text != said and tally.known:
                show(live_bundle(said := text))

    painter = threading.Thread(target=paint, name="kleene-progress", daemon=True)
    unsubscribe = engine.services.events.subscribe(tally)
    painter.start()
    try:
        yield
    finally:
        done.set()
        unsubscribe()
        painter.join(2)
        if handle is not None:
            show({"text/plain": "", "text/html": ""})


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext kleene``."""
    magics = Magics(shell)
    shell.register_magic_function(magics.callsql, magic_kind="line_cell", magic_name="callsql")


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext kleene``: takes the magics away and closes the engines that they opened."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("callsql", None)
    own = shell.user_ns.pop(OWN, None)
    for engine in [*shell.user_ns.pop(f"{OWN}s", {}).values(), *([own] if own is not None else [])]:
        engine.close()
