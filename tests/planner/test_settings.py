"""SET keys are data with defaults; bad keys and values say what would be right."""

from __future__ import annotations

import attrs
import pytest

from kleene.planner.errors import ConfigError
from kleene.planner.settings import KEYS, Settings, is_key, setting_key
from kleene.planner.specs import BudgetLimits


def test_the_keys_are_those_of_the_interface() -> None:
    assert {k.key for k in KEYS} == {
        "effort",
        "estimates",
        "model.default",
        "max_tokens",
        "memo",
        "memo_unknown",
        "cache_prefix",
        "budget.calls",
        "budget.tokens",
        "budget.dollars",
        "budget.depth",
        "budget.wall",
        "statement.calls",
        "ondemand.calls",
        "concurrency",
        "batch",
        "pilot",
        "wave",
        "distinct_rows",
        "materialise_ms",
        "measure_ms",
        "max_runs",
        "round_bytes",
        "recursion_limit",
        "on_error",
        "on_unknown",
        "confirm.dollars",
        "temperature",
        "seed",
        "timeout",
        "trace_text",
    }


def test_every_key_has_a_field_with_its_default() -> None:
    fields = {f.name for f in attrs.fields(Settings)}
    assert {k.field for k in KEYS} | {"rules_off"} == fields
    assert all(getattr(Settings(), k.field) == k.default for k in KEYS)


def test_every_key_has_a_line_of_description() -> None:
    assert all(k.description and "\n" not in k.description for k in KEYS)


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("effort", "HIGH", "high"), ("effort", None, None), ("model.default", "root", "root"), ("max_tokens", "2_000", 2000),
        ("memo", "off", False), ("memo", True, True), ("MEMO", 0, False), ("budget.dollars", ".5", 0.5), ("budget.dollars", 2, 2.0),
        ("budget.calls", None, None), ("budget.calls", "NULL", None), ("batch", "AUTO", "auto"), ("batch", 20, 20), ("on_error", "NULL", "null"),
        ("on_unknown", "fail", "fail"), ("temperature", "0", 0.0), ("seed", "-3", -3), ("seed", "12345678901234567890", 12345678901234567890),
        ("budget.wall", "1.5", 1.5), ("recursion_limit", "100", 100), ("max_tokens", "1e3", 1000),
    ],
)  # fmt: skip
def test_a_value_is_read_by_its_key_s_type(key: str, value: object, read: object) -> None:
    assert Settings().set(key, value).get(key) == read


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("effort", "much", "effort must be low, medium, high or max (or NULL), not 'much'"),
        ("memo", "maybe", "memo must be on or off, not 'maybe'"),
        ("memo", None, "memo must be on or off, not NULL"),
        ("max_tokens", "0", "max_tokens must be a whole number of at least 1, not '0'"),
        ("max_tokens", "1.5", "max_tokens must be a whole number of at least 1, not '1.5'"),
        ("max_tokens", True, "max_tokens must be a whole number of at least 1, not True"),
        ("budget.dollars", "-1", "budget.dollars must be a number of at least 0 (or NULL), not '-1'"),
        ("budget.dollars", "nan", "budget.dollars must be a number of at least 0 (or NULL), not 'nan'"),
        ("budget.wall", "inf", "budget.wall must be a number of at least 0 (or NULL), not 'inf'"),
        ("batch", "0", "batch must be a count of at least 1, or auto, not '0'"),
        ("temperature", "3", "temperature must be a number from 0 to 2 (or NULL), not '3'"),
        ("on_error", "stop", "on_error must be fail or null, not 'stop'"),
        ("model.default", " ", "model.default must be a text, not ' '"),
        ("rules.stage", "perhaps", "rules.stage must be on or off, not 'perhaps'"),
    ],
)
def test_a_bad_value_says_what_is_expected(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings().set(key, value)
    assert caught.value.message == message
    assert caught.value.hint == f"RESET {key} brings back the default."


@pytest.mark.parametrize("key", ["on_error", "on_unknown"])
@pytest.mark.parametrize("value", [None, "null", "NULL"])
def test_null_may_be_a_choice_with_or_without_quotes(key: str, value: str | None) -> None:
    assert Settings().set(key, "fail").set(key, value).get(key) == "null"


def test_an_unknown_key_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings().set("budget.dollar", 1)
    assert caught.value.message == "there is no setting budget.dollar"
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Did you mean budget.dollars? The keys are effort, model.default, ")
    assert caught.value.hint.endswith("rules.NAME.")


def test_rules_are_switched_by_any_name() -> None:
    settings = Settings().set("rules.Stage", "off").set("rules.guard", "off").set("rules.guard", "on")
    assert settings.rules_off == frozenset({"stage"})
    assert not settings.rule_is_on("stage")
    assert settings.reset("rules.stage") == Settings()


def test_reset_brings_back_the_default() -> None:
    assert Settings().set("effort", "low").reset("effort") == Settings()
    with pytest.raises(ConfigError):
        Settings().reset("efort")


def test_budget_keys_are_limits() -> None:
    settings = Settings().set("budget.calls", 20).set("budget.wall", 1.5)
    assert settings.limits() == BudgetLimits(calls=20, wall=1.5)


def test_setting_leaves_the_other_settings_alone() -> None:
    before = Settings()
    before.set("effort", "low")
    assert before == Settings()


def test_dotted_names_and_known_names_are_kleene_s() -> None:
    assert is_key("budget.cals")
    assert is_key("Effort")
    assert not is_key("threads")
    assert setting_key("rules.stage") is not None
    assert setting_key("threads") is None
