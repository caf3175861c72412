"""The store's tables, as data: one list from which the DDL, the trace writer's columns and the rebuilt read-only tables are made.

Times are TIMESTAMP in UTC. A column is NULL where it is not known (yet).
"""

from __future__ import annotations

import attrs

from kleene.udfs.memo import MEMO_SCHEMA


@attrs.frozen
class Table:
    """A table of plain columns. ``columns`` are (name, DuckDB type); ``key`` names the primary key's columns, empty for none."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()

    def ddl(self) -> str:
        """The CREATE TABLE statement.

        >>> Table("t", (("a", "VARCHAR"), ("b", "BIGINT")), ("a",)).ddl()
        'CREATE TABLE IF NOT EXISTS t (a VARCHAR, b BIGINT, PRIMARY KEY (a))'
        """
        parts = [f"{name} {type_}" for name, type_ in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(self.key)})")
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({', '.join(parts)})"


def table(name: str, columns: str, key: str = "") -> Table:
    """Reads ``"a VARCHAR, b BIGINT"`` and ``"a, b"``."""
    pairs = tuple((c.split()[0], c.split()[1]) for c in columns.split(","))
    return Table(name, pairs, tuple(k.strip() for k in key.split(",")) if key else ())


TRACE = (
    table("trace_runs", "run VARCHAR, started_at TIMESTAMP, task VARCHAR", "run"),
    table(
        "trace_sessions",
        """session VARCHAR, run VARCHAR, parent VARCHAR, depth BIGINT, role VARCHAR, started_at TIMESTAMP, task VARCHAR,
        finished_at TIMESTAMP, outcome VARCHAR, forced BOOLEAN, turns BIGINT, calls BIGINT, tokens BIGINT, dollars DOUBLE, error VARCHAR""",
        "session",
    ),
    table(
        "trace_statements",
        """statement VARCHAR, session VARCHAR, sql VARCHAR, started_at TIMESTAMP, finished_at TIMESTAMP, rows BIGINT, calls BIGINT,
        tokens BIGINT, dollars DOUBLE, memo_hits BIGINT, unknown BIGINT, error VARCHAR, explain VARCHAR, duckdb_sql VARCHAR,
        estimate VARCHAR""",
        "statement",
    ),
    table(
        "trace_calls",
        """call VARCHAR, session VARCHAR, statement VARCHAR, site VARCHAR, alias VARCHAR, model VARCHAR, provider VARCHAR, digest VARCHAR,
        batch_size BIGINT, attempts BIGINT, started_at TIMESTAMP, finished_at TIMESTAMP, input_tokens BIGINT, output_tokens BIGINT,
        cache_read_tokens BIGINT, cache_write_tokens BIGINT, dollars DOUBLE, memo_hit BOOLEAN, coalesced BOOLEAN, kind VARCHAR,
        error VARCHAR, prompt VARCHAR, reply VARCHAR, degraded VARCHAR""",
        "call",
    ),
    table(
        "trace_operators",
        """statement VARCHAR, node BIGINT, parent BIGINT, operator VARCHAR, detail VARCHAR, est_rows DOUBLE, rows BIGINT, est_calls DOUBLE,
        calls BIGINT, est_tokens DOUBLE, tokens BIGINT, est_dollars DOUBLE, dollars DOUBLE, memo_hits BIGINT, seconds DOUBLE,
        recorded_at TIMESTAMP""",
    ),
    table(
        "trace_runs_of_statement",
        "statement VARCHAR, run BIGINT, notes BIGINT, answered BIGINT, seconds DOUBLE, recorded_at TIMESTAMP",
    ),
    table(
        "trace_rounds",
        "statement VARCHAR, cte VARCHAR, round BIGINT, delta_rows BIGINT, total_rows BIGINT, recorded_at TIMESTAMP",
    ),
    table(
        "trace_tool_calls",
        "statement VARCHAR, tool VARCHAR, args VARCHAR, bytes_out BIGINT, elapsed_ms DOUBLE, error VARCHAR, recorded_at TIMESTAMP",
    ),
    table(
        "trace_budget",
        "statement VARCHAR, session VARCHAR, dimension VARCHAR, allowed DOUBLE, used DOUBLE, recorded_at TIMESTAMP",
    ),
    table("trace_final", "session VARCHAR, rows VARCHAR, recorded_at TIMESTAMP"),
    table(
        "turns",
        "session VARCHAR, n BIGINT, sql VARCHAR, result VARCHAR, reply VARCHAR, recorded_at TIMESTAMP",
        "session, n",
    ),
)

STATE = (
    table(
        "estimates",
        """template_hash VARCHAR, function VARCHAR, template VARCHAR, sel DOUBLE, branch DOUBLE, output_tokens DOUBLE, n BIGINT,
        updated_at TIMESTAMP""",
        "template_hash",
    ),
    table(
        "calibrations",
        """function VARCHAR, template_hash VARCHAR, proxy VARCHAR, low DOUBLE, high DOUBLE, n BIGINT, sample_precision DOUBLE,
        sample_recall DOUBLE, calibrated_at TIMESTAMP, recall DOUBLE, precision DOUBLE, confidence DOUBLE, rows BIGINT, accepted BIGINT,
        in_band BIGINT, rejected BIGINT, scores DOUBLE[]""",
        "function, template_hash",
    ),
    table(
        "kleene_sessions",
        """session VARCHAR, run VARCHAR, parent VARCHAR, depth BIGINT, role VARCHAR, task VARCHAR, status VARCHAR, outcome VARCHAR,
        turns BIGINT, record VARCHAR, updated_at TIMESTAMP""",
        "session",
    ),
    table(
        "kleene_turns",
        "session VARCHAR, n BIGINT, reply VARCHAR, sql VARCHAR, result VARCHAR, recorded_at TIMESTAMP",
        "session, n",
    ),
    table("kleene_progress", "session VARCHAR, turn BIGINT, statement BIGINT, outcome VARCHAR, recorded_at TIMESTAMP"),
    table("kleene_messages", "sender VARCHAR, receiver VARCHAR, text VARCHAR, recorded_at TIMESTAMP"),
    table("kleene_memory", "key VARCHAR, value VARCHAR, recorded_at TIMESTAMP", "key"),
    table(
        "kleene_functions",
        "name VARCHAR, kind VARCHAR, definition VARCHAR, created_at TIMESTAMP",
        "name, kind",
    ),
)

VERSION_TABLE = "kleene_schema"


@attrs.frozen
class Migration:
    """The statements that bring a store from ``version - 1`` to ``version``. ``in_first``: a new store has what they do from the first."""

    version: int
    statements: tuple[str, ...]
    in_first: bool = False


CALIBRATED = (
    "recall DOUBLE",
    "precision DOUBLE",
    "confidence DOUBLE",
    "rows BIGINT",
    "accepted BIGINT",
    "in_band BIGINT",
)
MIGRATIONS = (
    Migration(1, (MEMO_SCHEMA, *(t.ddl() for t in TRACE + STATE))),
    Migration(2, ("ALTER TABLE trace_calls ADD COLUMN IF NOT EXISTS degraded VARCHAR",), in_first=True),
    Migration(
        3,
        tuple(
            f"ALTER TABLE calibrations ADD COLUMN IF NOT EXISTS {column}"
            for column in (*CALIBRATED, "rejected BIGINT", "scores DOUBLE[]")
        ),
        in_first=True,
    ),
    Migration(
        4,
        tuple(
            f"ALTER TABLE trace_operators ADD COLUMN IF NOT EXISTS {column}"
            for column in ("memo_hits BIGINT", "seconds DOUBLE")
        ),
        in_first=True,
    ),
)
"""In order, without gaps. A later version appends. The first makes the tables as they are now: a step after it whose change is in them says so,
and must do nothing where its change is there already."""
