"""kleene.store.store: opening, locking, migrating, and what cannot be opened."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import attrs
import duckdb
import pyarrow as pa
import pytest

from kleene.planner.errors import ConfigError, StoreLocked
from kleene.store import Store, TraceWriter
from kleene.store.opening import explain
from kleene.store.schema import MIGRATIONS, STATE, TRACE, Migration
from kleene.store.state import CalibrationRecord, State
from kleene.udfs.events import RunStarted
from kleene.udfs.memo import MEMO_SCHEMA, MemoEntry
from tests.kleene.store.processes import Other, holding

LAST = MIGRATIONS[-1].version
NEXT = LAST + 1


def mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".kleene" / "run.duckdb"


def entry(prompt: str) -> MemoEntry:
    return MemoEntry("r", "s", prompt, "yes")


def test_a_new_store_is_private(path: Path) -> None:
    with Store.open(path) as store:
        store.memo().commit([entry("p")])
    assert mode(path.parent) == 0o700
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert {p.name: mode(p) for p in path.parent.iterdir()} == {"run.duckdb": 0o600, ".gitignore": 0o600}


def test_the_log_of_an_open_store_is_private(path: Path) -> None:
    with Store.open(path):
        assert mode(path.with_name("run.duckdb.wal")) == 0o600


def test_a_folder_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    Store.open(tmp_path / "run.duckdb").close()
    assert mode(tmp_path) == 0o755
    assert [p.name for p in tmp_path.iterdir()] == ["run.duckdb"]


def test_all_tables_are_there_and_stay_there(path: Path) -> None:
    tables = {t.name for t in TRACE + STATE} | {"memo", "kleene_schema"}
    for where in (path, path, ":memory:"):
        expected = tables if where == ":memory:" else {*tables, "kleene_origin"}
        with Store.open(where) as store, store.cursor() as cursor:
            assert {row[0] for row in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()} == expected


def test_what_was_remembered_is_there_the_next_time(path: Path) -> None:
    with Store.open(path) as store:
        store.memo().commit([entry("p")])
    with Store.open(str(path)) as store:
        assert 0 in store.memo().lookup("r", "s", ["p"])


@pytest.mark.parametrize("where", ["file", "memory"])
def test_the_instance_is_locked(path: Path, where: str) -> None:
    local_frame = pa.table({"a": [1]})
    with Store.open(path if where == "file" else ":memory:") as store, store.cursor() as cursor:
        for sql in (
            "SELECT * FROM read_text('/etc/hostname')",
            "COPY memo TO '/tmp/kleene-test.csv'",
            "ATTACH '/tmp/kleene-test.duckdb'",
            "SET enable_external_access = true",
            "SET memory_limit = '1GB'",
            "SELECT * FROM local_frame",
            "INSTALL httpfs",
        ):
            with pytest.raises(duckdb.Error):
                cursor.execute(sql)
    del local_frame


def test_a_locked_instance_spills_to_disk(path: Path) -> None:
    with Store.open(path) as store, store.cursor() as cursor:
        row = cursor.execute("SELECT current_setting('temp_directory')").fetchone()
    assert row == (f"{path}.tmp",)


def test_engines_of_one_process_share_an_instance(path: Path) -> None:
    with Store.open(path) as first, Store.open(path) as second:
        first.memo().commit([entry("p")])
        assert 0 in second.memo().lookup("r", "s", ["p"])
        first.close()
        first.close()
        assert first.closed
        assert 0 in second.memo().lookup("r", "s", ["p"])


def test_a_closed_store_lets_go_of_its_file_though_its_memo_is_still_held(path: Path) -> None:
    store = Store.open(path)
    memo = store.memo()
    store.close()
    with duckdb.connect(str(path), config={"threads": 1}) as con:
        assert con.execute("SELECT count(*) FROM memo").fetchall() == [(0,)]
    memo.close()


def test_two_stores_in_memory_are_two(path: Path) -> None:
    with Store.open() as first, Store.open() as second:
        first.memo().commit([entry("p")])
        assert not second.memo().lookup("r", "s", ["p"])


def test_many_threads_may_open_a_new_store_at_once(path: Path) -> None:
    stores: list[Store] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            stores.append(Store.open(path))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for store in stores:
        store.close()


def test_a_store_that_another_process_holds_names_it_and_can_be_waited_for(path: Path) -> None:
    with holding(path) as other:
        assert other.ready() == "held"
        with pytest.raises(StoreLocked) as caught:
            Store.open(path)
        assert caught.value.pid == other.pid
        assert str(caught.value).startswith(f"the store {path} is in use by process {other.pid} (python")
        assert caught.value.hint == (
            "wait for it with --lock-wait SECONDS, or use another store with --store PATH; trace and runs work meanwhile"
        )
        start = time.monotonic()
        with pytest.raises(StoreLocked):
            Store.open(path, lock_wait_s=0.3)
        assert time.monotonic() - start >= 0.3
        threading.Timer(0.2, other.go_on).start()
        Store.open(path, lock_wait_s=20).close()
        assert other.ready() == "gone"


def test_what_was_committed_survives_a_kill_in_the_middle_of_commits(path: Path) -> None:
    code = f"""
