"""What a child's end gives its parent: rows as a JSON array of objects, and what a child's FINAL must be to be taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb

from kleene.planner.specs import Param
from kleene.session.feedback import CheckResult
from kleene.session.final import jsonable
from kleene.session.text import count
from kleene.session.values import plain

if TYPE_CHECKING:
    from kleene.connection import Connection
    from kleene.result import Result
    from kleene.session.world import Outcome
    from kleene.udfs.events import SessionFinished

MOST_ROWS = 10_000
MOST_CHARACTERS = 4_000_000


def rows_json(
    ended: SessionFinished,
    final: Result | None,
    session: str,
    columns: tuple[Param, ...],
    connection: Connection,
    *,
    named: bool,
) -> str:
    """The rows of a call: those of FINAL, or one that says how the child ended without it. ``named``: with the child's session."""
    name = session if named else None
    if final is None:
        return json.dumps([_row(None, _how(ended, session), name, columns, {})], ensure_ascii=False)
    typed = _typed(final, columns, connection) if columns else [{}] * len(final)
    rows = []
    for values, given in zip(final.rows, typed, strict=True):
        detail = {name: jsonable(v) for name, v in zip(final.columns, values, strict=True)}
        if ended.forced:
            detail = {**detail, "forced": True, "outcome": ended.outcome}
        answer = None if not values or values[0] is None else _text(values[0])
        rows.append(_row(answer, detail, name, columns, given))
    return json.dumps(rows, ensure_ascii=False, allow_nan=False)


def unasked_rows(columns: tuple[Param, ...], *, named: bool) -> str:
    """The row of a call whose context holds nothing: no child was started for it."""
    detail = {"outcome": "not asked", "error": "its context is empty"}
    row = _row(None, detail, None, columns, {})
    return json.dumps([{**row, "session": None} if named else row])


def check_final(
    answer: Outcome, final: Result | None, columns: tuple[Param, ...], connection: Connection
) -> CheckResult:
    """Whether a child's FINAL can be handed to its parent; if not, what it must be."""
    if answer.row_count > MOST_ROWS:
        return CheckResult(
            False,
            f"it has {count(answer.row_count, 'row')}; at most {MOST_ROWS:,} go to the session that asked: aggregate them",
        )
    if final is None:
        return CheckResult(True)
    size = sum(len(v) for row in final.rows for v in row if isinstance(v, str))
    if size > MOST_CHARACTERS:
        return CheckResult(
            False, f"it has {size:,} characters; at most {MOST_CHARACTERS:,} go to the session that asked"
        )
    if not columns:
        return CheckResult(True)
    try:
        _typed(final, columns, connection)
    except (duckdb.Error, ValueError) as error:
        found = ", ".join(f"{n} {t}" for n, t in zip(answer.columns, answer.types, strict=True))
        return CheckResult(
            False, f"its columns must be {declared(columns)}; they are {found}\n{str(error).splitlines()[0]}"
        )
    return CheckResult(True)


def declared(columns: tuple[Param, ...]) -> str:
    """``verdict BOOLEAN, evidence VARCHAR``."""
    return ", ".join(f"{c.name} {c.type}" for c in columns)


def _typed(final: Result, columns: tuple[Param, ...], connection: Connection) -> list[dict[str, Any]]:
    """The rows with exactly these columns, by name in any order (or, where none has a name of theirs, by position), each cast to its type.

    Raises ``ValueError`` where a column is missing and DuckDB's error where a value cannot be cast.
    """
    at = {name.casefold(): i for i, name in enumerate(final.columns)}
    wanted = [c.name.casefold() for c in columns]
    if not any(w in at for w in wanted) and len(final.columns) == len(columns):
        places = list(range(len(columns)))
    else:
        missing = [c.name for c in columns if c.name.casefold() not in at]
        if missing:
            raise ValueError(f"it has no column {missing[0]}")
        places = [at[w] for w in wanted]
    given = [{c.name: jsonable(row[i]) for c, i in zip(columns, places, strict=True)} for row in final.rows]
    fields = ", ".join('"' + c.name.replace('"', '""') + f'" {c.type}' for c in columns)
    connection.con.execute(f"SELECT CAST($1::JSON AS STRUCT({fields})[])", [json.dumps(given)]).fetchall()
    return given


def _row(
    answer: str | None, detail: dict[str, Any], session: str | None, columns: tuple[Param, ...], given: dict[str, Any]
) -> dict[str, Any]:
    row: dict[str, Any] = {c.name: given.get(c.name) for c in columns} if columns else {"answer": answer}
    row["detail"] = detail
    return row if session is None else {**row, "session": session}


def _how(ended: SessionFinished, session: str) -> dict[str, Any]:
    return {
        "outcome": ended.outcome,
        "error": ended.error,
        "turns": ended.turns,
        "calls": ended.calls,
        "tokens": ended.tokens,
        "dollars": ended.dollars,
        "session": session,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else plain(value)
