"""``kleene.attach`` and ``kleene.connect``: an engine on a connection of the user's, or on one of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from kleene.bounds import bound
from kleene.budgets import checked
from kleene.config import Config, load_config
from kleene.engine import Engine
from kleene.mcp.servers import open_servers
from kleene.models import build_handler
from kleene.planner.catalog import Catalog
from kleene.planner.errors import ConfigError
from kleene.planner.specs import BudgetLimits
from kleene.services import Services
from kleene.store.eventfile import events_path
from kleene.store.store import LOCKDOWN
from kleene.tools.base import Tool
from kleene.tools.settings import ToolSettings, ignored_tables
from kleene.tools.setup import toolbox_for
from kleene.tools.toolbox import Approve
from kleene.udfs.events import Event
from kleene.udfs.ledger import Ledger
from kleene.udfs.protocols import CallHandler

STORE = ".kleene/run.duckdb"


def attach(
    con: duckdb.DuckDBPyConnection,
    *,
    store: str | Path = STORE,
    models: Any = None,
    budget: BudgetLimits | None = None,
    workspace: str | Path = ".",
    trust: str = "host",
    concurrency: int = 32,
    tools: Sequence[Any] = (),
    mcp: bool | str | Path | Mapping[str, Any] = False,
    on_event: Callable[[Event], None] | None = None,
    approve: Approve | None = None,
    allow_hosts: Sequence[str] = (),
    unsafe_shell: bool = False,
    record: str | Path | None = None,
    replay: str | Path | None = None,
    replay_strict: bool = False,
    lock_wait: float = 0.0,
    config: Config | None = None,
    otel: Any = None,
    fresh: bool = False,
) -> Engine:
    """Put Kleene on a DuckDB connection that is open already.

    The connection keeps its settings, transaction and objects; what Kleene adds (functions named ``kleene_*`` and the temporary macros
    ``llm``, ``llm_bool``, ...) goes away with ``close``. ``store`` is the file that holds memo and trace (``":memory:"`` for none).
    ``models`` is described in ``kleene.models.build_handler`` (a ``CallHandler`` of your own is taken as it is); ``budget`` bounds all statements together.
    ``tools`` are Python functions (see ``kleene.tool``) beside the standard ones; ``approve`` is asked before each effect of a CALL (an ``Effect``).
    ``allow_hosts`` are hosts that web tools may reach, ``unsafe_shell`` lets commands run without a sandbox where there is none.
    ``otel`` sends OpenTelemetry's spans (extra ``kleene[otel]``): True to the program's tracer provider, or give one; None does so where
    the environment names an OTLP endpoint.
    ``mcp``: the tools of MCP servers beside your own ``tools``: True for the configured servers (``kleene.mcp.entries``), the path of an
    ``mcpServers`` file, or what would stand in one. ``fresh``: the connection was made for this and holds nothing, so that no macro of yours is
    looked for, which takes 10 ms. Raises ``StoreLocked``,
    ``ConfigError`` and ``BusyConnection``.
    """
    if trust not in ("host", "model"):
        raise ConfigError(
            f"trust is {trust!r}", hint="'host' for your own statements, 'model' for SQL that a model wrote"
        )
    if not isinstance(con, duckdb.DuckDBPyConnection):
        raise ConfigError(
            f"a DuckDB connection is needed, not {type(con).__name__}",
            hint="kleene.attach(duckdb.connect(...)), or kleene.connect(path)",
        )
    budget = checked(budget)
    config = load_config(workspace) if config is None else config
    handler = (
        models
        if hasattr(models, "route") and hasattr(models, "send")
        else build_handler(models, config, record=record, replay=replay, replay_strict=replay_strict)
    )
    try:
        services = Services.open(
            store, handler, concurrency=concurrency, on_event=on_event, lock_wait_s=lock_wait, otel=otel
        )
    except BaseException:
        close_handler(handler)
        raise
    notes: list[str] = []
    try:
        servers = open_servers(mcp, workspace, notes.append)
        services.on_close(servers.close)
        ledger = Ledger(budget or BudgetLimits())
        granted = ToolSettings.of(config).granting(allow_hosts, unsafe_shell=unsafe_shell)
        services.notes.extend(ignored_tables(config))
        known = Catalog().functions

        def theirs(taken: Collection[str]) -> Sequence[Tool]:
            return servers.tools([*known, *taken])

        box = toolbox_for(
            workspace,
            config,
            granted,
            tools,
            services.events.emit,
            approve,
            keep=str(store) != ":memory:",
            private=own_files(config, workspace, services.store.path, mcp),
            more=theirs,
        )
        engine = Engine(
            con, services, ledger=ledger, trust=trust, workspace=workspace, owns_services=True, tools=box, fresh=fresh
        )
        engine.state.catalog = engine.state.catalog.with_tools(box.functions())
        notes += engine.notes
        engine.notes = notes  # the servers go on to say what happens to them
        engine.state.settings = engine.state.settings.set("concurrency", concurrency)
        return engine
    except BaseException:
        services.close()
        raise


def connect(path: str | Path = ":memory:", *, read_only: bool = False, locked: bool = False, **options: Any) -> Engine:
    """Open a DuckDB connection and attach to it; ``close`` closes both. Takes the options of ``attach``.

    ``read_only``: the file is not changed. ``locked``: statements reach no file, extension or setting of DuckDB, and one call of a function makes a bounded
    amount (``kleene.bounds``).
    """
    try:
        fresh = str(path) == ":memory:"
        con = duckdb.connect(str(path), read_only=read_only)
    except duckdb.Error as error:
        raise ConfigError(
            f"the database {path} cannot be opened: {str(error).splitlines()[0]}",
            hint="another process may have it open; give another file or a read-only copy",
        ) from None
    try:
        engine = attach(con, fresh=fresh, **options)
        if locked:
            bound(con)
            for statement in LOCKDOWN:
                con.execute(statement)
    except BaseException:
        con.close()
        raise
    engine.owns_connection = True
    return engine


def own_files(config: Config, workspace: str | Path, store: Path | None, mcp: object) -> tuple[Path, ...]:
    """The files that say what may be done here, and the store's: what tools do not reach even where they lie in the workspace. Its own
    ``kleene.toml`` grants nothing."""
    named = (Path(mcp),) if isinstance(mcp, str | Path) else ()
    kept = () if store is None else (store, events_path(store))
    return (*(file for file in config.files if file != Path(workspace) / "kleene.toml"), *named, *kept)


def close_handler(handler: CallHandler) -> None:
    """Close a handler whose engine never came to be: a recording's file, connections."""
    from kleene.udfs.runtime import Runtime

    runtime = Runtime("kleene-closing")
    try:
        runtime.submit(handler.aclose).wait(5)
    finally:
        runtime.close()