from kleene.store import Store, TraceWriter
from kleene.udfs.events import RunStarted
from kleene.udfs.memo import MemoEntry
memo = Store.open({str(path)!r}).memo()
n = 0
while True:
    memo.commit([MemoEntry("r", "s", f"{{n}}/{{i}}", "x" * 2000) for i in range(20)])
    print(n, flush=True)
    n += 1
"""
    with Other(code) as other:
        for _ in range(5):
            last = other.ready()
        other.kill()
        rest = other.process.stdout.read().split() if other.process.stdout else []
        last = rest[-1] if rest else last
    with Store.open(path) as store:
        memo = store.memo()
        told = [f"{n}/{i}" for n in range(int(last) + 1) for i in range(20)]
        assert len(memo.lookup("r", "s", told)) == len(told)
        assert memo.stats().entries % 20 == 0, "a commit is there in whole or not at all"


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_a_full_disk_is_an_error_of_the_commit_and_costs_nothing_that_was_committed(path: Path) -> None:
    code = f"""
import resource, signal
import duckdb
from kleene.store import Store, TraceWriter
from kleene.udfs.events import RunStarted
from kleene.udfs.memo import MemoEntry, MemoWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = MemoWriter(Store.open({str(path)!r}).memo())
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
n = 0
try:
    for n in range(1000):
        writer.commit([MemoEntry("r", "s", f"{{n}}/{{i}}", f"{{n * 7919 + i}}" * 2000) for i in range(20)])
except duckdb.Error as error:
    print(n, flush=True)
    input()
