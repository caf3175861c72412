"""SemBench's ten movie questions as CallSQL: rows, calls and tokens of each, alone and in one session with a memo.

    python scripts/bench_movies.py --data FOLDER [--sql]

FOLDER holds ``Movies.csv``, ``Reviews.csv`` and ``ground_truth/Qn.csv`` of the movie scenario. The statements see the reviews without
their labels (``scoreSentiment``, ``reviewState``, ``originalScore``); the model, a Python function, knows them by the review's text, and
counts what it is asked. ``by hand`` is the fewest calls that find the rows of the question alone, asking in the order of the file.

Q1, Q2, Q5 and Q6 are right if they give as many rows as they should, all in the ground truth; Q3, Q4, Q7 and Q8 if they equal it; Q9 and
Q10 if every score is the model's own (their figure is the rank correlation with the ground truth).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kleene

TAKEN, QUANTUMANIA = "taken_3", "ant_man_and_the_wasp_quantumania"
FUNCTIONS = """
    CREATE FUNCTION positive(review TEXT) RETURNS BOOLEAN AS PROMPT 'The movie review is clearly positive. Review: {review}';
    CREATE FUNCTION same_sentiment(one TEXT, other TEXT) RETURNS BOOLEAN
        AS PROMPT 'The two movie reviews express the same sentiment. First: {one} Second: {other}' VIA positive;
    CREATE FUNCTION opposite_sentiment(one TEXT, other TEXT) RETURNS BOOLEAN
        AS PROMPT 'The two movie reviews express opposite sentiments. First: {one} Second: {other}' VIA <> positive;
    CREATE FUNCTION liking(review TEXT) RETURNS DOUBLE AS PROMPT 'Score from 1 to 5 how much the reviewer liked the movie. Review: {review}';
"""
PAIRS = f"""
    FROM Reviews r1 JOIN Reviews r2 ON r1.id = r2.id AND r1.reviewId <> r2.reviewId
    WHERE r1.id = '{QUANTUMANIA}' AND"""
Rows = list[tuple[Any, ...]]


@attrs.frozen
class Question:
    """``rows`` is how many rows a LIMIT asks for. ``ranked``: the score is the second column. ``least``: calls by hand."""

    id: str
    sql: str
    least: int
    rows: int | None = None
    ranked: bool = False


QUESTIONS = (
    Question("Q1", "SELECT reviewId FROM Reviews WHERE positive(reviewText) LIMIT 5", 6, rows=5),
    Question("Q2", f"SELECT reviewId FROM Reviews WHERE positive(reviewText) AND id = '{TAKEN}' LIMIT 5", 48, rows=5),
    Question(
        "Q3", f"SELECT count(*) AS positive_review_cnt FROM Reviews WHERE positive(reviewText) AND id = '{TAKEN}'", 60
    ),
    Question("Q4", f"SELECT avg(positive(reviewText)::INT) AS positivity_ratio FROM Reviews WHERE id = '{TAKEN}'", 60),
    Question(
        "Q5",
        f"SELECT r1.id, r1.reviewId, r2.reviewId {PAIRS} same_sentiment(r1.reviewText, r2.reviewText) LIMIT 10",
        5,
        rows=10,
    ),
    Question(
        "Q6",
        f"SELECT r1.id, r1.reviewId, r2.reviewId {PAIRS} opposite_sentiment(r1.reviewText, r2.reviewText) LIMIT 10",
        6,
        rows=10,
    ),
    Question(
        "Q7", f"SELECT r1.id, r1.reviewId, r2.reviewId {PAIRS} opposite_sentiment(r1.reviewText, r2.reviewText)", 70
    ),
    Question(
        "Q8",
        f"SELECT if(positive(reviewText), 'POSITIVE', 'NEGATIVE') AS sentiment, count(*) FROM Reviews WHERE id = '{TAKEN}' GROUP BY ALL",
        60,
    ),
    Question("Q9", f"SELECT reviewId, liking(reviewText) FROM Reviews WHERE id = '{QUANTUMANIA}'", 70, ranked=True),
    Question(
        "Q10",
        "SELECT m.id, avg(liking(r.reviewText)) FROM (SELECT DISTINCT id FROM Movies) m JOIN Reviews r ON r.id = m.id GROUP BY m.id",
        712,
        ranked=True,
    ),
)


@attrs.frozen
class Labels:
    """What the model knows of each review's text."""

    positive: dict[str, bool]
    liking: dict[str, float]
    movies: dict[str, list[float]]
    reviews: dict[int, float]

    @classmethod
    def read(cls, data: Path) -> Labels:
        con = duckdb.connect()
        rows = con.execute(
            "SELECT id, reviewId, reviewText, scoreSentiment = 'POSITIVE', "
            r"try_cast(regexp_extract(originalScore, '^([0-9.]+)/5$', 1) AS DOUBLE) FROM read_csv(?)",
            [str(data / "Reviews.csv")],
        ).fetchall()
        positive = {text: label for _, _, text, label, _ in rows}
        liking = {
            text: max(1.0, stars) if stars is not None else 4.0 if label else 2.0 for _, _, text, label, stars in rows
        }
        movies: dict[str, list[float]] = defaultdict(list)
        for movie, _, text, _, _ in rows:
            movies[movie].append(liking[text])
        return cls(positive, liking, movies, {review: liking[text] for _, review, text, _, _ in rows})


