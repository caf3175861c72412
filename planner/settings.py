"""The SET keys of a session: their names, types, defaults and meaning, as data, and the frozen values they are set to."""

from __future__ import annotations

import math
from typing import Any

import attrs

from kleene.planner.errors import ConfigError, did_you_mean, number
from kleene.planner.specs import DIMENSIONS, BudgetLimits

EFFORTS = ("low", "medium", "high", "max")


@attrs.frozen
class SettingKey:
    """One key. ``type``: ``bool``, ``int``, ``float``, ``text``, ``choice`` (of ``choices``), ``batch`` (a count or auto).

    ``low`` and ``high`` bound numbers, both included. ``optional`` keys accept NULL, "no value". ``may_model_set``: a model's own
    statement may set it; budgets may only be lowered that way, which the session checks with ``Settings.limits``.
    """

    key: str
    type: str
    default: Any
    description: str
    may_model_set: bool = False
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    optional: bool = False

    @property
    def field(self) -> str:
        """The attribute of ``Settings`` that holds the value."""
        return self.key.replace(".", "_")

    @property
    def is_limit(self) -> bool:
        """Whether the key is a budget or a cap, which a model may lower but not raise."""
        return self.key.startswith("budget.") or self.key in ("statement.calls", "recursion_limit")

    def expects(self) -> str:
        """What a value must be, in words for an error message."""
        if self.type == "choice":
            words = f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        elif self.type == "bool":
            words = "on or off"
        elif self.type == "batch":
            words = "a count of at least 1, or auto"
        elif self.type == "text":
            words = "a text"
        else:
            words = "a whole number" if self.type == "int" else "a number"
            if self.low > -math.inf and self.high < math.inf:
                words += f" from {number(self.low)} to {number(self.high)}"
            elif self.low > -math.inf:
                words += f" of at least {number(self.low)}"
        return words + (" (or NULL)" if self.optional else "")


KEYS: tuple[SettingKey, ...] = (
    SettingKey("effort", "choice", None, "effort of calls that do not say their own", True, EFFORTS, optional=True),
    SettingKey("model.default", "text", "worker", "alias of calls that do not say their own", True),
    SettingKey("max_tokens", "int", 1024, "output tokens a call may use, reasoning included", True, low=1),
    SettingKey("memo", "bool", True, "answer from the memo what was asked before", True),
    SettingKey(
        "estimates",
        "bool",
        True,
        "plan with what earlier statements saw of the same calls, and keep what is seen",
        True,
    ),
    SettingKey("memo_unknown", "bool", False, "remember all unknown answers (off: only refusals)"),
    SettingKey("cache_prefix", "bool", True, "ask providers to cache the common start of prompts", True),
    SettingKey(
        "budget.calls",
        "int",
        None,
        "requests that may be sent, retries and repairs included",
        True,
        low=0,
        optional=True,
    ),
    SettingKey("budget.tokens", "int", None, "tokens that may be used, input and output", True, low=0, optional=True),
    SettingKey("budget.dollars", "float", None, "dollars that may be spent", True, low=0, optional=True),
    SettingKey("budget.depth", "int", None, "levels of child sessions", True, low=0, optional=True),
    SettingKey("budget.wall", "float", None, "seconds that may pass", True, low=0, optional=True),
    SettingKey("statement.calls", "int", None, "requests that one statement may send", True, low=0, optional=True),
    SettingKey("ondemand.calls", "int", 1000, "calls that DuckDB may ask for row by row in one statement", low=0),
    SettingKey("concurrency", "int", 32, "calls in flight at a time", low=1),
    SettingKey("batch", "batch", 1, "items asked in one request, where a function does not say BATCH", True),
    SettingKey(
        "pilot",
        "int",
        0,
        "arguments of each call that EXPLAIN asks to learn what they lead to; 0 asks none",
        True,
        low=0,
    ),
    SettingKey("wave", "int", 1, "least calls that a LIMIT or EXISTS asks for at a time", True, low=1),
    SettingKey("distinct_rows", "int", 100_000, "rows from which chains of calls go over DISTINCT", low=0),
    SettingKey(
        "materialise_ms", "int", 200, "milliseconds of a run from which its pure part is kept in temp tables", low=0
    ),
    SettingKey("measure_ms", "int", 200, "milliseconds that counting for an estimate may take", low=0),
    SettingKey("round_bytes", "int", 500_000_000, "bytes of arguments that one run may ask with", low=0),
    SettingKey("max_runs", "int", 100, "runs of a statement before it is called unstable", low=1),
    SettingKey("recursion_limit", "int", 10_000, "rounds of a recursive query before it is an error", True, low=1),
    SettingKey(
        "on_error", "choice", "fail", "a failed call fails the statement, or gives NULL", True, ("fail", "null")
    ),
    SettingKey(
        "on_unknown",
        "choice",
        "null",
        "an answer that cannot be read gives NULL, or fails the statement",
        True,
        ("null", "fail"),
    ),
    SettingKey("confirm.dollars", "float", 0.10, "estimated dollars above which a statement asks first", low=0),
    SettingKey("temperature", "float", None, "sampling temperature of calls", True, low=0, high=2, optional=True),
    SettingKey("seed", "int", None, "sampling seed of calls", True, optional=True),
    SettingKey("timeout", "float", 120.0, "seconds a call may take", low=0.001),
    SettingKey("trace_text", "bool", True, "keep prompts and replies in the trace, or only their digests"),
)
RULES_PREFIX = "rules."
_BY_KEY = {k.key: k for k in KEYS}
_ON = frozenset({"on", "true", "yes", "1"})
_OFF = frozenset({"off", "false", "no", "0"})


