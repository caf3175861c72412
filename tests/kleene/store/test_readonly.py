"""kleene.store.readonly: what a second process sees."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from kleene.planner.errors import ConfigError
from kleene.store import Store, TraceWriter, open_readonly
from tests.kleene.store.events import ONE_OF_EACH, ROWS
from tests.kleene.store.processes import Other, holding


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that has a trace, closed."""
    path = tmp_path / "it's" / "run.duckdb"
    with Store.open(path) as store, TraceWriter(store) as writer:
        for event in ONE_OF_EACH:
            writer(event)
    return path


def read(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    return {sql: con.execute(sql).fetchall() for sql in ROWS}


def test_a_free_store_is_read_from_its_file(path: Path) -> None:
    told: list[str] = []
    with open_readonly(path, say=told.append) as con:
        assert read(con) == ROWS
        assert con.execute("SELECT count(*) FROM memo").fetchall() == [(0,)]
    assert told == []


@pytest.mark.parametrize(
    "sql", ["DELETE FROM trace_runs", "CREATE TABLE t (a INT)", "SELECT * FROM read_text('/etc/hostname')"]
)
def test_a_reader_changes_nothing_and_reaches_no_files(path: Path, sql: str) -> None:
    with open_readonly(path) as con:
        with pytest.raises(duckdb.Error):
            con.execute(sql)


def test_a_store_that_is_held_is_read_from_its_event_file(path: Path) -> None:
    told: list[str] = []
    with holding(path) as other:
        assert other.ready() == "held"
        with open_readonly(path, say=told.append) as con:
            assert read(con) == ROWS
        pid = other.pid
    assert told == [
        f"the store is in use by process {pid}: the trace is read from run.events.jsonl, which may not go back to its beginning"
    ]


def test_a_store_that_is_held_and_has_no_event_file_is_empty(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "run.duckdb"
    with Store.open(path), open_readonly(path, say=told.append) as con:
        assert con.execute("SELECT count(*) FROM trace_runs").fetchall() == [(0,)]
    assert told == ["the store is in use by another connection and has no event file yet: the trace is empty"]


def test_a_reader_does_not_keep_a_writer_out_after_it_closed(path: Path) -> None:
    open_readonly(path).close()
    with Store.open(path) as store:
        store.cursor().execute("CREATE TABLE written AS SELECT 1 AS a")
    with open_readonly(path) as con:
        assert con.execute("FROM written").fetchall() == [(1,)]


def test_a_store_whose_writer_was_killed_is_read_with_its_log(path: Path) -> None:
    code = f"""
from kleene.store import Store, TraceWriter
from kleene.udfs.events import RunStarted
writer = TraceWriter(Store.open({str(path)!r}))
writer(RunStarted(at=1.0, run="second", task="t"))
writer.flush()
print("written", flush=True)
input()
"""
    with Other(code) as other:
        assert other.ready() == "written"
        other.kill()
    with open_readonly(path) as con:
        assert con.execute("SELECT run FROM trace_runs ORDER BY run").fetchall() == [("r",), ("second",)]


def test_a_store_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        open_readonly(tmp_path / "run.duckdb")
    assert str(caught.value) == f"there is no store at {tmp_path / 'run.duckdb'}"
    assert caught.value.hint == "it is made by the first run; --store names another place"


@pytest.mark.parametrize(
    ("folder", "told", "hint"),
    [
        (".kleene", "the store {} is corrupt: ", "open it for writing once: it is then set aside"),
        ("mine", "{} is not a DuckDB database", "it was left as it is; use another store with --store PATH"),
    ],
)
def test_a_corrupt_store_is_reported_and_not_touched_by_a_reader(
    tmp_path: Path, folder: str, told: str, hint: str
) -> None:
    path = tmp_path / folder / "run.duckdb"
    path.parent.mkdir()
    path.write_bytes(b"junk" * 5000)
    with pytest.raises(ConfigError) as caught:
        open_readonly(path)
    assert told.format(path) in str(caught.value)
    assert caught.value.hint == hint
    assert path.exists()