"""
    with Other(code) as other:
        failed = int(other.ready())
        other.kill()
    assert failed > 0
    with Store.open(path) as store:
        told = [f"{n}/{i}" for n in range(failed) for i in range(20)]
        assert len(store.memo().lookup("r", "s", told)) == len(told)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"hello" * 5000, b"\0" * 20000], ids=["empty", "short", "text", "zeros"]
)
def test_a_corrupt_store_is_set_aside_and_the_next_is_new(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    for name in ("run.duckdb.corrupt", "run.duckdb.corrupt.2"):
        path.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            Store.open(path)
        assert f"the store {path} is corrupt and was set aside as {name}: " in str(caught.value)
        assert caught.value.hint == "run the command again: it begins with an empty store"
        assert path.with_name(name).read_bytes() == content
    Store.open(path).close()


def test_a_store_with_a_damaged_block_is_set_aside(path: Path) -> None:
    with Store.open(path) as store, store.cursor() as cursor:
        store.memo().commit([entry(str(i)) for i in range(1000)])
        cursor.execute("CHECKPOINT")
    data = bytearray(path.read_bytes())
    for at in range(12288, len(data), 64):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"is corrupt and was set aside as run\.duckdb\.corrupt"):
        with Store.open(path) as store:
            store.memo().stats()
    Store.open(path).close()


def test_a_file_that_was_never_a_store_is_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(ConfigError) as caught:
        Store.open(notes)
    assert str(caught.value) == f"{notes} is not a DuckDB database"
    assert caught.value.hint == "it was left as it is; use another store with --store PATH"
    assert notes.read_text() == "mine"


@pytest.mark.parametrize("name", ["shop.db", "shop.duckdb"])
def test_a_broken_database_of_the_user_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE mails AS SELECT i FROM range(100000) t(i)")
    data = bytearray(path.read_bytes())
    data[4096:12288] = bytes(8192)  # both of its headers
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=f"the store {path} is corrupt: ") as caught:
        Store.open(path)
    assert caught.value.hint == "it was left as it is; move it away, or use another store with --store PATH"
    assert path.read_bytes() == data


def test_a_broken_store_elsewhere_is_known_by_the_events_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.duckdb"
    with Store.open(path) as store, TraceWriter(store) as writer:
        writer(RunStarted(at=1.0, run="r", task="t"))
    path.write_bytes(b"junk" * 5000)
    with pytest.raises(ConfigError, match=r"is corrupt and was set aside as mine\.duckdb\.corrupt"):
        Store.open(path)


def test_the_name_of_a_folder_does_not_make_a_store_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "corrupt checksum INTERNAL" / "run.duckdb"
    with pytest.raises(ConfigError, match=r"cannot be opened: IO Error: no space, run\.duckdb") as caught:
        raise explain(path, f"IO Error: no space, {path}\nmore")
    assert caught.value.hint == "use another store with --store PATH"


def test_a_database_of_the_user_does_not_become_a_store(tmp_path: Path) -> None:
    shop = tmp_path / "shop.duckdb"
    with duckdb.connect(str(shop)) as con:
        con.execute("CREATE TABLE mails (id INT)")
    with pytest.raises(ConfigError) as caught:
        Store.open(shop)
    assert str(caught.value) == f"{shop} is a database that is not a store of kleene (it holds mails)"
    with duckdb.connect(str(shop)) as con:
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("mails",)]


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        Store.open(tmp_path)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        Store.open(tmp_path / "file" / "below" / "run.duckdb")
    assert caught.value.hint == "choose another place with --store PATH"


def test_a_store_named_main_works(tmp_path: Path) -> None:
    with Store.open(tmp_path / "main.duckdb") as store:
        store.memo().commit([entry("p")])
        assert store.memo().stats().entries == 1


def test_an_older_store_is_copied_and_brought_forward(path: Path) -> None:
    with Store.open(path) as store:
        store.memo().commit([entry("p")])
        assert store.notes == ()
    later = (
        *MIGRATIONS,
        Migration(NEXT, ("ALTER TABLE trace_runs ADD COLUMN mood VARCHAR", "CREATE TABLE added (a INT)")),
    )
    with Store.open(path, migrations=later) as store, store.cursor() as cursor:
        assert store.notes == (
            f"the store was brought from version {LAST} to {NEXT}; run.duckdb.v{LAST} is a copy of the old one",
        )
        assert cursor.execute("SELECT mood FROM trace_runs").fetchall() == []
        assert 0 in store.memo().lookup("r", "s", ["p"])
    with duckdb.connect(str(path.with_name(f"run.duckdb.v{LAST}"))) as copy:
        assert copy.execute("SELECT count(*) FROM memo").fetchall() == [(1,)]
    assert mode(path.with_name(f"run.duckdb.v{LAST}")) == 0o600


def test_a_store_of_version_1_gets_the_column_of_degraded_calls(path: Path) -> None:
    trace_calls = next(t for t in TRACE if t.name == "trace_calls")
    then = attrs.evolve(trace_calls, columns=tuple(c for c in trace_calls.columns if c[0] != "degraded"))
    first = [t for t in TRACE + STATE if t is not trace_calls]
    Store.open(path, migrations=(Migration(1, (MEMO_SCHEMA, *(t.ddl() for t in (*first, then)))),)).close()
    with Store.open(path) as store, store.cursor() as cursor:
        assert store.notes[0].startswith("the store was brought from version 1 to ")
        assert cursor.execute("SELECT degraded FROM trace_calls").fetchall() == []


def test_a_store_from_before_calibrations_had_goals_takes_them(path: Path) -> None:
    record = CalibrationRecord(
        function="f", template_hash="h", proxy="g", low=None, high=0.8, n=5, recall=0.9, scores=[0.1, None]
    )
    Store.open(path, migrations=MIGRATIONS[:1]).close()
    with duckdb.connect(str(path)) as old:
        for column in ("recall", "precision", "confidence", "rows", "accepted", "in_band", "rejected", "scores"):
            old.execute(f"ALTER TABLE calibrations DROP COLUMN {column}")
    with Store.open(path) as store, closing(State(store)) as state:
        state.save(record)
        found = state.get(CalibrationRecord, function="f", template_hash="h")
        assert found is not None and attrs.evolve(found, calibrated_at=None) == record


def test_a_migration_that_fails_leaves_the_old_store(path: Path) -> None:
    Store.open(path).close()
    broken = (*MIGRATIONS, Migration(NEXT, ("CREATE TABLE added (a INT)", "SELECT no_such_column FROM memo")))
    with pytest.raises(ConfigError, match="cannot be opened"):
        Store.open(path, migrations=broken)
    with Store.open(path) as store, store.cursor() as cursor:
        assert cursor.execute("SELECT max(version) FROM kleene_schema").fetchall() == [(LAST,)]
        assert cursor.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'added'").fetchall() == [(0,)]


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    later = (*MIGRATIONS, Migration(NEXT, ()))
    Store.open(path, migrations=later).close()
    with pytest.raises(ConfigError) as caught:
        Store.open(path)
    assert str(caught.value) == f"the store {path} has version {NEXT}, this kleene knows {LAST}"
    assert caught.value.hint == "upgrade kleene, or use another store with --store PATH"


def test_a_connection_with_other_settings_is_named(path: Path) -> None:
    path.parent.mkdir()
    with duckdb.connect(str(path), config={"threads": 1}):
        with pytest.raises(ConfigError, match="is open in this process as a database of its own"):
            Store.open(path)


def test_a_relative_path_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(".kleene/run.duckdb") as store:
        assert store.path == tmp_path / ".kleene" / "run.duckdb"
