"""Nirvana (package nirvana-ai, which its wheel says is for 3.11 and is for 3.12): its documented operators, strategy ``plain``. It speaks OpenAI's
responses only, with an address for each name of a model that cannot be set, so that this look-up is replaced. Its optimizer rewrites a plan with
a model and tries models on samples: the operators run as they are written here."""

import logging

from child import main


def start(given):
    logging.disable(logging.CRITICAL)
    import nirvana as nv
    import nirvana.executors.llm_backbone as backbone
    import pandas as pd

    backbone._get_openai_compatible_provider_info = lambda model_name, api_key=None, base_url=None: ("x", given.url)
    nv.configure_llm_backbone(model_name="gpt-4o-mini-2024-07-18", api_key="x")
    return nv.ops, {name: pd.DataFrame(rows) for name, rows in given.tables.items()}


def kept(ops, given, frame, asked, *columns):
    return frame[ops.filter(frame, asked, input_columns=list(columns), rate_limit=given.in_flight).output]


def w1(session, given):
    ops, frames = session
    return lambda: [(i,) for i in kept(ops, given, frames["t"], given.asks["sea"], "txt")["id"]]


def w2(session, given):
    """As written: the semantic filter first."""
    ops, frames = session

    def query():
        found = kept(ops, given, frames["t"], given.asks["sea"], "txt")
        return [(i,) for i in found[found["price"] < 100]["id"]]

    return query


def w3(session, given):
    ops, frames = session

    def query():
        made = ops.map(
            frames["t"],
            given.asks["country"],
            input_columns=["txt"],
            output_columns=["country"],
            rate_limit=given.in_flight,
        )
        return zip(frames["t"]["id"], made.outputs["country"], strict=True)

    return query


def w4(session, given):
    """Its join takes no equality: pandas joins, then the pairs are filtered."""
    ops, frames = session

    def query():
        pairs = frames["l"].merge(frames["r"], on="grp", suffixes=("_l", "_r"))
        found = kept(ops, given, pairs, given.asks["event"], "txt_l", "txt_r")
        return zip(found["id_l"], found["id_r"], strict=True)

    return query


def w4_join(session, given):
    ops, frames = session
    left, right = frames["l"], frames["r"]

    def query():
        found = ops.join(left, right, given.asks["event"], left_on="txt", right_on="txt", rate_limit=given.in_flight)
        pairs = [(left.loc[i], right.loc[j]) for i, j in found.join_pairs]
        return [(a["id"], b["id"]) for a, b in pairs if a["grp"] == b["grp"]]

    return query


def w5(session, given):
    """No anti-join: all pairs are filtered, and what is left over is found by pandas."""
    ops, frames = session

    def query():
        pairs = frames["x"].merge(frames["c"], on="cid")
        found = kept(ops, given, pairs, given.asks["refutes"], "claim", "counter")
        return [(i,) for i in sorted(set(frames["c"]["cid"]) - set(found["cid"]))]

    return query


def w6(session, given):
    """All are ranked, by comparing one pair after the other."""
    ops, frames = session

    def query():
        order = ops.rank(frames["t"], given.asks["quality"], input_column="txt", rate_limit=given.in_flight)
        return [(i,) for i in frames["t"]["id"].iloc[order.ranked_indices[:5]]]

    return query


def w7(session, given):
    ops, frames = session
    return lambda: [(ops.reduce(frames["t"], given.asks["topics"], input_column="txt").output,)]


main(start, {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W4-join": w4_join, "W5": w5, "W6": w6, "W7": w7})
