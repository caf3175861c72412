from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.session.extract import Extraction, extract, fences, is_blank, looks_like_sql


@pytest.mark.parametrize(
    ("reply", "sql"),
    [
        pytest.param("```sql\nSELECT 1\n```", "SELECT 1", id="plain"),
        pytest.param("First I look.\n\n```sql\nSELECT 1;\n```\nThen I go on.", "SELECT 1;", id="prose-around"),
        pytest.param("```\nSELECT 1\n```", "SELECT 1", id="untagged"),
        pytest.param("``` sql\nSELECT 1\n```", "SELECT 1", id="space-before-tag"),
        pytest.param("```SQL\nSELECT 1\n```", "SELECT 1", id="upper-case-tag"),
        pytest.param("```CallSQL run this\nSELECT 1\n```", "SELECT 1", id="more-info"),
        pytest.param("```postgresql\nSELECT 1\n```", "SELECT 1", id="postgresql"),
        pytest.param("```duckdb\nSELECT 1\n```", "SELECT 1", id="duckdb"),
        pytest.param("~~~sql\nSELECT 1\n~~~", "SELECT 1", id="tildes"),
        pytest.param(
            "````sql\nFINAL($$\n```python\nx\n```\n$$)\n````", "FINAL($$\n```python\nx\n```\n$$)", id="four-backticks"
        ),
        pytest.param("```sql\nSELECT '```' AS x\n```", "SELECT '```' AS x", id="backticks-in-a-string"),
        pytest.param("```sql\nSELECT 1\n~~~\n```", "SELECT 1\n~~~", id="other-character-does-not-close"),
        pytest.param("```sql\nSELECT 1\n``` x\n```", "SELECT 1\n``` x", id="closing-line-stands-alone"),
        pytest.param("   ```sql\n   SELECT 1\n     , 2\n   ```", "SELECT 1\n  , 2", id="indented-three"),
        pytest.param("```sql\r\nSELECT 1\r\n```\r\n", "SELECT 1", id="crlf"),
        pytest.param("```text\nold rows\n```\n```sql\nSELECT 1\n```", "SELECT 1", id="text-fence-before"),
        pytest.param("```\n3 rows\n```\n```sql\nSELECT 1\n```", "SELECT 1", id="quoted-result-before"),
        pytest.param(
            "```\nSELECT 0\n```\n```sql\nSELECT 1\n```", "SELECT 0\n;\nSELECT 1", id="untagged-statement-before"
        ),
        pytest.param(
            "```sql\nSELECT 1 -- one\n```\n```sql\nSELECT 2\n```", "SELECT 1 -- one\n;\nSELECT 2", id="two-fences"
        ),
        pytest.param(
            "```sql\nSELECT 1;\n```\n```sql\nSELECT 2\n```", "SELECT 1;\nSELECT 2", id="two-closed-statements"
        ),
        pytest.param("```sql\n-- nothing\n```\n```sql\nSELECT 2\n```", "SELECT 2", id="comment-fence-dropped"),
        pytest.param("```sql\nSELECT 1", "SELECT 1", id="unclosed-but-not-cut"),
        pytest.param("select count(*) from ctx", "select count(*) from ctx", id="no-fence"),
        pytest.param("FINAL('done')", "FINAL('done')", id="no-fence-final"),
        pytest.param(
            "<think>\n```sql\nDROP TABLE t\n```\n</think>\n```sql\nSELECT 1\n```", "SELECT 1", id="thinking-is-not-run"
        ),
        pytest.param("I would `SELECT` ```inline``` first.\n```sql\nSELECT 1\n```", "SELECT 1", id="inline-code"),
    ],
)
def test_the_sql_of_a_reply_is_found(reply: str, sql: str) -> None:
    assert extract(reply) == Extraction(sql)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param("", "the reply was empty", id="empty"),
        pytest.param(" \n\t", "the reply was empty", id="white-space"),
        pytest.param("<think>hm</think>", "the reply was empty", id="only-thinking"),
        pytest.param("<think>hm ```sql\nSELECT 1\n```", "the reply was empty", id="thinking-without-end"),
        pytest.param("Let me think about this.", "the reply has no SQL fence", id="prose"),
        pytest.param(
            "Select the best candidates from the list, then stop.", "the reply has no SQL fence", id="prose-like-select"
        ),
        pytest.param("I will call FINAL(x) later", "the reply has no SQL fence", id="prose-names-final"),
        pytest.param("```sql\n```", "the fence holds no statement", id="empty-fence"),
        pytest.param("```sql\n-- to do\n/* later */ ;\n```", "the fence holds no statement", id="comment-fence"),
        pytest.param("-- only a comment", "the reply holds no statement", id="bare-comment"),
        pytest.param("```text\nSELECT 1\n```", "the reply has no fence tagged sql (only: text)", id="text-fence"),
        pytest.param(
            "```python\nx\n```\n~~~Bash\ny\n~~~",
            "the reply has no fence tagged sql (only: python, bash)",
            id="other-tags",
        ),
        pytest.param("    ```sql\n    SELECT 1\n    ```", "the reply has no SQL fence", id="indented-code"),
    ],
)
def test_a_reply_without_sql_says_what_is_missing(reply: str, reason: str) -> None:
    assert extract(reply) == Extraction(None, reason)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("```sql\nSELECT 1", Extraction(None, "the reply ended at its token limit inside its fence", cut=True)),
        (
            "```sql\nSELECT 1\n```\n```sql\nSEL",
            Extraction(None, "the reply ended at its token limit inside its fence", cut=True),
        ),
        ("SELECT count(*) FROM c", Extraction(None, "the reply ended at its token limit inside its SQL", cut=True)),
        ("First I would like", Extraction(None, "the reply ended at its token limit before any SQL", cut=True)),
        ("", Extraction(None, "the reply ended at its token limit before any SQL", cut=True)),
        ("```sql\nSELECT 1\n```\nand then", Extraction("SELECT 1")),
    ],
)
def test_a_cut_reply_runs_only_closed_fences(reply: str, expected: Extraction) -> None:
    assert extract(reply, cut=True) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM people",
        "select 1",
        "SELECT 'The end. Of it' AS x",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "with recursive r(n) as (select 1) select * from r",
        "FROM ctx",
        "from ctx limit 5;",
        "VALUES (1), (2)",
        "CREATE TABLE t AS SELECT 1",
        "create or replace function f(x TEXT) returns text as prompt 'Is this it? {x}'",
        "INSERT INTO t SELECT 1",
        "UPDATE t SET x = 1",
        "DELETE FROM t",
        "DROP TABLE t",
        "DESCRIBE t",
        "SHOW TABLES;",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE (FORMAT json) SELECT 1",
        "SET budget.calls = 5",
        "CALL write_file('a', 'b')",
        "FINAL FROM (SELECT 1)",
        "-- count\nSELECT count(*) FROM t",
        "(SELECT 1) UNION (SELECT 2)",
    ],
)
def test_a_bare_statement_looks_like_sql(text: str) -> None:
    assert looks_like_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "Select the best candidates",
        "Select candidates that fit (see above).",
        "With this in mind, I look at the rows (all of them)",
        "From what I see, 5 rows match",
        "Create a table with the names",
        "Show me everything",
        "Call the tool notify (x)",
        "Explain why it fails",
        "Final answer: 42",
        "Set up a table = easy",
        "Update: 5 = 5",
        "Delete rows",
        "Hello",
        "42",
        "'a string'",
    ],
)
def test_prose_does_not_look_like_sql(text: str) -> None:
    assert not looks_like_sql(text)


def test_fences_carry_tag_text_and_whether_they_close() -> None:
    found = fences("```a`b\n~~~ x`y\none\n~~~~\n```py\ntwo")
    assert [(f.tag, f.text, f.closed) for f in found] == [("x`y", "one", True), ("py", "two", False)]


def test_a_block_comment_and_a_semicolon_are_blank() -> None:
    assert is_blank("\ufeff/* a\nb */ ; -- c")
    assert not is_blank("/* open")


@given(st.text(alphabet="`~ \n\rsqlSELECT1;-'$x.", max_size=60), st.booleans())
def test_no_reply_raises_and_sql_is_never_blank(reply: str, cut: bool) -> None:
    found = extract(reply, cut=cut)
    assert (found.sql is None) == (found.reason is not None)
    assert found.sql is None or found.sql.strip()
