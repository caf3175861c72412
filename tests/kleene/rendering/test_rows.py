from __future__ import annotations

import json

import pytest

from kleene.rendering.formats import csv_field
from kleene.rendering.rows import PLAIN, as_text, csv_batches, json_batches, plainly, printed, text_of, unique
from tests.kleene.cli.doubles import answer

BITS = {
    "TINYINT": 7,
    "SMALLINT": 15,
    "INTEGER": 31,
    "BIGINT": 63,
    "UTINYINT": 8,
    "USMALLINT": 16,
    "UINTEGER": 32,
    "UBIGINT": 64,
}
TEXTS = [
    ("170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727"),
    ("1.50::DECIMAL(9,2)", "1.50"),
    ("INTERVAL '1 month 3 days'", "1 month 3 days"),
    ("'infinity'::DATE", "infinity"),
    ("'-infinity'::TIMESTAMP", "-infinity"),
    ("TIMESTAMP_NS '2020-01-01 00:00:00.123456789'", "2020-01-01 00:00:00.123456789"),
    ("DATE '0044-03-15 (BC)'", "0044-03-15 (BC)"),
    (r"'\xAB\x00c'::BLOB", r"\xAB\x00c"),
    ("[1, NULL]", "[1, NULL]"),
    ("{a: 1, b: 'x'}", "{'a': 1, 'b': x}"),
    ("MAP {'k': 1}", "{k=1}"),
    ("row(1, 'a')", "(1, a)"),
    ("'happy'::ENUM('happy', 'sad')", "happy"),
    ("'[1.50]'::JSON", "[1.50]"),
    ("union_value(x := 3)", "3"),
    ("'nan'::DOUBLE", "nan"),
    ("true", "true"),
    ("NULL", None),
    ("''", ""),
]


@pytest.mark.parametrize(("expr", "text"), TEXTS, ids=[e for e, _ in TEXTS])
def test_a_value_is_printed_as_duckdb_casts_it(expr: str, text: str | None) -> None:
    assert list(as_text(answer(f"SELECT {expr}"))) == [[(text,)]]


JSONS = [
    ("18446744073709551615::UBIGINT", "18446744073709551615"),
    ("1.50::DECIMAL(9,2)", "1.50"),
    ("0.1::FLOAT", "0.1"),
    ("1e300::DOUBLE", "1e+300"),
    ("'nan'::DOUBLE", '"NaN"'),
    ("'-inf'::DOUBLE", '"-Infinity"'),
    ("['nan'::DOUBLE, 1.5]", '["NaN",1.5]'),
    ("{a: 'NaN', b: 'inf'::DOUBLE}", '{"a":"NaN","b":"Infinity"}'),
    ("'{\"a\":' || chr(10) || '1.50}'", '"{\\"a\\":\\n1.50}"'),
    ("('{\"a\":' || chr(10) || '1.50}')::JSON", '{"a": 1.50}'),
    ("{j: '{\"a\":1}'::JSON}", '{"j":{"a":1}}'),
    ("INTERVAL '1 month'", '"1 month"'),
    ("'é' || chr(0)", '"é\\u0000"'),
    ("[]::INTEGER[]", "[]"),
    ("false", "false"),
    ("NULL::DOUBLE", "null"),
    ("NULL::DECIMAL(9,2)", "null"),
    ("NULL::JSON", "null"),
    ("NULL", "null"),
]


@pytest.mark.parametrize(("expr", "text"), JSONS, ids=[e for e, _ in JSONS])
def test_a_value_is_json_with_every_digit(expr: str, text: str) -> None:
    assert list(json_batches(answer(f"SELECT {expr} AS v"))) == [['{"v":' + text + "}"]]
    json.loads(text)


def test_a_time_stands_in_the_sessions_time_zone() -> None:
    import duckdb

    from kleene.rendering.rows import Table

    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'Asia/Tokyo'")
        rows = Table.of(con.sql("SELECT TIMESTAMPTZ '2020-01-01 00:00:00+00' AS t"))
    assert list(as_text(rows)) == [[("2020-01-01 09:00:00+09",)]]


def test_rows_come_in_batches_and_in_order() -> None:
    batches = list(as_text(answer("SELECT i FROM range(5000) AS t(i)")))
    assert [len(b) for b in batches] == [2048, 2048, 904]
    assert [row[0] for b in batches for row in b] == [str(i) for i in range(5000)]


@pytest.mark.parametrize("type_", sorted(PLAIN))
def test_what_python_prints_is_what_duckdb_prints(type_: str) -> None:
    low = {"VARCHAR": "''", "BOOLEAN": "false"}.get(
        type_, "0" if type_.startswith("U") else f"-(1::HUGEINT << {BITS.get(type_, 0)})"
    )
    high = {"VARCHAR": "chr(0) || 'é\n\"' || chr(128512)", "BOOLEAN": "true"}.get(
        type_, f"(1::HUGEINT << {BITS.get(type_, 0)}) - 1"
    )
    rows = answer(f"SELECT CAST(v AS {type_}) AS v, i FROM (VALUES ({low}, 1), ({high}, 2), (NULL, 3)) t(v, i)")
    table = rows.to_arrow_table()
    assert list(plainly(table)) == list(printed(table, [text_of("c0", type_), text_of("c1", "INTEGER")]))
    assert list(as_text(rows)) == list(plainly(table))


def test_no_rows_give_no_batches() -> None:
    assert list(as_text(answer("SELECT 1 AS a WHERE false"))) == []
    assert list(json_batches(answer("SELECT 1 AS a WHERE false"))) == []


def test_equal_names_do_not_hide_each_other() -> None:
    assert unique(["a", "a", "a_1", "a"]) == ["a", "a_1", "a_1_1", "a_2"]
    assert list(as_text(answer("SELECT 1 AS a, 2 AS a"))) == [[("1", "2")]]


def test_a_columns_name_may_be_anything() -> None:
    relation = answer("""SELECT 1 AS "it's ""quoted"", so: é" """)
    assert list(json_batches(relation)) == [['{"it\'s \\"quoted\\", so: é":1}']]


FIELDS = [
    "NULL",
    "''",
    "'plain'",
    "'a,b'",
    "'say \"so\"'",
    "' led'",
    "'trailed '",
    "'a' || chr(10) || 'b'",
    "chr(13)",
    "[1, 2]",
    "1.50",
]


@pytest.mark.parametrize("expr", FIELDS)
def test_duckdb_writes_a_field_as_csv_field_does(expr: str) -> None:
    relation = answer(f"SELECT {expr} AS v")
    ((cell,),) = next(as_text(relation))
    assert list(csv_batches(relation)) == [[csv_field(cell)]]
