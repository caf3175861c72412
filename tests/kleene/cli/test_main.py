from __future__ import annotations

import contextlib
from pathlib import Path

import duckdb
import pytest

from kleene.__main__ import main
from kleene.cli.terminal import Terminal
from kleene.planner.errors import (
    BudgetExceeded,
    CallFailed,
    Cancelled,
    ConfigError,
    KleeneError,
    NoModel,
    ParseError,
    PlanError,
    PolicyError,
    Refused,
    StoreLocked,
    Unstable,
)
from kleene.planner.specs import Span
from tests.kleene.cli.doubles import Answer, Engine, Stream, invoke

ERRORS = [
    (ParseError("no"), 1),
    (PlanError("no"), 1),
    (PolicyError("no"), 1),
    (CallFailed("no"), 1),
    (Unstable("no"), 1),
    (ConfigError("no"), 1),
    (Refused("no"), 3),
    (BudgetExceeded("calls", 20, 21), 3),
    (NoModel("no"), 4),
    (StoreLocked("no"), 5),
    (Cancelled("no"), 130),
    (duckdb.CatalogException("no"), 1),
    (ValueError("no"), 1),
    (KeyboardInterrupt(), 130),
    (BrokenPipeError(), 0),
]


def failing(error: BaseException) -> Engine:
    def fail(text: str) -> Answer:
        raise error

    return Engine(on_sql=fail)


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=[type(e).__name__ for e, _ in ERRORS])
def test_an_error_has_its_exit_code_and_closes_the_engine(error: BaseException, code: int) -> None:
    engine = failing(error)
    done = invoke("sql", "SELECT 1", engine=engine)
    assert (done.code, done.out, engine.closed) == (code, "", True)
    assert "Traceback" not in done.err


def test_an_error_is_shown_with_its_place_and_hint() -> None:
    source = "SELECT llm_boool(x)"
    error = PlanError(
        "there is no function llm_boool", hint="did you mean llm_bool?", span=Span.at(source, 7, 16), source=source
    )
    assert invoke("sql", source, engine=failing(error)).err == (
        "error: there is no function llm_boool\n"
        "line 1: SELECT llm_boool(x)\n"
        "               ^^^^^^^^^\n"
        "hint: did you mean llm_bool?\n"
    )


def test_duckdbs_errors_are_passed_on_in_its_words() -> None:
    done = invoke("sql", "SELECT nothing")
    assert done.code == 1
    assert (
        done.err
        == 'error: Binder Error: Referenced column "nothing" was not found because the FROM clause is missing\n'
    )


def test_a_fault_of_ours_is_named_as_one() -> None:
    assert invoke("sql", "SELECT 1", engine=failing(ValueError("odd"))).err == (
        "error: ValueError: odd\nhint: this is a fault of Kleene's; --log debug shows where it happened\n"
    )


def test_log_debug_shows_the_traceback() -> None:
    err = invoke("sql", "SELECT 1", "--log", "debug", engine=failing(KleeneError("no"))).err
    assert err.startswith("Traceback (most recent call last):")
    assert err.endswith("error: no\n")


def test_an_interrupt_cancels_the_statement() -> None:
    engine = failing(KeyboardInterrupt())
    done = invoke("sql", "SELECT 1", engine=engine)
    assert (done.code, done.err, engine.cancelled, engine.closed) == (130, "cancelled\n", True, True)


def test_no_command_prints_the_help() -> None:
    done = invoke()
    assert done.code == 0
    assert done.out.startswith("usage: python -m kleene [OPTIONS] COMMAND ...\n")


@pytest.mark.parametrize(
    "argv",
    [["--nonsense"], ["nonsense"], ["sql"], ["sql", "x", "--format", "xml"], ["sql", "x", "--budget-calls", "-1"]],
)
def test_a_wrong_command_line_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(argv)
    assert raised.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m kleene")


def test_a_configuration_that_does_not_load_is_a_usage_error(tmp_path: Path) -> None:
    def connect(path: str, **options: object) -> Engine:
        raise ConfigError("kleene.toml, line 3: no such key", hint="remove it")

    out, err = Stream(), Stream()
    code = main(["sql", "SELECT 1"], terminal=Terminal(Stream(), out, err), connect=connect)
    assert (code, err.getvalue()) == (2, "error: kleene.toml, line 3: no such key\nhint: remove it\n")


def test_a_full_disk_is_an_error_in_the_systems_words() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    err = Stream()
    out = full.open("w")
    try:
        code = main(["sql", "SELECT 1"], terminal=Terminal(Stream(), out, err), connect=Engine().connect)
        assert (code, err.getvalue()) == (1, "error: No space left on device\n")
    finally:
        with contextlib.suppress(OSError):
            out.close()