@attrs.define
class Reader:
    """The model: it answers from the labels, and counts."""

    labels: Labels
    asked: Counter[str] = attrs.field(factory=Counter)

    def __call__(self, request: Any) -> str:
        self.asked[request.prompt] += 1
        question, _, rest = request.prompt.partition(" Review: ")
        if question.startswith("Score"):
            return str(self.labels.liking[_known(rest, self.labels.liking)])
        if question.startswith("The movie review is clearly positive"):
            return str(self.labels.positive[_known(rest, self.labels.positive)]).lower()
        one, _, other = request.prompt.partition(" First: ")[2].partition(" Second: ")
        same = self.labels.positive[one] == self.labels.positive[_known(other, self.labels.positive)]
        return str(same == ("same sentiment" in request.prompt)).lower()

    def take(self) -> int:
        calls = self.asked.total()
        self.asked.clear()
        return calls


def _known(text: str, labels: dict[str, Any]) -> str:
    """The review that a prompt ends with: what follows it is how to reply."""
    return text if text in labels else text.rsplit("\n\nReply with", 1)[0]


@contextmanager
def engine(data: Path, model: Reader) -> Iterator[kleene.Engine]:
    """An engine over the two tables, labels left out, in the order of the files."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE Movies AS FROM read_csv('{data / 'Movies.csv'}')")
    hidden = "scoreSentiment, reviewState, originalScore"
    con.execute(f"CREATE TABLE Reviews AS SELECT * EXCLUDE ({hidden}) FROM read_csv('{data / 'Reviews.csv'}')")
    with kleene.attach(con, store=":memory:", models=kleene.FunctionModel(model)) as k:
        k.sql(FUNCTIONS)
        yield k
    con.close()


def judge(question: Question, rows: Rows, truth: Rows, labels: Labels) -> tuple[bool, float | None]:
    """Whether the rows are right, and for a ranking its rank correlation with the truth."""
    if question.ranked:
        own: dict[Any, float] = (
            {k: sum(v) / len(v) for k, v in labels.movies.items()} if question.id == "Q10" else dict(labels.reviews)
        )
        right = {key for key, _ in rows} == {key for key, _ in truth} and all(
            abs(score - own[key]) < 1e-9 for key, score in rows
        )
        wanted = {key: score for key, score in truth if score is not None}
        both = [(score, wanted[key]) for key, score in rows if key in wanted]
        return right, rank_correlation([a for a, _ in both], [b for _, b in both])
    if question.rows is not None:
        return len(rows) == question.rows and set(rows) <= set(truth), None
    return sorted(map(_close, rows)) == sorted(map(_close, truth)), None


def _close(row: tuple[Any, ...]) -> str:
    return repr(tuple(round(v, 9) if isinstance(v, float) else v for v in row))


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Spearman's: Pearson's correlation of the ranks, ties sharing their mean rank. 0.0 where one side is constant.

    >>> rank_correlation([1, 2, 3], [10, 20, 20])
    0.8660254037844387
    """
    a, b = _ranks(xs), _ranks(ys)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    under = (sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)) ** 0.5
    return float(top / under) if under else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    places: dict[float, list[int]] = defaultdict(list)
    for place, value in enumerate(sorted(values)):
        places[value].append(place)
    return [sum(places[v]) / len(places[v]) for v in values]


@attrs.frozen
class Answered:
    """One question answered: calls and tokens, rows, whether they are right, rank correlation."""

    calls: int
    tokens: int
    rows: int
    right: bool
    correlation: float | None


def answer(k: kleene.Engine, model: Reader, question: Question, truth: Rows) -> Answered:
    result = k.sql(question.sql)
    rows = result.fetchall()
    right, correlation = judge(question, rows, truth, model.labels)
    return Answered(model.take(), result.usage.tokens, len(rows), right, correlation)


def run(data: Path, show: Callable[[str], None] = lambda text: None) -> tuple[list[Answered], list[Answered]]:
    """All questions, each as if it were the only one (without memo), and all in one session."""
    model = Reader(Labels.read(data))
    truths = [
        duckdb.connect().execute(f"FROM read_csv('{data / 'ground_truth' / (q.id + '.csv')}')").fetchall()
        for q in QUESTIONS
    ]
    both: list[list[Answered]] = []
    for memo in ("off", "on"):
        with engine(data, model) as k:
            k.sql(f"SET memo = {memo}")
            if memo == "off":
                for question in QUESTIONS:
                    show(k.explain(question.sql).duckdb_sql)
            both.append([answer(k, model, q, truth) for q, truth in zip(QUESTIONS, truths, strict=True)])
    return both[0], both[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with Movies.csv and Reviews.csv")
    parser.add_argument("--sql", action="store_true", help="print the SQL that DuckDB runs")
    given = parser.parse_args()
    alone, together = run(given.data, print if given.sql else lambda text: None)
    print(f"{'':4} {'by hand':>8} {'alone':>8} {'tokens':>8} {'session':>8} {'tokens':>8} {'rows':>6}  right")
    for question, one, other in zip(QUESTIONS, alone, together, strict=True):
        rank = "" if one.correlation is None else f"   rank correlation {one.correlation:.2f}"
        right = "yes" if one.right and other.right else "NO"
        print(
            f"{question.id:4} {question.least:>8} {one.calls:>8} {one.tokens:>8} {other.calls:>8} {other.tokens:>8} {one.rows:>6}  {right}{rank}"
        )
    sums = [sum(q.least for q in QUESTIONS)] + [
        sum(getattr(a, n) for a in r) for r in (alone, together) for n in ("calls", "tokens")
    ]
    print(f"{'sum':4} " + " ".join(f"{value:>8}" for value in sums))
    return 0 if all(a.right for a in (*alone, *together)) else 1


if __name__ == "__main__":
    sys.exit(main())
