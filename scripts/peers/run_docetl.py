"""DocETL (package docetl): pipelines in its own output mode (tools), its cache on disk on; as many threads as the others have calls in
flight. Its optimizers are agents that rewrite a pipeline and need a real model: the pipelines run as they are written here."""

import importlib.util
import os

from child import main


def start(given):
    os.environ.update(OPENAI_API_KEY="x", OPENAI_BASE_URL=given.url, OPENAI_API_BASE=given.url)
    os.environ["DOCETL_HOME_DIR"] = given.folder  # read once, when it is imported
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", TIKTOKEN_CACHE_DIR=tokenizers())
    os.chdir(given.state)
    from docetl.operations.utils.cache import cache
    from docetl.runner import DSLRunner

    cache.clear()  # an earlier workload's

    def run(inputs, operations, steps):
        config = {
            "default_model": "openai/gpt-4o-mini",
            "default_lm_api_base": given.url,
            "datasets": {name: {"type": "memory", "path": rows} for name, rows in inputs.items()},
            "operations": operations,
            "pipeline": {"steps": steps, "output": {"type": "file", "path": os.path.join(given.state, "out.json")}},
        }
        return DSLRunner(config, max_threads=given.in_flight).run()[0]

    return run


def tokenizers():
    """It counts tokens by a file that is fetched at run time: it is given the one that lies in the wheel of litellm."""
    root = importlib.util.find_spec("litellm").submodule_search_locations[0]
    return os.path.join(root, "litellm_core_utils", "tokenizers")


def step(*names):
    return [{"name": "all", "input": "t", "operations": list(names)}]


def asked(kind, prompt, **fields):
    return {"name": "ask", "type": kind, "prompt": prompt, "output": {"schema": fields}}


def w1(run, given):
    ask = asked("filter", given.asks["sea"] + " Text: {{ input.txt }}", holds="bool")
    return lambda: [(r["id"],) for r in run({"t": given.tables["t"]}, [ask], step("ask"))]


def w2(run, given):
    """As written: what would put the free condition first is an optimizer with a model."""
    ask = asked("filter", given.asks["sea"] + " Text: {{ input.txt }}", holds="bool")
    cheap = {
        "name": "cheap",
        "type": "code_filter",
        "code": "def transform(doc) -> bool:\n    return doc['price'] < 100\n",
    }
    return lambda: [(r["id"],) for r in run({"t": given.tables["t"]}, [ask, cheap], step("ask", "cheap"))]


def w3(run, given):
    ask = asked("map", given.asks["country"] + " Text: {{ input.txt }}", country="str")
    return lambda: [(r["id"], r["country"]) for r in run({"t": given.tables["t"]}, [ask], step("ask"))]


def joined(run, left, right, prompt, equality):
    join = {"name": "join", "type": "equijoin", "comparison_prompt": prompt, "blocking_conditions": [equality]}
    steps = [{"name": "all", "operations": [{"join": {"left": "l", "right": "r"}}]}]
    return run({"l": left, "r": right}, [join], steps)


def w4(run, given):
    left = [{"lid": r["id"], "lgrp": r["grp"], "ltxt": r["txt"]} for r in given.tables["l"]]
    right = [{"rid": r["id"], "rgrp": r["grp"], "rtxt": r["txt"]} for r in given.tables["r"]]
    prompt = given.asks["event"] + " A: {{ left.ltxt }} B: {{ right.rtxt }}"

    def query():
        found = joined(run, left, right, prompt, "left['lgrp'] == right['rgrp']")
        return [(r["lid"], r["rid"]) for r in found]

    return query


def w5(run, given):
    """No anti-join: a join, and what is left over is found outside."""
    claims = given.tables["c"]
    counters = [{"xcid": r["cid"], "xid": r["xid"], "counter": r["counter"]} for r in given.tables["x"]]
    prompt = given.asks["refutes"] + " Claim: {{ left.claim }} Counterexample: {{ right.counter }}"

    def query():
        refuted = {r["cid"] for r in joined(run, claims, counters, prompt, "left['cid'] == right['xcid']")}
        return [(c["cid"],) for c in claims if c["cid"] not in refuted]

    return query


def w6(run, given):
    """Its top-k puts rows in order by embeddings first: a score a row, sorted outside."""
    ask = asked("map", given.asks["quality"] + " Text: {{ input.txt }}", score="float")

    def query():
        found = run({"t": given.tables["t"]}, [ask], step("ask"))
        return [(r["id"],) for r in sorted(found, key=lambda r: -float(r["score"]))[:5]]

    return query


def w7(run, given):
    prompt = given.asks["topics"] + "\n{% for row in inputs %}{{ row.txt }}\n{% endfor %}"
    ask = asked("reduce", prompt, summary="str") | {"reduce_key": "_all"}
    return lambda: [(run({"t": given.tables["t"]}, [ask], step("ask"))[0]["summary"],)]


main(start, {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W7": w7})
