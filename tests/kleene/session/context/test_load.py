from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from kleene.planner.errors import ConfigError
from kleene.session.context import Feed, Inline, load_context
from kleene.session.context.load import Source
from kleene.session.prefix import TableNote


def read(feed: Feed) -> list[tuple[object, ...]]:
    """The feed's rows as the instance that takes them has them."""
    connection = duckdb.connect()
    connection.register("incoming", feed.reader())
    return connection.execute("SELECT * FROM incoming").fetchall()


def ctx(sources: Sequence[Source]) -> tuple[list[tuple[object, ...]], Feed]:
    (feed,) = load_context(sources)
    return read(feed), feed


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_text_is_one_row_a_paragraph(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.md", "# One\n\nfirst\nline two\n\n\nlast")
    rows, feed = ctx([path])
    assert rows == [(1, "# One"), (2, "first\nline two"), (3, "last")]
    assert feed.name == "ctx"
    assert feed.note() == TableNote("ctx", 3, 5 + 14 + 4, "notes.md")
    assert feed.notes == []


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        pytest.param(b"\xef\xbb\xbfa\n\nb", [(1, "a"), (2, "b")], id="bom"),
        pytest.param(b"a\r\nb\r\n\r\nc\r\n", [(1, "a\nb"), (2, "c")], id="crlf"),
        pytest.param(b"a\r\rb", [(1, "a"), (2, "b")], id="cr"),
        pytest.param("ä\n\nb".encode("utf-16"), [(1, "ä"), (2, "b")], id="utf-16"),
        pytest.param("a\u2028b\x0cc\x85d".encode(), [(1, "a\u2028b\x0cc\x85d")], id="other-line-ends-are-text"),
    ],
)
def test_marks_and_line_ends_are_understood(tmp_path: Path, data: bytes, rows: list[tuple[int, str]]) -> None:
    assert ctx([write(tmp_path / "a.txt", data)])[0] == rows


def test_bytes_that_are_not_utf8_are_replaced_and_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"caf\xe9 \xed\xa0\xbd and \xef\xbf\xbd")
    rows, feed = ctx([path])
    assert rows == [(1, "caf\ufffd \ufffd\ufffd\ufffd and \ufffd")]
    assert feed.notes == ["4 bytes of a.txt are not UTF-8: read as U+FFFD"]


