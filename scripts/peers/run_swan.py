"""SWAN AI-SQL (package swan-aisql): an extension of DuckDB, whose optimizer is on by default; no embedding server."""

from child import main


def start(given):
    import swan_aisql

    con = swan_aisql.connect(
        endpoint=given.url[: -len("/v1")], model="fake", api_key="x", embed_server=False, ai_concurrency=given.in_flight
    )
    for name, rows in given.tables.items():
        types = ", ".join(f"{n} {'VARCHAR' if isinstance(v, str) else 'BIGINT'}" for n, v in rows[0].items())
        con.execute(f"CREATE TABLE {name} ({types})")
        marks = ", ".join("?" * len(rows[0]))
        con.executemany(f"INSERT INTO {name} VALUES ({marks})", [list(row.values()) for row in rows])
    return con


def statement(sql):
    return lambda con, given: lambda: con.execute(sql.format(**given.asks)).fetchall()


WORKLOADS = {
    "W1": statement("SELECT id FROM t WHERE ai_filter('{sea} Text: ' || txt)"),
    "W2": statement("SELECT id FROM t WHERE ai_filter('{sea} Text: ' || txt) AND price < 100"),
    "W3": statement("SELECT id, ai_complete('{country} Text: ' || txt) FROM t"),
    "W4": statement(
        "SELECT l.id, r.id FROM l JOIN r ON ai_filter('{event} A: ' || l.txt || ' B: ' || r.txt) AND l.grp = r.grp"
    ),
    "W5": statement(
        "SELECT c.cid FROM c WHERE NOT EXISTS (SELECT 1 FROM x WHERE x.cid = c.cid "
        "AND ai_filter('{refutes} Claim: ' || c.claim || ' Counterexample: ' || x.counter))"
    ),
    "W6": statement("SELECT id FROM t ORDER BY ai_score('{quality} Text: ' || txt) DESC LIMIT 5"),
    "W7": statement("SELECT ai_agg(list(txt ORDER BY id), '{topics}') FROM t"),
}

main(start, WORKLOADS)
