"""LOTUS (package lotus-ai) over pandas: its cache on; its lazy frame with the pushdown of predicates where it has one (W2). No cascades, which need
a second model and answer about right. Its batches have 64 calls by default; here as many as the others."""

import os

from child import main


def start(given):
    os.environ.update(OPENAI_API_KEY="x", LITELLM_LOCAL_MODEL_COST_MAP="True")
    import lotus
    import pandas as pd
    from lotus.cache import CacheConfig, CacheFactory, CacheType
    from lotus.models import LM

    cache = CacheFactory.create_cache(CacheConfig(CacheType.IN_MEMORY, max_size=100_000))
    model = LM(model="gpt-4o-mini", api_base=given.url, api_key="x", cache=cache, max_batch_size=given.in_flight)
    lotus.settings.configure(lm=model, enable_cache=True)
    return {name: pd.DataFrame(rows) for name, rows in given.tables.items()}


def w1(frames, given):
    return lambda: [(i,) for i in frames["t"].sem_filter(given.asks["sea"] + " Text: {txt}")["id"]]


def w2(frames, given):
    from lotus.ast import LazyFrame
    from lotus.ast.optimizer import PredicatePushdownOptimizer

    def query():
        lazy = LazyFrame().sem_filter(given.asks["sea"] + " Text: {txt}").filter(lambda t: t["price"] < 100)
        return [(i,) for i in lazy.optimize([PredicatePushdownOptimizer()]).execute(frames["t"])["id"]]

    return query


def w3(frames, given):
    def query():
        found = frames["t"].sem_map(given.asks["country"] + " Text: {txt}", suffix="said")
        return zip(found["id"], found["said"], strict=True)

    return query


def w4(frames, given):
    """``sem_join`` takes no equality: pandas joins, then the pairs are filtered."""

    def query():
        pairs = frames["l"].merge(frames["r"], on="grp", suffixes=("_l", "_r"))
        found = pairs.sem_filter(given.asks["event"] + " A: {txt_l} B: {txt_r}")
        return zip(found["id_l"], found["id_r"], strict=True)

    return query


def w4_join(frames, given):
    def query():
        found = frames["l"].sem_join(frames["r"], given.asks["event"] + " A: {txt:left} B: {txt:right}")
        found = found[found["grp:left"] == found["grp:right"]]
        return zip(found["id:left"], found["id:right"], strict=True)

    return query


def w5(frames, given):
    """No anti-join: all pairs are filtered, and what is left over is found by pandas."""

    def query():
        pairs = frames["x"].merge(frames["c"], on="cid")
        found = pairs.sem_filter(given.asks["refutes"] + " Claim: {claim} Counterexample: {counter}")
        return [(i,) for i in sorted(set(frames["c"]["cid"]) - set(found["cid"]))]

    return query


def w6(frames, given):
    return lambda: [(i,) for i in frames["t"].sem_topk(given.asks["quality"] + " Text: {txt}", K=5)["id"]]


def w7(frames, given):
    return lambda: [(frames["t"].sem_agg(given.asks["topics"] + ". {txt}")["_output"][0],)]


main(start, {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W4-join": w4_join, "W5": w5, "W6": w6, "W7": w7})
