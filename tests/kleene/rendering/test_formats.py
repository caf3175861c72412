from __future__ import annotations

import io
import json

import duckdb
import pytest

from kleene.cli.options import FORMATS
from kleene.rendering.formats import write_rows
from tests.kleene.cli.doubles import answer, said

ROWS = """
SELECT * FROM (VALUES
    (1, 'plain', 1.50, [1, 2]),
    (2, NULL, NULL, NULL),
    (3, '', 0.00, []),
    (4, 'a,"b"' || chr(10) || 'c|d', 10.25, [3])
) AS t(id, note, price, list)"""


def written(sql: str, format_: str) -> str:
    out = io.StringIO()
    write_rows(answer(sql), format_, out)
    return out.getvalue()


def test_json_lines_are_one_object_a_row() -> None:
    assert written(ROWS, "jsonl") == (
        '{"id":1,"note":"plain","price":1.50,"list":[1,2]}\n'
        '{"id":2,"note":null,"price":null,"list":null}\n'
        '{"id":3,"note":"","price":0.00,"list":[]}\n'
        '{"id":4,"note":"a,\\"b\\"\\nc|d","price":10.25,"list":[3]}\n'
    )


def test_json_is_one_array() -> None:
    text = written(ROWS, "json")
    assert [row["id"] for row in json.loads(text)] == [1, 2, 3, 4]
    assert text.startswith('[\n{"id":1,') and text.endswith("}\n]\n")


def test_json_of_no_rows_is_an_empty_array() -> None:
    assert written("SELECT 1 AS a WHERE false", "json") == "[]\n"


def test_csv_tells_null_from_an_empty_string() -> None:
    assert written(ROWS, "csv") == (
        'id,note,price,list\n1,plain,1.50,"[1, 2]"\n2,,,\n3,"",0.00,[]\n4,"a,""b""\nc|d",10.25,[3]\n'
    )


def test_duckdb_reads_csv_back_as_it_was(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text(written(ROWS, "csv"), encoding="utf-8", newline="")
    with duckdb.connect() as con:
        back = con.execute(
            f"SELECT id, note, price FROM read_csv('{tmp_path}/rows.csv', nullstr='', allow_quoted_nulls=false)"
        )
        assert [row[1] for row in back.fetchall()] == ["plain", None, "", 'a,"b"\nc|d']


def test_markdown_escapes_what_would_break_the_table() -> None:
    assert written(ROWS, "markdown") == (
        "| id | note | price | list |\n"
        "| ---: | --- | ---: | --- |\n"
        "| 1 | plain | 1.50 | [1, 2] |\n"
        "| 2 | NULL | NULL | NULL |\n"
        "| 3 |  | 0.00 | [] |\n"
        '| 4 | a,"b"<br>c\\|d | 10.25 | [3] |\n'
    )


def test_equal_column_names_become_different_keys() -> None:
    assert written("SELECT 1 AS a, 2 AS a", "jsonl") == '{"a":1,"a_1":2}\n'


@pytest.mark.parametrize("format_", FORMATS)
def test_a_relation_without_columns_writes_nothing(format_: str) -> None:
    out = io.StringIO()
    write_rows(said("done"), format_, out)
    assert out.getvalue() == ""


class ClosedPipe(io.StringIO):
    """Takes one write and then is closed, as ``head`` does it."""

    def write(self, text: str) -> int:
        if self.tell():
            raise BrokenPipeError
        return super().write(text)


@pytest.mark.parametrize("format_", ["jsonl", "csv", "json", "markdown"])
def test_rows_are_written_as_they_are_read(format_: str) -> None:
    out = ClosedPipe()
    with pytest.raises(BrokenPipeError):
        write_rows(answer("SELECT i FROM range(100000) AS t(i)"), format_, out)
    assert out.getvalue().count("\n") < 5000
