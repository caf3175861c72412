"""kleene.udfs.fixpoint: a statement is run until it lacks nothing; stragglers hold up only who needs them; what shifts is found out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from kleene.planner.errors import Cancelled, Unstable
from kleene.planner.specs import Carrier, Volatility
from kleene.udfs.fixpoint import Loop, RunReport, Shifting, run
from kleene.udfs.lookups import Key, Lookups, SiteAnswers
from kleene.udfs.statement import CallSite, Wanted
from tests.udfs.calls import spec


class Statement:
    """A statement in Python: ``body(get)`` looks answers up; ``get(site, key)`` is None where the answer is missing."""

    def __init__(self, sites: int, body: Callable[[Callable[[int, str | None], Any]], Any]):
        self.sites = [CallSite(spec(), Volatility.IMMUTABLE, SiteAnswers(f"1:{i + 1}")) for i in range(sites)]
        self.lookups = Lookups()
        self.lookups.open([s.answers for s in self.sites])
        self.body = body
        self.reports: list[RunReport] = []

    def get(self, site: int, key: str | None) -> Any:
        name = self.sites[site].name
        return self.lookups.get(Carrier.TEXT, pa.array([name]), pa.array([key], pa.string()))[0].as_py()

    def run(self, asking: Any, **options: Any) -> Any:
        options.setdefault("independent", frozenset(s.name for s in self.sites))
        options.setdefault("cancelled", lambda: False)
        return run(
            Loop(
                sites=self.sites,
                execute=lambda: self.body(self.get),
                asking=asking,
                report=self.reports.append,
                error_types=(ZeroDivisionError,),
                **options,
            )
        )


class AtOnce:
    """Answers all that is asked before the wait is over, by rule."""

    def __init__(self, rule: Callable[[str], Any] = str.upper):
        self.rule = rule
        self.rounds: list[list[tuple[str, list[Key]]]] = []

    def ask(self, wanted: list[Wanted]) -> None:
        self.rounds.append([(w.site.name, sorted(w.keys)) for w in wanted])
        for want in wanted:
            want.site.answers.answers.update((k, self.rule(str(k))) for k in want.keys)

    def wait(self, *, early: bool, not_before: float) -> bool:
        return True


class OneByOne(AtOnce):
    """Answers in the order given, one a wait; ``slow`` keys last of all."""

    def __init__(self, slow: Iterable[str] = (), rule: Callable[[str], Any] = str.upper):
        super().__init__(rule)
        self.slow = set(slow)
        self.queue: list[tuple[CallSite, Key]] = []

    def ask(self, wanted: list[Wanted]) -> None:
        self.rounds.append([(w.site.name, sorted(w.keys)) for w in wanted])
        self.queue += [(w.site, k) for w in wanted for k in w.keys]
        self.queue.sort(key=lambda asked: asked[1] in self.slow)

    def wait(self, *, early: bool, not_before: float) -> bool:
        while self.queue:
            site, key = self.queue.pop(0)
            site.answers.answers[key] = self.rule(str(key))
            if early and self.queue:
                return False
        return True


def test_the_run_that_lacks_nothing_is_the_result() -> None:
    statement = Statement(1, lambda get: [get(0, k) for k in ("a", "b", "a")])
    asking = AtOnce()
    assert statement.run(asking) == ["A", "B", "A"]
    assert asking.rounds == [[("1:1", ["a", "b"])]]
    assert [(r.number, r.notes, r.answered) for r in statement.reports] == [(1, 2, 0), (2, 0, 2)]


def test_without_calls_there_is_one_run() -> None:
    statement = Statement(1, lambda get: 42)
    assert statement.run(AtOnce()) == 42
    assert len(statement.reports) == 1


def test_nested_calls_take_a_round_each() -> None:
    def body(get: Callable[[int, str | None], Any]) -> Any:
        inner = get(0, "a")
        return None if inner is None else get(1, inner)

    statement = Statement(2, body)
    asking = AtOnce(lambda k: k + "!")
    assert statement.run(asking) == "a!!"
    assert asking.rounds == [[("1:1", ["a"])], [("1:2", ["a!"])]]


def test_two_independent_calls_are_asked_in_one_round() -> None:
    statement = Statement(2, lambda get: (get(0, "a"), get(1, "b")))
    asking = AtOnce()
    assert statement.run(asking) == ("A", "B")
    assert len(asking.rounds) == 1


def test_an_answer_that_is_unknown_ends_the_asking() -> None:
    statement = Statement(1, lambda get: get(0, "a"))
    asking = AtOnce(lambda k: None)
    assert statement.run(asking) is None
    assert len(asking.rounds) == 1


def filtered(get: Callable[[int, str | None], Any]) -> Any:
    """Site 1 decides for each row whether site 2 is asked."""
    rows = ["a", "b", "c", "d"]
    return [get(1, f"row {r}") for r in rows if get(0, r) is not None]


def test_a_straggler_holds_up_its_own_row_only() -> None:
    statement = Statement(2, filtered)
    asking = OneByOne(slow=["a"])
    assert statement.run(asking) == [f"ROW {r}" for r in "ABCD"]
    assert asking.rounds[0] == [("1:1", ["a", "b", "c", "d"])]
    assert asking.rounds[1] == [("1:2", ["row b"])], "asked while the filter of row a is still out"
    assert asking.rounds[-1] == [("1:2", ["row a"])]


def test_nothing_is_asked_twice_while_it_is_out() -> None:
    statement = Statement(2, filtered)
    asking = OneByOne()
    statement.run(asking)
    asked = [(site, k) for found in asking.rounds for site, keys in found for k in keys]
    assert len(asked) == len(set(asked)) == 8


def test_early_runs_ask_for_the_same_as_full_rounds() -> None:
    early, full = OneByOne(slow=["b"]), AtOnce()
    assert Statement(2, filtered).run(early) == Statement(2, filtered).run(full)
    assert {k for r in early.rounds for _, keys in r for k in keys} == {
        k for r in full.rounds for _, keys in r for k in keys
    }


def test_waves_wait_for_their_round() -> None:
    statement = Statement(2, filtered)
    asking = OneByOne(slow=["a"])
    statement.run(asking, early=False)
    assert len(asking.rounds) == 2


def test_an_early_run_waits_while_runs_cost_much() -> None:
    class Recording(OneByOne):
        waits: list[float]

        def wait(self, *, early: bool, not_before: float) -> bool:
            self.waits.append(not_before)
            return super().wait(early=early, not_before=not_before)

    ticks = itertools.count()
    statement = Statement(2, filtered)
    asking = Recording()
    asking.waits = []
    # Each look at the clock is a second: a run costs one, the rest after it is twice that, and doubles while runs bring nothing.
    statement.run(asking, clock=lambda: float(next(ticks)))
    assert asking.waits[0] == 2 + 2.0 * 1


def test_a_run_that_noted_nothing_waits_for_what_is_out() -> None:
    """A guard that turned leaves calls that no row needs any more: they are paid for, so they are kept."""

    def body(get: Callable[[int, str | None], Any]) -> Any:
        return "done" if get(0, "a") is not None else get(1, "b")

    statement = Statement(2, body)
    asking = OneByOne(slow=["b"])
    assert statement.run(asking) == "done"
    assert statement.sites[1].answers.answers == {"b": "B"}


def test_an_error_of_a_run_that_lacked_something_is_not_final() -> None:
    def body(get: Callable[[int, str | None], Any]) -> Any:
        return 1 / len(get(0, "a") or "")

    assert Statement(1, body).run(AtOnce()) == 1.0


def test_an_error_of_a_run_that_lacked_nothing_is_the_statements() -> None:
    def body(get: Callable[[int, str | None], Any]) -> Any:
        return 1 / (len(get(0, "a") or "") - 1)

    with pytest.raises(ZeroDivisionError):
        Statement(1, body).run(AtOnce())


@pytest.mark.parametrize("sites", [1, 2])
def test_arguments_that_change_are_found_at_the_second_run(sites: int) -> None:
    numbers = itertools.count()
    statement = Statement(sites, lambda get: get(0, f"random {next(numbers)}"))
    asking = AtOnce()
    with pytest.raises(Shifting) as caught:
        statement.run(asking)
    assert caught.value.site == "1:1"
    assert len(asking.rounds) == 1


def test_suspicious_arguments_are_compared_before_anything_is_paid() -> None:
    numbers = itertools.count()
    statement = Statement(1, lambda get: get(0, f"random {next(numbers)}"))
    asking = AtOnce()
    with pytest.raises(Shifting):
        statement.run(asking, suspicious=True)
    assert asking.rounds == []


def test_a_suspicious_statement_that_stands_still_is_run_once_more() -> None:
    statement = Statement(1, lambda get: get(0, "a"))
    assert statement.run(AtOnce(), suspicious=True) == "A"
    assert len(statement.reports) == 3


def test_new_keys_alone_do_not_shift() -> None:
    def body(get: Callable[[int, str | None], Any]) -> Any:
        return get(0, "b") if get(0, "a") is not None else None

    statement = Statement(1, body)
    assert statement.run(AtOnce()) == "B"


def test_keys_that_vanish_alone_do_not_shift() -> None:
    def body(get: Callable[[int, str | None], Any]) -> Any:
        first = get(0, "a")
        return [get(1, k) for k in (("x", "y") if first is None else ("x",))]

    assert Statement(2, body).run(AtOnce()) == ["X"]


def test_a_statement_without_end_is_called_unstable() -> None:
    numbers = itertools.count()
    statement = Statement(1, lambda get: get(0, f"n{next(numbers)}"))
    with pytest.raises(Unstable) as caught:
        statement.run(AtOnce(), independent=frozenset(), max_runs=7)
    assert str(caught.value) == "no fixed point after 7 runs: f still asks for new arguments"
    assert caught.value.hint == "an argument changes from run to run; store it in a table first, or SET max_runs = n"
    assert caught.value.site == "1:1"


def test_a_statement_without_end_ends_with_stragglers_too() -> None:
    numbers = itertools.count()

    def body(get: Callable[[int, str | None], Any]) -> Any:
        return (get(1, "slow"), get(0, f"n{next(numbers)}"))

    statement = Statement(2, body)
    with pytest.raises(Unstable):
        statement.run(OneByOne(slow=["slow"]), independent=frozenset(), max_runs=7)


def test_a_cancel_ends_the_loop_before_the_next_run() -> None:
    statement = Statement(1, lambda get: get(0, "a"))
    with pytest.raises(Cancelled):
        statement.run(AtOnce(), cancelled=lambda: len(statement.reports) == 1)
    assert len(statement.reports) == 1


def test_what_asking_raises_ends_the_loop() -> None:
    class Failing(AtOnce):
        def wait(self, *, early: bool, not_before: float) -> bool:
            raise KeyError("no")

    with pytest.raises(KeyError):
        Statement(1, lambda get: get(0, "a")).run(Failing())


def test_a_hundred_thousand_keys_are_quick() -> None:
    keys = [f"k{i}" for i in range(100_000)]
    statement = Statement(1, lambda get: None)
    name = statement.sites[0].name

    def execute(_: Any) -> int:
        out = [
            statement.lookups.get(Carrier.TEXT, pa.array([name] * 2000), pa.array(keys[i : i + 2000]))
            for i in range(0, len(keys), 2000)
        ]
        return sum(len(o) for o in out)

    statement.body = execute
    started = time.process_time()
    assert statement.run(AtOnce()) == 100_000
    assert time.process_time() - started < 2


def test_an_argument_that_was_null_until_its_own_call_was_answered_does_not_shift() -> None:
    def body(get: Callable[[int, str | None], Any]) -> Any:
        return [get(1, None if (x := get(0, r)) is None else f"{x} {r}") for r in ("a", "b", "c")]

    assert Statement(2, body).run(OneByOne(slow=["a"])) == ["A A", "B B", "C C"]
