"""The judge of an engine: its model alias ``judge``, which must not be the model that solves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleene.planner.errors import ConfigError

if TYPE_CHECKING:
    from kleene.bench.oracles.judge import JudgeModel
    from kleene.engine import Engine

ALIAS = "judge"
FUNCTION = f"CREATE OR REPLACE FUNCTION bench_judge(prompt TEXT) RETURNS TEXT AS PROMPT '{{prompt}}' MODEL '{ALIAS}'"


def judge_of(engine: Engine, solver: str, *, needed: bool) -> JudgeModel | None:
    """The judge beside a solver's alias. Where it is the same model none is given, or ``ConfigError`` raised where one is ``needed``."""
    handler = engine.services.handler
    mine, theirs = handler.route(ALIAS), handler.route(solver)
    if (mine.provider, mine.endpoint, mine.model) == (theirs.provider, theirs.endpoint, theirs.model):
        if needed:
            raise ConfigError(
                f"the judge would be the model it judges: {theirs.model}",
                hint="--model judge=PROVIDER:NAME names another",
            )
        return None

    def model(prompt: str) -> str:
        engine.sql(FUNCTION)
        return str(engine.sql("SELECT bench_judge(?)", [prompt]).rows[0][0] or "")

    return model
