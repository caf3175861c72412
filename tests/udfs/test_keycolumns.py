"""Keys as columns: many rows get from the memo what they would get one by one, whatever repeats, is NULL, or is not there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.udfs import keycolumns
from kleene.udfs.keycolumns import KeyColumn, NotedColumns
from kleene.udfs.lookups import SiteAnswers


def rows(seed: int, count: int, distinct: int) -> list[str | None]:
    draw = random.Random(seed)
    return [None if draw.random() < 0.05 else f"prompt {draw.randrange(distinct)} ü" for _ in range(count)]


@pytest.mark.parametrize("function", ["llm", "llm_bool"])
@pytest.mark.parametrize("known", [0.0, 0.6, 1.0])
def test_the_rows_are_those_of_single_look_ups(tmp_path: Path, function: str, known: float) -> None:
    asked: list[str] = []

    def model(request: Any) -> str:
        asked.append(request.prompt)
        return "true" if len(request.prompt) % 3 else "false"

    texts = rows(7, 6000, 5000)
    distinct = sorted({t for t in texts if t is not None})
    warm = distinct[: int(known * len(distinct))]
    with duckdb.connect() as con:
        con.register("given", pa.table({"body": texts}))
        con.register("warm", pa.table({"body": pa.array(warm, pa.string())}))
        con.execute("CREATE TABLE t AS FROM given; CREATE TABLE w AS FROM warm")
        with kleene.attach(con, store=tmp_path / "run.duckdb", models=kleene.FunctionModel(model)) as k:
            k.sql(f"SELECT {function}(body) FROM w")
            assert sorted(asked) == warm
            result = k.sql(f"SELECT body, {function}(body) AS answer FROM t")
            assert sorted(asked) == distinct
            assert result.usage.memo_hits == len(warm)
            found = result.fetchall()
    value = {"llm": str, "llm_bool": lambda text: text == "true"}[function]
    wanted = [(t, None if t is None else value("true" if len(t) % 3 else "false")) for t in texts]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_keys_are_distinct_and_null_is_none() -> None:
    noted = NotedColumns()
    first, second = [f"a{i}" for i in range(1500)], ["a3", None, "b", "b", None]
    for vector in (pa.array(first), pa.array(second)):
        assert noted.wants(vector)
        noted.vectors.append(vector)
    known = noted.known(["c", "a1"])
    assert list(known.keys) == [*first, "b", "c"]
    upper = pa.array([k.upper() for k in known.keys])
    places = list(range(len(known.keys)))
    random.Random(1).shuffle(places)
    half = len(places) // 2
    for part in (places[:half], places[half:]):
        assert known.answer(pa.array(second)) is None, "not all have an answer yet"
        known.give(np.array(part), upper.take(pa.array(part)))
    answered = known.answer(pa.array(second))
    assert answered is not None
    assert answered.to_pylist() == ["A3", None, "B", "B", None]
    assert known.answer(pa.array(["a3", None, "b", "x", None])) is None, "a vector that was not noted"
    given: dict[Any, Any] = {"b": "was here"}
    known.release(given)
    assert given == {**{k: k.upper() for k in known.keys}, "b": "was here"}


def test_answers_that_come_late_find_their_site() -> None:
    """A run that looks an answer up while others are still being looked up takes the column apart."""
    site = SiteAnswers("1:1")
    vector = pa.array([f"a{i}" for i in range(1500)])
    assert site.take(vector)
    site.take_notes()
    known = site.known
    assert known is not None
    known.give(np.arange(1000), pa.array([f"A{i}" for i in range(1000)]))
    assert len(site.answers) == 1000
    assert site.known is None
    known.give(np.arange(1000, 1500), pa.array([f"A{i}" for i in range(1000, 1500)]))
    assert site.answers == {f"a{i}": f"A{i}" for i in range(1500)}
    answered = known.answer(vector)  # of a thread that was at it
    assert answered is not None
    assert answered.to_pylist() == [f"A{i}" for i in range(1500)]


def test_more_text_than_offsets_of_32_bits_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keycolumns, "REACH", 30_000)
    noted = NotedColumns()
    noted.vectors += [pa.array([f"{v}{i}" for i in range(1500)]) for v in "abc"]
    known = noted.known(["one more"])
    assert known.keys.array.type == pa.large_string()
    assert noted.weight() > 30_000
    upper = [k.upper() for k in known.keys]
    for start in range(0, len(upper), 1000):  # the parts' own offsets do reach
        part = upper[start : start + 1000]
        known.give(np.arange(start, start + len(part)), pa.array(part, pa.string()))
    for vector in noted.vectors:
        answered = known.answer(vector)
        assert answered is not None
        assert answered.type == pa.string()
        assert answered.to_pylist() == [k.upper() for k in vector.to_pylist()]


def test_few_rows_repeated_ones_and_long_ones_are_noted_one_by_one() -> None:
    noted = NotedColumns()
    assert not noted.wants(pa.array(["a", "b"]))
    assert not noted.wants(pa.array(["a", "b"] * 1000))
    assert not noted.wants(pa.array([f"{i} {'x' * 300}" for i in range(2000)])), "each would be held three times"
    assert not noted
    assert list(KeyColumn(pa.array(["a", "b"]))[0:1]) == ["a"]
