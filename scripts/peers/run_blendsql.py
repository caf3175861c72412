"""BlendSQL (package blendsql, with polars before 2: with polars 2 it answers wrongly) over DuckDB, its cache on; 32 calls in flight by default."""

import os

from child import main


def start(given):
    os.environ.update(XDG_CACHE_HOME=given.state, TQDM_DISABLE="1")
    import pandas as pd
    from blendsql import BlendSQL
    from blendsql.models import VLLM

    model = VLLM("fake", base_url=given.url, caching=True)
    model.cache.clear()  # an earlier workload's
    return BlendSQL({name: pd.DataFrame(rows) for name, rows in given.tables.items()}, model=model, verbose=False)


def statement(sql):
    def prepare(blend, given):
        text = sql
        for name, asked in given.asks.items():
            text = text.replace(f"<{name}>", asked.replace("'", "''"))

        def query():
            frame = blend.execute(text).df()
            return [list(row) for row in (frame.rows() if hasattr(frame, "rows") else frame.itertuples(index=False))]

        return query

    return prepare


# A map over the columns of two joined tables, and one in a correlated NOT EXISTS, do not bind: the pairs are made in a WITH.
WORKLOADS = {
    "W1": statement("SELECT t.id FROM t WHERE {{LLMMap('<sea>', t.txt, return_type='bool')}} = TRUE"),
    "W2": statement("SELECT t.id FROM t WHERE {{LLMMap('<sea>', t.txt, return_type='bool')}} = TRUE AND t.price < 100"),
    "W3": statement("SELECT t.id, {{LLMMap('<country>', t.txt, return_type='str')}} AS said FROM t"),
    "W4": statement(
        "WITH p AS (SELECT l.id AS a, r.id AS b, l.txt AS one, r.txt AS other FROM l JOIN r ON l.grp = r.grp) "
        "SELECT p.a, p.b FROM p WHERE {{LLMMap('<event>', p.one, p.other, return_type='bool')}} = TRUE"
    ),
    "W5": statement(
        "WITH p AS (SELECT x.cid, x.counter, c.claim FROM x JOIN c ON x.cid = c.cid) SELECT c.cid FROM c WHERE c.cid NOT IN "
        "(SELECT p.cid FROM p WHERE {{LLMMap('<refutes>', p.claim, p.counter, return_type='bool')}} = TRUE)"
    ),
    "W6": statement("SELECT t.id FROM t ORDER BY {{LLMMap('<quality>', t.txt, return_type='float')}} DESC LIMIT 5"),
    "W7": statement("SELECT {{LLMQA('<topics>', (SELECT txt FROM t), return_type='str')}} AS said"),
}

main(start, WORKLOADS)
