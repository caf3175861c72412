"""What the local model is good for, in numbers: ``python scripts/bench_local.py [--texts 200] [--model FILE.gguf]``.

Asks one question of 200 short texts (bench_local.tsv, half of them complaints, half anything else): with ``llm_bool``, whose answers are right
or wrong, and with ``llm_score``, whose order counts: AUC is the chance that a text for which the answer is yes scores above one for which it is
no (0.5: no better than a coin). From the scores follows what a cascade saves: the share of texts that a dearer model need not see, when the
proxy's surest answers, of which at most one in twenty is wrong on these texts, are taken as they are. Small models answer one wording and not
another: ``--question "Is this a complaint? " --yes complaint`` asks it the other way round. Needs the extra ``local``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import kleene
from kleene.models import Local
from kleene.planner.errors import KleeneError

TEXTS = Path(__file__).with_suffix(".tsv")
QUESTION = "Is the sentiment of this text positive? Text: "
SURE = 0.95


def texts(count: int, yes: str) -> list[tuple[str, bool]]:
    """Texts with their right answers, one of each label in turn."""
    rows = [line.split("\t") for line in TEXTS.read_text(encoding="utf-8").splitlines()]
    sides = [[(text, wanted) for label, text in rows if (label == yes) is wanted] for wanted in (True, False)]
    return [row for pair in zip(*sides, strict=True) for row in pair][:count]


def auc(scored: list[tuple[float, bool]]) -> float:
    """The share of pairs of a yes and a no in which the yes scores higher; a tie is half of one.

    >>> auc([(0.9, True), (0.2, False), (0.5, True), (0.5, False)])
    0.875
    """
    yes = [score for score, label in scored if label]
    no = [score for score, label in scored if not label]
    won = sum((a > b) + (a == b) / 2 for a in yes for b in no)
    return won / (len(yes) * len(no))


def spared(scored: list[tuple[float, bool]]) -> float:
    """The share of texts above and below two thresholds, each chosen so that at most 5 % of what lies beyond it is wrong."""
    best = 0
    for wanted, ordered in ((True, sorted(scored, reverse=True)), (False, sorted(scored))):
        right = longest = 0
        for count, (_, label) in enumerate(ordered, 1):
            right += label is wanted
            if right / count >= SURE:
                longest = count
        best += longest
    return min(best, len(scored)) / len(scored)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200, help="ask only so many, half of them complaints")
    parser.add_argument("--question", default=QUESTION, help="what is asked; the text follows it")
    parser.add_argument("--yes", choices=("complaint", "other"), default="other", help="the texts whose answer is yes")
    parser.add_argument("--model", metavar="FILE.gguf", help="another model than the small one of the extra")
    arguments = parser.parse_args()
    try:
        model = Local(arguments.model)
    except KleeneError as error:
        print(error.render())
        return 4
    rows = texts(arguments.texts, arguments.yes)
    question = arguments.question.replace("'", "''")
    with kleene.connect(store=":memory:", models=model) as k:
        k.con.execute("CREATE TABLE texts (n INTEGER, body VARCHAR, label BOOLEAN)")
        k.con.executemany("INSERT INTO texts VALUES (?, ?, ?)", [(n, *row) for n, row in enumerate(rows)])
        k.sql("SELECT llm_score('warm up')").fetchall()
        started = time.perf_counter()
        found = k.sql(f"SELECT llm_bool('{question}' || body) AS found, label FROM texts ORDER BY n").fetchall()
        bool_s = (time.perf_counter() - started) / len(rows)
        started = time.perf_counter()
        scored = k.sql(f"SELECT llm_score('{question}' || body) AS score, label FROM texts ORDER BY n").fetchall()
        score_s = (time.perf_counter() - started) / len(rows)
    right = sum(answer is label for answer, label in found)
    said_yes = sum(answer is True for answer, _ in found)
    unknown = sum(answer is None for answer, _ in found)
    print(f"{model.model}, {len(rows)} texts")
    print(f"llm_bool   accuracy {right / len(rows):.3f} (yes to {said_yes}, unknown {unknown})   {bool_s:.3f} s a call")
    print(f"llm_score  AUC {auc(scored):.3f}   {score_s:.3f} s a call")
    print(f"a cascade at 95 % on these texts asks the dearer model about {1 - spared(scored):.0%} of them")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
