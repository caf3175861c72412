"""What names mean: the call functions that exist, the user's prompt and SQL functions, agents. Immutable; declaring makes a new catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from kleene.planner.errors import PlanError, did_you_mean
from kleene.planner.roles import ROLES, SESSION_FUNCTIONS
from kleene.planner.specs import IDENTITY, AgentSpec, AnswerType, FunctionSpec, Param, Template

_OPTIONS = (Param("model", "VARCHAR"), Param("effort", "VARCHAR"))
_PROMPT = Param("prompt", "VARCHAR")

BUILTINS: tuple[FunctionSpec, ...] = (
    FunctionSpec(
        "llm",
        (_PROMPT, *_OPTIONS),
        AnswerType("text", "VARCHAR"),
        template=IDENTITY,
        required=1,
        description="the model's reply to a prompt",
    ),
    FunctionSpec(
        "llm_bool",
        (_PROMPT, *_OPTIONS),
        AnswerType("bool", "BOOLEAN"),
        template=IDENTITY,
        required=1,
        description="a yes/no question; NULL when the reply cannot be read as yes or no",
    ),
    FunctionSpec(
        "llm_json",
        (_PROMPT, Param("schema", "VARCHAR"), *_OPTIONS),
        AnswerType("json", "JSON"),
        template=IDENTITY,
        required=2,
        description='a JSON value valid against a JSON schema (or a field map such as {"name": "string"})',
    ),
    FunctionSpec(
        "llm_score",
        (_PROMPT, *_OPTIONS),
        AnswerType("score", "DOUBLE"),
        template=IDENTITY,
        required=1,
        description="a number from 0 to 1",
    ),
    FunctionSpec(
        "llm_agg",
        (Param("instruction", "VARCHAR"), Param("text", "VARCHAR"), *_OPTIONS),
        AnswerType("text", "VARCHAR"),
        template=Template((0, "\n\n", 1)),
        required=2,
        aggregate=True,
        description="an aggregate: one reply over all texts of a group; takes ORDER BY and FILTER",
    ),
    FunctionSpec(
        "expand",
        (_PROMPT, Param("n", "BIGINT"), *_OPTIONS),
        AnswerType("list", "VARCHAR[]"),
        template=Template((0, "\n\nList at most ", 1, " items.")),
        required=2,
        table=(Param("item", "VARCHAR"),),
        description="a table function for FROM and LATERAL: at most n items, one row each",
    ),
    FunctionSpec(
        "embed",
        (Param("text", "VARCHAR"), _OPTIONS[0]),
        AnswerType("embedding", "FLOAT[]"),
        template=IDENTITY,
        model="embed",
        required=1,
        description="the text's vector by an embeddings model (alias embed)",
    ),
    FunctionSpec(
        "similarity",
        (Param("a", "FLOAT[]"), Param("b", "FLOAT[]")),
        AnswerType("typed", "FLOAT"),
        body="pure",
        text="list_cosine_similarity",
        description="how alike two vectors of one length are: the cosine, from -1 to 1; no call",
    ),
)


BUILT_IN = ("builtin", "session", "pure", "tool")


@attrs.frozen
class Catalog:
    """Functions and agents by lower-case name. Built-in functions, tools and those of sessions cannot be replaced; the standard roles can."""

    functions: dict[str, FunctionSpec] = attrs.field(
        factory=lambda: {f.name: f for f in (*BUILTINS, *SESSION_FUNCTIONS)}
    )
    agents: dict[str, AgentSpec] = attrs.field(factory=lambda: {a.name: a for a in ROLES})

    def function(self, name: str) -> FunctionSpec | None:
        return self.functions.get(name.lower())

    def declared(self) -> Iterator[FunctionSpec]:
        """The user's own functions, in order of name."""
        return (f for _, f in sorted(self.functions.items()) if f.body not in BUILT_IN)

    def declared_agents(self) -> Iterator[AgentSpec]:
        """The user's own agents, in order of name."""
        return (a for _, a in sorted(self.agents.items()) if a not in ROLES)

    def tools(self) -> Iterator[FunctionSpec]:
        """The tools, in the order in which they were given."""
        return (f for f in self.functions.values() if f.body == "tool")

    def with_tools(self, tools: Iterable[FunctionSpec]) -> Catalog:
        """The catalog with these tools. A function that has a tool's name already keeps it."""
        given = {t.name.lower(): t for t in tools}
        return attrs.evolve(self, functions={**given, **self.functions})

    def restricted(self, tools: tuple[str, ...] | None) -> Catalog:
        """The catalog with these tools only; None keeps all. Functions that are no tools stay."""
        if tools is None:
            return self
        kept = {t.lower() for t in tools}
        return attrs.evolve(self, functions={n: f for n, f in self.functions.items() if f.body != "tool" or n in kept})

    def with_function(self, spec: FunctionSpec, *, replace: bool) -> Catalog:
        name = spec.name.lower()
        old = self.functions.get(name)
        if old is not None and old.body in BUILT_IN:
            raise PlanError(f"{spec.name} is a built-in function and cannot be replaced", hint="choose another name")
        if old is not None and not replace:
            raise PlanError(f"function {spec.name} already exists", hint="CREATE OR REPLACE FUNCTION replaces it")
        if spec.proxy is not None:
            self._check_proxy(spec)
        return attrs.evolve(self, functions={**self.functions, name: spec})

    def without_function(self, name: str, *, if_exists: bool) -> Catalog:
        old = self.functions.get(name.lower())
        if old is None:
            if if_exists:
                return self
            near = did_you_mean(name, (f.name for f in self.declared()))
            raise PlanError(
                f"there is no function {name}", hint=f"did you mean {near}?" if near else "SHOW FUNCTIONS lists them"
            )
        if old.body in BUILT_IN:
            raise PlanError(f"{name} is a built-in function and cannot be dropped")
        return attrs.evolve(self, functions={k: v for k, v in self.functions.items() if k != name.lower()})

    def with_agent(self, spec: AgentSpec, *, replace: bool) -> Catalog:
        name = spec.name.lower()
        if name in ("self", "root"):
            raise PlanError(f"the agent name {spec.name} is reserved", hint="choose another name")
        if name in self.agents and self.agents[name] not in ROLES and not replace:
            raise PlanError(f"agent {spec.name} already exists", hint="CREATE OR REPLACE AGENT replaces it")
        return attrs.evolve(self, agents={**self.agents, name: spec})

    def without_agent(self, name: str, *, if_exists: bool) -> Catalog:
        if name.lower() not in self.agents:
            if if_exists:
                return self
            near = did_you_mean(name, self.agents)
            raise PlanError(
                f"there is no agent {name}", hint=f"did you mean {near}?" if near else "SHOW AGENTS lists them"
            )
        return attrs.evolve(self, agents={k: v for k, v in self.agents.items() if k != name.lower()})

    def _check_proxy(self, spec: FunctionSpec) -> None:
        proxy = self.function(spec.proxy or "")
        if proxy is None:
            near = did_you_mean(spec.proxy or "", self.functions)
            raise PlanError(
                f"PROXY {spec.proxy}: there is no such function", hint=f"did you mean {near}?" if near else None
            )
        if proxy.answer.sql.upper() not in ("DOUBLE", "FLOAT", "REAL"):
            raise PlanError(
                f"PROXY {proxy.name} returns {proxy.answer.sql}, a proxy returns a DOUBLE score",
                hint="declare it RETURNS DOUBLE",
            )
