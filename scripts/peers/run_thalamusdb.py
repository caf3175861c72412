"""ThalamusDB (package thalamusdb, Python 3.12) over DuckDB: filters and joins only, so no W3, W6 and W7; its default of 20 calls in flight."""

import json
import os

from child import main


def start(given):
    os.environ.update(OPENAI_API_KEY="x", OPENAI_BASE_URL=given.url, OPENAI_API_BASE=given.url)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import pandas as pd
    from tdb.data.relational import Database
    from tdb.execution.constraints import Constraints
    from tdb.execution.engine import ExecutionEngine
    from tdb.queries.query import Query

    database = Database(":memory:")
    for name, rows in given.tables.items():
        frame = pd.DataFrame(rows)
        database.con.register("given", frame)
        database.con.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        database.con.unregister("given")
    called = {"model": "gpt-4o-mini", "api_base": given.url, "api_key": "x", "temperature": 0}
    models = os.path.join(given.state, "models.json")
    with open(models, "w") as file:
        model = {"modalities": ["text"], "priority": 1, "kwargs": {"filter": called, "join": called}}
        json.dump({"models": [model]}, file)
    engine = ExecutionEngine(database, 20, models)
    bounds = Constraints(max_seconds=300, max_calls=100_000, max_tokens=10**9)
    return lambda sql: engine.run(Query(database, sql), bounds)[0]


def statement(sql, *columns):
    def prepare(run, given):
        text = sql.format(**given.asks)

        def query():
            frame = run(text)
            return zip(*(frame[column] for column in columns), strict=True)

        return query

    return prepare


WORKLOADS = {
    "W1": statement("SELECT id FROM t WHERE NLfilter(t.txt, '{sea}')", "id"),
    "W2": statement("SELECT id FROM t WHERE NLfilter(t.txt, '{sea}') AND t.price < 100", "id"),
    "W4": statement(
        "SELECT l.id AS a, r.id AS b FROM l, r WHERE l.grp = r.grp AND NLjoin(l.txt, r.txt, '{event}')", "a", "b"
    ),
    "W5": statement(
        "SELECT c.cid FROM c WHERE NOT EXISTS (SELECT 1 FROM x WHERE x.cid = c.cid AND NLjoin(c.claim, x.counter, '{refutes}'))",
        "cid",
    ),
}

main(start, WORKLOADS)