def test_an_empty_text_has_no_rows_and_a_note(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n \n")
    rows, feed = ctx([path])
    assert rows == []
    assert feed.notes == ["ctx is empty: no text in a.txt"]
    assert feed.note() == TableNote("ctx", 0, 0, "a.txt")


def test_a_python_text_with_surrogates_is_joined_or_replaced() -> None:
    assert ctx([Inline("a \ud83d\ude00 b \ud83d")])[0] == [(1, "a \U0001f600 b \ufffd")]


def test_standard_input_is_read_once_and_left_open() -> None:
    stream = io.BufferedReader(io.BytesIO(b"a\n\nb"))  # type: ignore[arg-type]
    (feed,) = load_context(["-"], stdin=stream)
    assert read(feed) == [(1, "a"), (2, "b")]
    assert not stream.closed
    with pytest.raises(ConfigError, match="standard input was read already"):
        feed.reader()


def test_several_texts_have_a_source_column(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.txt", "a\n\nb"), write(tmp_path / "two.txt", "c")
    rows, feed = ctx([one, two])
    assert rows == [(1, "a", "one.txt"), (2, "b", "one.txt"), (3, "c", "two.txt")]
    assert feed.source == "2 texts"


def test_a_model_reads_of_no_folder_that_does_not_tell_files_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(tmp_path / name, "x") for name in ("a/notes.txt", "b/notes.txt", "b/more.txt", "c/d/notes.txt")]
    assert [source for *_, source in ctx(paths)[0]] == ["a/notes.txt", "b/notes.txt", "more.txt", "d/notes.txt"]
    monkeypatch.chdir(tmp_path)
    assert [source for *_, source in ctx(["a/notes.txt", paths[1]])[0]] == ["a/notes.txt", "notes.txt"]
    assert [source for *_, source in ctx([tmp_path / "a", tmp_path / "c"])[0]] == ["a/notes.txt", "c/d/notes.txt"]
    with pytest.raises(ConfigError, match=re.escape(f"cannot read {tmp_path}/a/gone.txt: there is no such file")):
        load_context([tmp_path / "a" / "gone.txt"])  # an error is for whoever gave the path


def test_a_folder_is_read_in_order_and_says_what_is_no_text(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    write(folder / "b.txt", "bee")
    write(folder / "a" / "x.md", "ex")
    write(folder / ".hidden" / "y.txt", "no")
    write(folder / "pic.png", b"\x89PNG\0\0")
    rows, feed = ctx([folder])
    assert rows == [(1, "ex", "a/x.md"), (2, "bee", "b.txt")]
    assert feed.notes == ["1 file of docs is no text and not in ctx: pic.png"]


def test_an_empty_folder_is_an_empty_ctx(tmp_path: Path) -> None:
    rows, feed = ctx([tmp_path])
    assert rows == []
    assert feed.notes == [f"ctx is empty: no text in {tmp_path.name}"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse the name")
def test_a_file_name_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "wb") as file:
        file.write(b"x")
    assert ctx([tmp_path])[0] == [(1, "x", "caf\ufffd.txt")]


def test_a_large_text_passes_in_batches(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n\n".join(f"paragraph {i}" for i in range(5_000)))
    (feed,) = load_context([path])
    sizes = [batch.num_rows for batch in feed.reader()]
    assert sizes == [2_048, 2_048, 904]
    assert feed.rows == 5_000
    assert [batch.num_rows for batch in feed.reader()] == sizes
    assert feed.rows == 5_000


def test_a_long_text_passes_a_million_characters_at_a_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n\n".join("x" * 600_000 for _ in range(4)))
    (feed,) = load_context([path])
    assert [batch.num_rows for batch in feed.reader()] == [2, 2]
    assert feed.characters == 2_400_000


def test_data_files_become_tables_of_their_names(tmp_path: Path) -> None:
    write(tmp_path / "Q3 sales-2024.csv", "id,name\n1,a\n2,\n")
    write(tmp_path / "order.tsv", "id\tx\n1\t2.5\n")
    write(tmp_path / "a.jsonl", '{"a": 1, "b": {"c": [1, 2]}}\n{"a": 2}\n')
    write(tmp_path / "2024.json", json.dumps([{"d": "2024-01-02"}]))
    duckdb.connect().execute(f"COPY (SELECT 1::HUGEINT AS h, uuid() AS u, '{{}}'::JSON AS j) TO '{tmp_path}/p.parquet'")
    names = ["Q3 sales-2024.csv", "order.tsv", "a.jsonl", "2024.json", "p.parquet"]
    feeds = load_context([tmp_path / n for n in names])
    assert [f.name for f in feeds] == ["Q3_sales_2024", "t_order", "a", "t_2024", "p"]
    assert read(feeds[0]) == [(1, "a"), (2, None)]
    assert read(feeds[1]) == [(1, 2.5)]
    assert read(feeds[2]) == [(1, {"c": [1, 2]}), (2, None)]
    assert str(read(feeds[3])[0][0]) == "2024-01-02"
    connection = duckdb.connect()
    connection.register("p", feeds[4].reader())
    assert [row[1] for row in connection.execute("DESCRIBE p").fetchall()][1:] == ["UUID", "JSON"]
    assert feeds[0].note() == TableNote("Q3_sales_2024", 2, None, "Q3 sales-2024.csv")


def test_texts_come_first_and_names_are_taken_once(tmp_path: Path) -> None:
    sources = [
        write(tmp_path / "ctx.csv", "a\n1\n"),
        write(tmp_path / "x" / "A.csv", "a\n1\n"),
        write(tmp_path / "a.csv", "a\n2\n"),
    ]
    feeds = load_context([*sources, Inline("text")], taken=["plan"])
    assert [f.name for f in feeds] == ["ctx", "ctx_2", "A", "a_2"]
    (plan,) = load_context([write(tmp_path / "plan.csv", "a\n1\n")], taken=["PLAN"])
    assert plan.name == "plan_2"


def test_a_path_with_pattern_characters_is_that_file_only(tmp_path: Path) -> None:
    write(tmp_path / "a1.csv", "x\n1\n")
    (feed,) = load_context([write(tmp_path / "a[1]*'.csv", "x\n7\n")])
    assert read(feed) == [(7,)]


def test_a_late_row_does_not_contradict_the_types(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x\n" + "1\n" * 30_000 + "word\n")
    (feed,) = load_context([path])
    assert read(feed)[-1] == ("word",)


def test_a_csv_that_is_not_utf8_is_read_as_latin1_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"id,name\n1,caf\xe9\n")
    (feed,) = load_context([path])
    assert read(feed) == [(1, "café")]
    assert feed.notes == ["a.csv is not UTF-8: read as Latin-1"]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("name\nAnn\nBob\n", []),
        ("text\nno mark here\n", []),
        ("a,b\n1,2\n3,4\n", []),
        ('id;text\n1;"a;b\n2;c\n3;d\n', ["a.csv was read as one column, its separator could not be told: string_split(\"id;text\", ';') takes it apart"]),
        ("Report\nid|v\n1|2\n3\n", ["a.csv was read as one column, its separator could not be told: string_split(Report, '|') takes it apart"]),
        ("Report of 2024\n\nid;v\n1;2\n3;4\n", ["the first 2 lines of a.csv are not in the table: the columns differ from those of the lines that follow"]),
        ("date,text\n2024,hello, world\n2025,a, b, c\n", ["the first 2 lines of a.csv are not in the table: the columns differ from those of the lines that follow"]),
    ],
    ids=["one-column", "one-column-of-text", "two-columns", "ragged", "title", "title-left-out", "commas-in-text"],
)  # fmt: skip
def test_a_csv_that_duckdb_guesses_at_says_so(tmp_path: Path, text: str, notes: list[str]) -> None:
    path = write(tmp_path / "a.csv", text)
    (feed,) = load_context([path])
    read(feed)
    assert feed.notes == notes


def test_a_duckdb_file_gives_its_tables_and_views(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 1 AS a; CREATE SCHEMA s; CREATE TABLE s.u AS SELECT 2 AS b; CREATE VIEW v AS SELECT a + 2 AS c FROM t"
        )
    feeds = load_context([path])
    assert [(f.name, read(f)) for f in feeds] == [("t", [(1,)]), ("v", [(3,)]), ("s_u", [(2,)])]


def test_a_duckdb_file_that_is_open_says_so(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a; CHECKPOINT")
        with pytest.raises(ConfigError, match=r"cannot read .*shop.duckdb as a DuckDB database") as caught:
            load_context([path])
    assert caught.value.hint == "it is open elsewhere: close it there, or hand over its tables by name"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.zip", b"PK\x03\x04", "{path} is a zip archive or office file, not a text"),
        ("a.db", b"SQLite format 3\0", "{path} is an SQLite database, not a text"),
        ("a.bin", b"ab\0c", "{path} is a binary file, not a text"),
        ("a.parquet", b"no", "cannot read {path} as Parquet: "),
        ("a.json", b'{"a": ', "cannot read {path} as JSON: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = write(tmp_path / name, data)
    with pytest.raises(ConfigError) as caught:
        load_context([path])
    assert caught.value.message.startswith(message.format(path=path))
    assert "readable are texts" in (caught.value.hint or "")


def test_a_missing_file_is_named_with_its_nearest(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "x")
    with pytest.raises(ConfigError) as caught:
        load_context([tmp_path / "note.txt"])
    assert caught.value.message == f"cannot read {tmp_path}/note.txt: there is no such file"
    assert caught.value.hint == f"did you mean {tmp_path}/notes.txt?"


def test_a_file_that_breaks_off_keeps_its_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a": 1}\n')
    (feed,) = load_context([path])
    write(path, '{"a": 1}\n{"a"\n')
    with pytest.raises(duckdb.Error):
        read(feed)
    assert feed.failure is not None
    assert feed.failure.message.startswith(f"cannot read {path} as JSON lines: ")


def test_a_text_that_vanishes_keeps_its_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "x")
    (feed,) = load_context([path])
    path.unlink()
    with pytest.raises(duckdb.Error):
        read(feed)
    assert feed.failure is not None
    assert feed.failure.message == f"cannot read {path}: No such file or directory"


def test_no_source_makes_no_table() -> None:
    assert load_context([]) == ()
