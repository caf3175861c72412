"""What sessions offer to their statements, as data: the functions that start and reach other sessions, and the standard roles."""

from __future__ import annotations

from kleene.planner.specs import AgentSpec, AnswerType, FunctionSpec, Param, Volatility

SELF = "self"
"""The role of ``rlm``: the session's own kind, on a cheaper model."""

_TASK = Param("task", "VARCHAR")
_AGENT = Param("agent", "VARCHAR")
_CONTEXT = Param("context", "VARCHAR")
_ANSWER = (Param("answer", "VARCHAR"), Param("detail", "JSON"))
_SESSION = Param("session", "VARCHAR")
MAIL = frozenset({"await", "send", "inbox"})
"""Those that start no child and cost nothing."""


def rows_type(columns: tuple[Param, ...]) -> AnswerType:
    """How the rows of such a function arrive: as a JSON array of objects.

    >>> rows_type((Param("to", "VARCHAR"),)).sql
    'STRUCT("to" VARCHAR)[]'
    """
    fields = ", ".join('"' + c.name.replace('"', '""') + f'" {c.type}' for c in columns)
    return AnswerType("text", f"STRUCT({fields})[]")


def _function(
    name: str, params: tuple[Param, ...], columns: tuple[Param, ...], required: int, description: str
) -> FunctionSpec:
    return FunctionSpec(
        name,
        params,
        rows_type(columns),
        body="session",
        volatility=Volatility.STABLE,
        table=columns,
        required=required,
        description=description,
    )


SESSION_FUNCTIONS: tuple[FunctionSpec, ...] = (
    _function(
        "rlm",
        (Param("question", "VARCHAR"), _CONTEXT),
        _ANSWER,
        1,
        "a child session answers; context is a text or (SELECT ...), which it has as its table ctx",
    ),
    _function("spawn", (_AGENT, _TASK, _CONTEXT), (*_ANSWER, _SESSION), 2, "a child in the role of an agent answers"),
    _function(
        "spawn_async",
        (_AGENT, _TASK, _CONTEXT),
        (Param("handle", "VARCHAR"),),
        2,
        "starts such a child and goes on",
    ),
    _function(
        "await", (Param("handle", "VARCHAR"),), (*_ANSWER, _SESSION), 1, "waits for that child and gives its answer"
    ),
    _function(
        "send",
        (Param("to", "VARCHAR"), Param("text", "VARCHAR")),
        (Param("to", "VARCHAR"), Param("delivered", "BOOLEAN")),
        2,
        "a message to 'parent' or to a child's handle",
    ),
    _function(
        "inbox",
        (Param("sender", "VARCHAR"),),
        (Param("from_session", "VARCHAR"), Param("ts", "TIMESTAMP"), Param("text", "VARCHAR")),
        0,
        "messages to this session",
    ),
)

ROLES: tuple[AgentSpec, ...] = (
    AgentSpec(SELF, description="does the same work on a part of it", effort="low"),
    AgentSpec(
        "mapper",
        effort="low",
        description="turns one text into facts",
        prompt="You turn one text into facts. Read all of ctx, give exactly what the task asks for and nothing it does not say; where the "
        "text does not tell, say so instead of guessing.",
    ),
    AgentSpec(
        "verifier",
        effort="medium",
        description="checks a claim against its evidence",
        prompt="You check a claim that somebody else made. Look for evidence against it first, in ctx, and quote what decides. Say in the "
        "first words of your answer whether the claim is supported, contradicted or not decided.",
    ),
    AgentSpec(
        "proposer",
        model="root",
        description="finds candidate answers",
        prompt="You propose candidate answers, one a row of FINAL, the likeliest first, each different in kind from the others, each with "
        "the reason for it. You do not have to prove them.",
    ),
    AgentSpec(
        "judge",
        model="judge",
        description="chooses between answers",
        prompt="You choose between answers that others gave. Judge each against the task alone, name the decisive difference, and choose one; "
        "a longer answer is not a better one.",
    ),
    AgentSpec(
        "planner",
        model="root",
        description="splits a task into steps",
        prompt="You split a task into steps that can be done in SQL with model calls, cheapest first, one step a row of FINAL with the "
        "columns step and how. You do none of them.",
    ),
)
