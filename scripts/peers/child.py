"""Run workloads in another program's own Python: what ``scripts/bench_peers.py`` starts. Standard library only.

Standard input is a JSON object with ``url`` (ends in /v1), ``in_flight``, ``folder`` (may be written to), ``asks`` (questions by name) and ``tables``
(by workload: lists of rows as objects by name). Each line of standard output is an object with ``workload`` and either ``rows``, ``seconds``, ``cpu``
and the server's ``count``, or ``failed``, the reason.
"""

import json
import os
import sys
import time
import urllib.request


class Given:
    """The input with its fields as attributes; ``tables`` are those of the workload that runs, ``state`` is a folder of its own."""

    def __init__(self, fields):
        self.__dict__.update(fields)


def take(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + "/take", timeout=10) as response:
        return json.load(response)


def run(start, prepare, given):
    query = prepare(start(given), given)
    take(given.url)
    seconds, cpu = time.perf_counter(), time.process_time()
    rows = query()
    seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
    return {"rows": [list(row) for row in rows], "seconds": seconds, "cpu": cpu, "count": take(given.url)}


def main(start, workloads):
    """``start(given)`` makes a session, new for each workload; ``workloads[name](session, given)`` prepares and returns the function that is timed."""
    given = Given(json.load(sys.stdin))
    out, sys.stdout = sys.stdout, sys.stderr
    for name, tables in given.tables.items():
        given.tables = tables
        given.state = os.path.join(given.folder, name)
        os.makedirs(given.state)
        try:
            result = {"workload": name, **run(start, workloads[name], given)}
        except Exception as error:
            result = {"workload": name, "failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(result, default=lambda value: value.item()), file=out, flush=True)
    os._exit(0)  # some leave threads behind