def is_key(key: str) -> bool:
    """Whether ``SET key`` is Kleene's: one of the known keys, or any dotted name (DuckDB's settings have no dots)."""
    return "." in key or key.casefold() in _BY_KEY


@attrs.frozen
class Settings:
    """The values of all keys, one attribute each, dots as underscores. ``rules_off`` holds the names of the rules switched off.

    >>> Settings().set("budget.dollars", "0.5").budget_dollars
    0.5
    """

    effort: str | None = None
    model_default: str = "worker"
    max_tokens: int = 1024
    memo: bool = True
    estimates: bool = True
    memo_unknown: bool = False
    cache_prefix: bool = True
    budget_calls: int | None = None
    budget_tokens: int | None = None
    budget_dollars: float | None = None
    budget_depth: int | None = None
    budget_wall: float | None = None
    statement_calls: int | None = None
    ondemand_calls: int = 1000
    concurrency: int = 32
    batch: int | str = 1
    pilot: int = 0
    wave: int = 1
    distinct_rows: int = 100_000
    materialise_ms: int = 200
    measure_ms: int = 200
    round_bytes: int = 500_000_000
    max_runs: int = 100
    recursion_limit: int = 10_000
    on_error: str = "fail"
    on_unknown: str = "null"
    confirm_dollars: float = 0.10
    temperature: float | None = None
    seed: int | None = None
    timeout: float = 120.0
    trace_text: bool = True
    rules_off: frozenset[str] = frozenset()

    def set(self, key: str, value: object) -> Settings:
        """The settings with one key changed. ``value`` is a Python value or its text; None stands for NULL.

        Raises ``ConfigError`` for an unknown key, naming the nearest and all known, and for a value that does not fit.
        """
        key = key.casefold()
        if key.startswith(RULES_PREFIX) and len(key) > len(RULES_PREFIX):
            name = key.removeprefix(RULES_PREFIX)
            off = self.rules_off - {name} if _switch(key, value) else self.rules_off | {name}
            return attrs.evolve(self, rules_off=off)
        known = _known(key)
        return self._with(known, _read(known, value))

    def reset(self, key: str) -> Settings:
        """The settings with one key back at its default; ``rules.NAME`` back on. Raises ``ConfigError`` for an unknown key."""
        key = key.casefold()
        if key.startswith(RULES_PREFIX) and len(key) > len(RULES_PREFIX):
            return attrs.evolve(self, rules_off=self.rules_off - {key.removeprefix(RULES_PREFIX)})
        known = _known(key)
        return self._with(known, known.default)

    def _with(self, known: SettingKey, value: Any) -> Settings:
        return attrs.evolve(self, **{known.field: value})

    def get(self, key: str) -> object:
        """The value of a key; for ``rules.NAME`` whether the rule is on. Raises ``ConfigError`` for an unknown key."""
        key = key.casefold()
        if key.startswith(RULES_PREFIX) and len(key) > len(RULES_PREFIX):
            return self.rule_is_on(key.removeprefix(RULES_PREFIX))
        return getattr(self, _known(key).field)

    def rule_is_on(self, name: str) -> bool:
        """Whether the rule of this name may fire."""
        return name.casefold() not in self.rules_off

    def limits(self) -> BudgetLimits:
        """The budget keys as limits."""
        return BudgetLimits(**{d: getattr(self, f"budget_{d}") for d in DIMENSIONS})


