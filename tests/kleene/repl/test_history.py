from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kleene.repl.history import MOST, KeptHistory, read_entries
from kleene.repl.secrets import holds_secret


def kept(path: Path) -> list[str]:
    return list(KeptHistory(path).load_history_strings())


def test_what_was_typed_is_there_after_another_start(tmp_path: Path) -> None:
    path = tmp_path / "kleene" / "history"
    history = KeptHistory(path)
    for text in ("SELECT 1;", "SELECT\n  'é日',\n\n  2;", "# no comment;"):
        history.append_string(text)
    assert kept(path) == ["# no comment;", "SELECT\n  'é日',\n\n  2;", "SELECT 1;"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.touch(0o644)
    KeptHistory(path).store_string("SELECT 1;")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "CREATE SECRET s (TYPE s3, KEY_ID 'AKIA', SECRET 'x');",
        "create or replace persistent secret (type gcs);",
        "SET s3_secret_access_key = 'abc';",
        "ATTACH 'postgres://me:hunter2@db.example/shop' AS shop;",
        "ATTACH 'host=db password=hunter2 user=me' AS shop (TYPE postgres);",
        "SELECT * FROM http_get('https://x', headers := {'Authorization': 'Bearer abcdefghijklmnop1234'});",
        "SELECT 'sk-proj-" + "a1B2" * 6 + "';",
        "PRAGMA add_parquet_key('k', '0123456789112345');",
        "CREATE USER me PASSWORD 'x';",
        "SELECT f(api_key := 'abc');",
        '{"token": "abc"}',
        "ATTACH 'x.duckdb' (ENCRYPTION_KEY 'quack');",
        "SELECT '-----BEGIN RSA PRIVATE KEY-----';",
    ],
)
def test_a_secret_is_remembered_until_the_end_only(text: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = KeptHistory(path)
    history.append_string(text)
    assert history.get_strings() == [text]
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT tokens, token_count FROM trace_calls WHERE tokens > 100;",
        "SELECT * FROM orders o JOIN customers c ON o.customer_key = c.customer_key WHERE c.key = 3;",
        "SET max_tokens = 200;",
        "SELECT llm('Is this about passwords? ' || body) FROM mails;",
        "SELECT * FROM 'https://example.org/a:b@c.csv';",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, secretary TEXT);",
    ],
)
def test_ordinary_statements_hold_no_secret(text: str) -> None:
    assert not holds_secret(text)


def test_what_begins_with_a_blank_is_not_kept(tmp_path: Path) -> None:
    KeptHistory(tmp_path / "h").append_string(" SELECT 1;")
    assert not (tmp_path / "h").exists()


def test_a_file_that_is_no_history_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b"\xff\xfe rubbish\n+SELECT 1;\n\n# x\n+SELECT \xff;\n")
    assert kept(path) == ["SELECT �;", "SELECT 1;"]


def test_an_unwritable_place_is_said_and_the_prompt_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = KeptHistory(tmp_path / "file" / "history")
    history.append_string("SELECT 1;")
    assert history.get_strings() == ["SELECT 1;"]
    assert history.problem is not None and history.problem.startswith("the history is not kept: ")


def test_a_long_history_loses_its_oldest_part(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"\n# t\n+SELECT {i};\n" for i in range(2 * MOST + 1)))
    assert len(kept(path)) == MOST
    entries = read_entries(path.read_text())
    assert (len(entries), entries[-1]) == (MOST, f"SELECT {2 * MOST};")
    assert os.listdir(tmp_path) == ["history"]
