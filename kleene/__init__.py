"""Kleene: SQL for model calls, run by DuckDB.

    import duckdb, kleene

    con = duckdb.connect("shop.duckdb")
    k = kleene.attach(con)
    k.sql("SELECT id FROM mails WHERE llm_bool('Is this a complaint? ' || body)").fetchall()

Names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

_here = Path(__file__).resolve().parent
# In a checkout, planner/ and udfs/ lie beside this folder; in a wheel they lie inside it.
if not (_here / "planner").is_dir() and (_here.parent / "planner").is_dir():
    __path__.append(str(_here.parent))

from kleene.version import VERSION  # noqa: E402 - the path above comes first

__version__ = VERSION

if TYPE_CHECKING:
    from kleene.attaching import attach, connect
    from kleene.engine import Engine
    from kleene.explain import Plan
    from kleene.models import Anthropic, FunctionModel, Local, OpenAI, Reply, Responses
    from kleene.planner.errors import (
        BudgetExceeded,
        BusyConnection,
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
    from kleene.planner.specs import BudgetLimits as Budget
    from kleene.planner.specs import Usage
    from kleene.result import Result
    from kleene.runs import Run
    from kleene.tools.functions import tool
    from kleene.tools.toolbox import Effect

_ERRORS = (
    "BudgetExceeded",
    "BusyConnection",
    "CallFailed",
    "Cancelled",
    "ConfigError",
    "KleeneError",
    "NoModel",
    "ParseError",
    "PlanError",
    "PolicyError",
    "Refused",
    "StoreLocked",
    "Unstable",
)
_HOMES = {
    "attach": "kleene.attaching",
    "connect": "kleene.attaching",
    "Engine": "kleene.engine",
    "Plan": "kleene.explain",
    "Anthropic": "kleene.models",
    "FunctionModel": "kleene.models",
    "Local": "kleene.models",
    "OpenAI": "kleene.models",
    "Reply": "kleene.models",
    "Responses": "kleene.models",
    "Budget": "kleene.planner.specs:BudgetLimits",
    "Usage": "kleene.planner.specs",
    "Result": "kleene.result",
    "Run": "kleene.runs",
    "Effect": "kleene.tools.toolbox",
    "tool": "kleene.tools.functions",
    "load_ipython_extension": "kleene.notebook",
    "unload_ipython_extension": "kleene.notebook",
    **dict.fromkeys(_ERRORS, "kleene.planner.errors"),
}

__all__ = [
    "Anthropic",
    "Budget",
    "BudgetExceeded",
    "BusyConnection",
    "CallFailed",
    "Cancelled",
    "ConfigError",
    "Effect",
    "Engine",
    "FunctionModel",
    "KleeneError",
    "Local",
    "NoModel",
    "OpenAI",
    "ParseError",
    "Plan",
    "PlanError",
    "PolicyError",
    "Refused",
    "Reply",
    "Responses",
    "Result",
    "Run",
    "StoreLocked",
    "Unstable",
    "Usage",
    "attach",
    "connect",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kleene' has no attribute {name!r}")
    import importlib

    module, _, attribute = home.partition(":")
    value = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
