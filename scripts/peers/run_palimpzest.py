"""Palimpzest (package palimpzest, Python 3.12): parallel execution, its policy MaxQuality, one model; its plans run 64 calls at a time by default."""

import importlib.util
import json
import logging
import os

from child import main


def start(given):
    os.environ.update(
        OPENAI_API_KEY="x", OPENAI_BASE_URL=given.url, OPENAI_API_BASE=given.url, ANONYMIZED_TELEMETRY="False"
    )
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", HF_HUB_OFFLINE="1")
    logging.disable(logging.CRITICAL)
    without_network()
    import litellm
    import palimpzest as pz

    litellm.api_base = given.url
    os.chdir(given.state)
    return pz, given


def without_network():
    """Its import fetches a table of models: it is given the one that lies in its own wheel."""
    import requests

    root = importlib.util.find_spec("palimpzest").submodule_search_locations[0]
    with open(os.path.join(root, "utils", "pz_models_information.json")) as file:
        models = json.load(file)
    known = models["openai/gpt-4o-mini-2024-07-18"]

    class Table(dict):
        def get(self, name, default=None):
            return dict.get(self, name) or dict(known)

    class Reply:
        def json(self):
            return Table(models)

    fetch = requests.get
    requests.get = lambda url, *a, **k: Reply() if "pz_models_information" in url else fetch(url, *a, **k)


def made(session, name, rows):
    import pandas as pd

    return session[0].MemoryDataset(id=name, vals=pd.DataFrame(rows))


def run(session, data, *columns):
    pz, given = session
    config = pz.QueryProcessorConfig(
        policy=pz.MaxQuality(), available_models=[pz.Model.GPT_4o_MINI], execution_strategy="parallel", progress=False,
        max_workers=given.in_flight,
    )  # fmt: skip
    frame = data.run(config).to_df()
    return zip(*(frame[column] for column in columns), strict=True) if len(frame) else []


def w1(session, given):
    t = made(session, "t", given.tables["t"])
    return lambda: run(session, t.sem_filter(given.asks["sea"], depends_on=["txt"]), "id")


def w2(session, given):
    t = made(session, "t", given.tables["t"])

    def query():
        data = t.sem_filter(given.asks["sea"], depends_on=["txt"])
        return run(session, data.filter(lambda r: r["price"] < 100, depends_on=["price"]), "id")

    return query


def w3(session, given):
    t = made(session, "t", given.tables["t"])
    field = {"name": "answer", "desc": given.asks["country"], "type": str}
    return lambda: run(session, t.sem_map([field], depends_on=["txt"]), "id", "answer")


def w4(session, given):
    """``sem_join`` takes no equality and a filter after a join fails in the optimizer: the pairs are made outside."""
    pairs = [
        {"lid": a["id"], "rid": b["id"], "ltxt": a["txt"], "rtxt": b["txt"]}
        for a in given.tables["l"]
        for b in given.tables["r"]
        if a["grp"] == b["grp"]
    ]
    p = made(session, "p", pairs)
    return lambda: run(session, p.sem_filter(given.asks["event"], depends_on=["ltxt", "rtxt"]), "lid", "rid")


def w4_join(session, given):
    left = made(session, "l", [{"lid": r["id"], "lgrp": r["grp"], "ltxt": r["txt"]} for r in given.tables["l"]])
    right = made(session, "r", [{"rid": r["id"], "rgrp": r["grp"], "rtxt": r["txt"]} for r in given.tables["r"]])

    def query():
        data = left.sem_join(right, given.asks["event"], depends_on=["ltxt", "rtxt"])
        return [(a, b) for a, b, g, h in run(session, data, "lid", "rid", "lgrp", "rgrp") if g == h]

    return query


def w5(session, given):
    """No anti-join: all pairs are filtered, and what is left over is found outside."""
    claims = {c["cid"]: c["claim"] for c in given.tables["c"]}
    x = made(session, "x", [{**row, "asserted": claims[row["cid"]]} for row in given.tables["x"]])

    def query():
        refuted = run(session, x.sem_filter(given.asks["refutes"], depends_on=["asserted", "counter"]), "cid")
        return [(c,) for c in sorted(set(claims) - {c for (c,) in refuted})]

    return query


def w6(session, given):
    """``sem_topk`` looks up embeddings: a score a row, sorted outside."""
    t = made(session, "t", given.tables["t"])
    field = {"name": "score", "desc": given.asks["quality"], "type": float}

    def query():
        scored = run(session, t.sem_map([field], depends_on=["txt"]), "id", "score")
        return [(i,) for i, _ in sorted(scored, key=lambda pair: -float(pair[1]))[:5]]

    return query


def w7(session, given):
    t = made(session, "t", given.tables["t"])
    field = {"name": "summary", "desc": "The topics", "type": str}
    return lambda: run(session, t.sem_agg(field, agg=given.asks["topics"], depends_on=["txt"]), "summary")


main(start, {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W4-join": w4_join, "W5": w5, "W6": w6, "W7": w7})
