"""``%load_ext kleene`` in IPython's own shell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import kleene

pytest.importorskip("IPython", reason="IPython is not installed: pip install 'kleene[notebook]'")


def shout(request: Any) -> str:
    return request.prompt.upper()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "kleene")
    yield shell
    shell.run_line_magic("unload_ext", "kleene")
    shell.history_manager.end_session()
    InteractiveShell.clear_instance()


@pytest.fixture
def engine(shell: Any) -> Iterator[Any]:
    with kleene.connect(store=":memory:", models=kleene.FunctionModel(shout, name="shout")) as k:
        shell.user_ns["k"] = k
        yield k


def ran(shell: Any, cell: str) -> Any:
    done = shell.run_cell(cell)
    done.raise_error()
    return done.result


class Texts(HTMLParser):
    """The text of each element by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.path: list[str] = []
        self.found: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.path.append(tag)
        self.found.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.path.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.path:
            self.found[self.path[-1]][-1] += data


def texts(html: str) -> dict[str, list[str]]:
    parser = Texts()
    parser.feed(html)
    assert parser.path == []
    return parser.found


def test_a_cell_gives_its_last_result(shell: Any, engine: Any) -> None:
    result = ran(shell, "%%callsql\nCREATE TABLE t AS SELECT 'a' AS x;\nSELECT x, llm(x) AS loud, NULL AS n FROM t")
    assert result.fetchall() == [("a", "A", None)]
    found = texts(result._repr_html_())
    assert (found["th"], found["td"], found["span"]) == (["x", "loud", "n"], ["a", "A", ""], ["NULL"])
    assert found["p"][0] == "1 row" and found["p"][1].startswith("1 request · 2 tokens · ")


def test_a_line_and_a_variable(shell: Any, engine: Any) -> None:
    assert ran(shell, "%callsql SELECT 6 * 7 AS answer").fetchall() == [(42,)]
    assert ran(shell, "%callsql found << SELECT 1 AS a") is None
    assert shell.user_ns["found"].fetchall() == [(1,)]
    assert ran(shell, "%%callsql more <<\nSELECT 2 AS a") is None
    assert shell.user_ns["more"].fetchall() == [(2,)]


def test_explain_makes_no_call(shell: Any, engine: Any) -> None:
    plan = ran(shell, "%%callsql --explain\nSELECT llm('<b>')")
    assert engine.usage.requests == 0
    found = texts(plan._repr_html_())
    assert "llm('<b>')" in found["pre"][0] and "total: 1 call" in found["pre"][0]
    assert "b" not in found


def test_data_frames_of_the_notebook_are_tables(shell: Any, engine: Any) -> None:
    ran(shell, "import pyarrow as pa\nframe = pa.table({'v': [1, 2, 3]})")
    assert ran(shell, "%callsql SELECT sum(v) AS s FROM frame").fetchall() == [(6,)]


def test_a_connection_of_ones_own(shell: Any) -> None:
    ran(shell, "import duckdb\ncon = duckdb.connect()\n_ = con.execute('CREATE TABLE t AS SELECT 5 AS v')")
    assert ran(shell, "%callsql --engine con SELECT v FROM t").fetchall() == [(5,)]
    assert ran(shell, "%callsql SELECT 1 AS own").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%callsql SELECT bdy FROM (SELECT 1 AS body)", 'hint: the nearest column is "body"'),
        ("%callsql --explian SELECT 1", "did you mean --explain?"),
        ("%callsql", "there is no statement to run"),
        ("%callsql --engine nothing SELECT 1", "there is no variable nothing"),
        ("x = 3\n%callsql --engine x SELECT 1", "a DuckDB connection is needed, not int"),
    ],
)
def test_an_error_is_one_of_usage(cell: str, said: str, shell: Any, engine: Any) -> None:
    from IPython.core.error import UsageError

    done = shell.run_cell(cell)
    error = done.error_in_exec or done.error_before_exec
    assert isinstance(error, UsageError) and said in str(error)


def test_html_is_escaped_everywhere(engine: Any) -> None:
    evil = "<script>alert(1)</script>"
    result = engine.sql(
        f"SELECT '{evil}' AS \"{evil}\", chr(27) || '[2J' AS c, 'a' || chr(10) || 'b' AS l, 'x' || chr(8238) AS r"
    )
    result.warnings = (evil,)
    html = result._repr_html_()
    found = texts(html)
    assert "script" not in found
    assert found["th"][0] == evil and found["td"] == [evil, "\\x1b[2J", "a\nb", "x\\u202e"] and evil in found["p"][1]
    assert texts(engine.sql(f"SELECT 1 AS a WHERE '{evil}' = ''")._repr_html_())["p"] == ["0 rows"]
    assert "<script" not in engine.sql(f"EXPLAIN SELECT llm('{evil}')")._repr_html_()


def test_large_results_are_cut(engine: Any) -> None:
    found = texts(engine.sql("SELECT i, repeat('x', 5000) AS x FROM range(1234) t(i)")._repr_html_())
    assert (len(found["tr"]), found["p"]) == (51, ["1,234 rows: the first 50 are shown"])
    assert len(found["td"][1]) == 1001


def test_a_message_is_shown(engine: Any) -> None:
    assert texts(engine.sql("SET effort = 'low'")._repr_html_())["p"] == ["set effort = low"]


def test_an_interrupt_cancels_the_statement_and_the_next_one_works(shell: Any, tmp_path: Path) -> None:
    import os
    import signal
    import threading
    import time

    asked = threading.Event()

    def slow(request: Any) -> str:
        asked.set()
        time.sleep(0 if request.prompt == "quick" else 30)
        return "x"

    def interrupt() -> None:
        assert asked.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    with kleene.connect(store=":memory:", models=kleene.FunctionModel(slow, name="slow", threads=True)) as k:
        shell.user_ns["k"] = k
        threading.Thread(target=interrupt, daemon=True).start()
        started = time.monotonic()
        done = shell.run_cell("%callsql SELECT llm('slow')")
        assert isinstance(done.error_in_exec, KeyboardInterrupt)
        assert time.monotonic() - started < 25
        assert ran(shell, "%callsql SELECT llm('quick') AS a").fetchall() == [("x",)]


def test_a_notebook_shows_progress_by_operator_and_takes_it_away(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[dict[str, str], bool]] = []
    shown = threading.Event()

    def publish(data: dict[str, str], metadata: Any = None, *, update: bool = False, **more: Any) -> None:
        sent.append((data, update))
        if "llm(&#x27;&lt;b&gt;" in data["text/html"]:
            shown.set()

    monkeypatch.setattr(shell.display_pub, "publish", publish)
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    monkeypatch.setattr("kleene.notebook.PAINT_S", 0.02)

    def waits(request: Any) -> str:
        assert shown.wait(20)
        return "x"

    with kleene.connect(store=":memory:", models=kleene.FunctionModel(waits, threads=True)) as k:
        shell.user_ns["k"] = k
        assert len(ran(shell, "%callsql SELECT llm('<b>' || i) FROM range(3) t(i)")) == 3
    first, last = sent[0], sent[-1]
    assert first[1] is False and "0/≈3" in first[0]["text/plain"] and "0 of 3 calls" in first[0]["text/plain"]
    assert last == ({"text/plain": "", "text/html": ""}, True)