def setting_key(key: str) -> SettingKey | None:
    """The description of a key, or None where it is unknown; for ``rules.NAME`` one made for it."""
    key = key.casefold()
    if key.startswith(RULES_PREFIX) and len(key) > len(RULES_PREFIX):
        return SettingKey(key, "bool", True, f"whether the rule {key.removeprefix(RULES_PREFIX)} may fire", True)
    return _BY_KEY.get(key)


def _known(key: str) -> SettingKey:
    if key in _BY_KEY:
        return _BY_KEY[key]
    near = did_you_mean(key, _BY_KEY)
    known = ", ".join(_BY_KEY) + ", rules.NAME"
    hint = f"Did you mean {near}? The keys are {known}." if near else f"The keys are {known}."
    raise ConfigError(f"there is no setting {key}", hint=hint)


def _bad(key: str, expected: str, value: object) -> ConfigError:
    found = "NULL" if value is None else repr(value)
    return ConfigError(f"{key} must be {expected}, not {found}", hint=f"RESET {key} brings back the default.")


def _switch(key: str, value: object) -> bool:
    word = str(value).strip().casefold()
    if value is None or word not in _ON | _OFF:
        raise _bad(key, "on or off", value)
    return word in _ON


def _read(known: SettingKey, value: object) -> object:
    if value is None and "null" in known.choices:
        value = "null"  # SET on_error = NULL: the word, quoted or not
    if value is None or (isinstance(value, str) and value.strip().casefold() == "null" and known.type != "choice"):
        if known.optional:
            return None
        raise _bad(known.key, known.expects(), None)
    text = str(value).strip()
    if known.type == "bool":
        return _switch(known.key, value)
    if known.type == "choice":
        if text.casefold() not in known.choices:
            raise _bad(known.key, known.expects(), value)
        return text.casefold()
    if known.type == "text":
        if not text:
            raise _bad(known.key, known.expects(), value)
        return text
    if known.type == "batch" and text.casefold() == "auto":
        return "auto"
    return _number(known, value, text)


def _number(known: SettingKey, value: object, text: str) -> int | float:
    low = 1 if known.type == "batch" else known.low
    try:
        if isinstance(value, bool):
            raise ValueError
        read = float(text)
        if not math.isfinite(read) or not low <= read <= known.high:
            raise ValueError
        if known.type == "float":
            return read
        whole = int(text) if text.lstrip("+-").replace("_", "").isdigit() else int(read)
        if whole != read and abs(read) < 2**53:
            raise ValueError
        return whole
    except ValueError:
        raise _bad(known.key, known.expects(), value) from None
