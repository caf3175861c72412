"""Run one workload in another program's own Python: what ``scripts/bench_peers.py`` starts. Standard library only.

Standard input is a JSON object with ``url`` (ends in /v1), ``workload``, ``in_flight``, ``rounds``, ``folder`` (may be written to), ``asks``
(questions by name) and ``tables`` (lists of rows as objects). The last line of standard output is a list with one object a round: ``rows``,
``seconds``, ``cpu``, and the server's counts; or an object with ``cannot`` where the program has no words for the workload.
"""

import json
import os
import sys
import time
import urllib.request


class Cannot(Exception):
    """The program cannot say this."""


class Given:
    """The input, with its fields as attributes."""

    def __init__(self, fields):
        self.__dict__.update(fields)


def take(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + "/take", timeout=10) as response:
        return json.load(response)


def main(start, workloads):
    """``start(given)`` makes a session, new in each round; ``workloads[name](session, given)`` prepares and returns the function that is timed."""
    given = Given(json.load(sys.stdin))
    out, sys.stdout = sys.stdout, sys.stderr
    rounds = []
    try:
        for number in range(given.rounds):
            given.state = os.path.join(given.folder, f"state-{number}")
            os.makedirs(given.state)
            query = workloads[given.workload](start(given), given)
            take(given.url)
            seconds, cpu = time.perf_counter(), time.process_time()
            rows = query()
            seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
            rounds.append(
                {"rows": [list(row) for row in rows], "seconds": seconds, "cpu": cpu, "count": take(given.url)}
            )
        result = rounds
    except Cannot as why:
        result = {"cannot": str(why)}
    print(json.dumps(result, default=lambda value: value.item()), file=out, flush=True)
    os._exit(0)  # some leave threads behind
