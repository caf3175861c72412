"""The children of one session: admitted with a share of its budget, run in threads of their own, ended with it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from kleene.planner.errors import BudgetExceeded, Cancelled, PlanError, did_you_mean
from kleene.planner.roles import SELF, SESSION_FUNCTIONS
from kleene.planner.sessions import agent_named, holds_nothing
from kleene.planner.specs import AgentSpec, CallSpec, Usage
from kleene.runs.answers import unasked_rows
from kleene.runs.child import CHILD_TURNS, ChildRun, Earlier, Order
from kleene.runs.mail import Mail
from kleene.session.loop import Place
from kleene.udfs.children import Child, ChildReply

if TYPE_CHECKING:
    from kleene.executor import Executor
    from kleene.udfs.ledger import Ledger

PARENT = "parent"
UNTYPED = next(f.answer for f in SESSION_FUNCTIONS if f.name == "spawn")
TOKENS_A_CALL = 2_000
"""What a call of a child is taken to use where nothing was seen yet."""


class Family:
    """What a session's statements ask of other sessions (``kleene.udfs.children.Children``).

    ``place`` is the session that asks; ``turn`` tells its turn. ``resumed``: children of an earlier process are taken up where they belong
    to the turn that runs again.
    """

    def __init__(self, engine: Executor, place: Place, *, resumed: bool = False, turn: Callable[[], int] = lambda: 0):
        self._engine = engine
        self._place = place
        self._turn = turn
        self._lock = threading.Lock()
        self._expected = 0
        self._names: Counter[str] = Counter()
        self._started: dict[str, _Started] = {}
        self._mail = Mail(engine.services.store)
        self._earlier: dict[str, list[Earlier]] = {}
        self._cancelled = False
        if resumed:
            self._remember_earlier()

    @classmethod
    def beneath(cls, engine: Executor, place: Place, resumed: bool, turn: Callable[[], int]) -> Family:
        """The family of a session that is being opened."""
        return cls(engine, place, resumed=resumed, turn=turn)

    # -- admission -------------------------------------------------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        with self._lock:
            self._expected = count

    def open(self, spec: CallSpec, arguments: tuple[str, ...], ledger: Ledger) -> Child:
        if spec.function == "await":
            return _Waiting(self._child_named(arguments[0]))
        if spec.function == "send":
            return _Doing(lambda: self._send(*arguments))
        if spec.function == "inbox":
            return _Doing(lambda: self._inbox(arguments[0]))
        agent, task, *context = (SELF, *arguments) if spec.function == "rlm" else arguments
        role = agent_named(agent, self._engine.state.catalog)
        order = Order(role, task, context[0] if context else None, named=spec.function != "rlm")
        if spec.function == "spawn_async":
            return _Doing(lambda: self._start(attrs.evolve(order, typed=False)))
        # Where a statement computes the agent's name, its columns are those of any agent.
        order = attrs.evolve(order, typed=spec.answer != UNTYPED)
        if holds_nothing(order.context):
            with self._lock:
                self._expected = max(0, self._expected - 1)
            columns = (role.returns or ()) if order.typed else ()
            return _Doing(lambda: unasked_rows(columns, named=order.named))
        return self._admit(order, ledger)

    def _admit(self, order: Order, ledger: Ledger) -> ChildRun:
        """A child with its share of the budget set aside, or one that an earlier process began."""
        key = order.key()
        with self._lock:
            waiting = max(1, self._expected)
            self._expected = max(0, self._expected - 1)
            earlier = self._take_up(key)
            if earlier is None:
                self._names[key] += 1
                times = self._names[key]
                name = key[:8] if times == 1 else f"{key[:8]}-{times}"
                place = self._place_of(order.role, name)
            else:
                place = earlier.state.place
        if earlier is not None and earlier.state.result is not None:
            return ChildRun(self._engine, order, place, None, earlier, self._turn(), Family.beneath)
        if place.depth > place.max_depth:
            raise BudgetExceeded(
                "depth",
                place.max_depth,
                place.depth,
                message=f"this session is at the deepest level ({place.max_depth}): it cannot have children",
                hint="do it here, with SQL and llm()",
            )
        share = ledger.slice(waiting, order.role.budget)
        return ChildRun(self._engine, order, place, share, earlier, self._turn(), Family.beneath)

    def _place_of(self, role: AgentSpec, name: str) -> Place:
        place, settings = self._place, self._engine.state.settings
        return Place(
            session=f"{place.session}.{name}",
            run=place.run,
            parent=place.session,
            depth=place.depth + 1,
            max_depth=place.max_depth,
            role=role.name,
            role_prompt=role.prompt,
            path=f"{place.path}/{name}",
            alias=role.model,
            effort=role.effort or settings.effort,
        )

    # -- asynchronous children -------------------------------------------------------------------------------------------------------

    def _start(self, order: Order) -> str:
        child = self._admit(order, self._engine.ledger)
        started = _Started(child)
        with self._lock:
            if self._cancelled:
                child.close()
                raise Cancelled("cancelled")
            self._started[child.place.session] = started
        started.begin()
        return json.dumps([{"handle": child.place.session}])

    def _child_named(self, handle: str) -> _Started:
        with self._lock:
            found = self._started.get(handle)
            known = list(self._started)
        if found is not None:
            return found
        again = self._restarted(handle)
        if again is not None:
            return again
        near = did_you_mean(handle, known)
        raise PlanError(
            f"there is no child {handle}", hint=f"did you mean {near}?" if near else "spawn_async gives a handle"
        )

    def _restarted(self, handle: str) -> _Started | None:
        """A child that an earlier process of this session started: its recorded end, or the child again from its last turn."""
        with self._lock:
            found = [e for earlier in self._earlier.values() for e in earlier if e.state.place.session == handle]
        if not found:
            return None
        earlier = found[0]
        role = self._engine.state.catalog.agents.get(earlier.state.place.role.lower()) or AgentSpec(SELF)
        order = Order(role, earlier.task, None)
        share = None if earlier.state.result is not None else self._engine.ledger.slice(1, role.budget)
        started = _Started(
            ChildRun(self._engine, order, earlier.state.place, share, earlier, self._turn(), Family.beneath)
        )
        with self._lock:
            self._started[handle] = started
        started.begin()
        return started

    # -- messages --------------------------------------------------------------------------------------------------------------------

    def _send(self, to: str, text: str) -> str:
        receiver = self._place.parent if to == PARENT else to if to in self._started else None
        if to == PARENT and receiver is None:
            raise PlanError("this session has no parent", hint="send to a child's handle, which spawn_async gives")
        if receiver is not None:
            self._mail.send(self._place.session, receiver, text)
        return json.dumps([{"to": to, "delivered": receiver is not None}])

    def _inbox(self, sender: str) -> str:
        """All messages so far, or those of one sender: reading takes none away."""
        rows = self._mail.received(self._place.session)
        found = [{"from_session": PARENT if s == self._place.parent else s, "ts": ts, "text": t} for s, ts, t in rows]
        return json.dumps([m for m in found if sender in ("", m["from_session"])], ensure_ascii=False)

    # -- what children cost ----------------------------------------------------------------------------------------------------------

    def expected_cost(self, spec: CallSpec, arguments: Sequence[tuple[str, ...]]) -> tuple[int, int, float, str]:
        most = 2 if spec.function == "rlm" else 3
        asked = [a for a in arguments if spec.function == "spawn_async" or len(a) < most or not holds_nothing(a[-1])]
        roles = Counter(SELF if spec.function == "rlm" else a[0].lower() for a in asked)
        calls = tokens = 0
        dollars, why = 0.0, []
        for name, number in roles.items():
            role = self._engine.state.catalog.agents.get(name)
            one = self._past(name) or _by_role(role)
            calls += round(one[0] * number)
            tokens += round(one[1] * number)
            dollars += one[2] * number
            why.append(one[3])
        return calls, tokens, dollars, "; ".join(dict.fromkeys(why))

    def _past(self, role: str) -> tuple[float, float, float, str] | None:
        """The mean of the children of a role that the trace knows, up to now."""
        self._engine.services.trace.flush()
        cursor = self._engine.services.store.cursor()
        try:
            row = cursor.execute(
                "SELECT count(*), avg(calls), avg(tokens), avg(dollars) FROM main.trace_sessions "
                "WHERE depth > 0 AND lower(role) = $1 AND finished_at IS NOT NULL",
                [role],
            ).fetchone()
        finally:
            cursor.close()
        if row is None or not row[0]:
            return None
        seen = f"{row[0]} past child{'' if row[0] == 1 else 'ren'} of {role}"
        return float(row[1] or 0), float(row[2] or 0), float(row[3] or 0), f"as {seen}"

    # -- the end ---------------------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """End the asynchronous children; those of a running statement end with it."""
        with self._lock:
            self._cancelled = True
            started = list(self._started.values())
        for one in started:
            one.child.cancel()

    def close(self) -> None:
        """``cancel``, and wait for the end."""
        self.cancel()
        with self._lock:
            started = list(self._started.values())
        for one in started:
            one.join()

    # -- what an earlier process left ------------------------------------------------------------------------------------------------

    def _remember_earlier(self) -> None:
        for earlier in Earlier.of(self._engine.services.store, self._place.session):
            self._earlier.setdefault(earlier.state.key, []).append(earlier)
        for key, found in self._earlier.items():
            self._names[key] = len(found)

    def _take_up(self, key: str) -> Earlier | None:
        """A child with this key that the turn which runs again had begun."""
        for earlier in self._earlier.get(key, ()):
            if earlier.state.parent_turn == self._turn() and earlier.state.place.session not in self._started:
                self._earlier[key].remove(earlier)
                return earlier
        return None


def _by_role(role: AgentSpec | None) -> tuple[float, float, float, str]:
    """What a child could use at most: its role's budget, or a call a turn."""
    turns = CHILD_TURNS if role is None or role.turns is None else role.turns
    budget = None if role is None else role.budget
    calls = turns if budget is None or budget.calls is None else budget.calls
    tokens = calls * TOKENS_A_CALL if budget is None or budget.tokens is None else budget.tokens
    dollars = 0.0 if budget is None or budget.dollars is None else budget.dollars
    name = SELF if role is None else role.name
    return calls, tokens, dollars, f"at most {calls} calls a child of {name}"


@attrs.define(eq=False)
class _Started:
    """An asynchronous child in its thread."""

    child: ChildRun
    reply: ChildReply | None = None
    error: BaseException | None = None
    _over: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._work, name=f"kleene-child-{self.child.place.session}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.reply = self.child.run()
        except BaseException as error:
            self.error = error
        finally:
            self.child.close()
            self._over.set()

    def wait(self, cancelled: threading.Event) -> ChildReply:
        while not self._over.wait(0.02):
            if cancelled.is_set():
                raise Cancelled("cancelled")
        if self.error is not None:
            raise self.error
        assert self.reply is not None
        return self.reply

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()


@attrs.frozen(eq=False)
class _Waiting:
    """``await``: what an asynchronous child used is counted when it ends, by the session's ledger, not by the statement that waits."""

    started: _Started
    _cancelled: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> ChildReply:
        return ChildReply(self.started.wait(self._cancelled).text)

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        pass


@attrs.frozen(eq=False)
class _Doing:
    """Something that is done at once."""

    do: Callable[[], str]

    def run(self) -> ChildReply:
        return ChildReply(self.do(), Usage())

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass
