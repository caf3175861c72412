"""What is to be asked: noted arguments grouped by the model and specification that answer them, as prompts, requests and prices. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from kleene.planner.learned import Learned
from kleene.planner.specs import IDENTITY, CallSpec, Usage
from kleene.udfs.answers import Answered, AnswerReader, Unknown
from kleene.udfs.keycolumns import KeyColumn, KnownColumn
from kleene.udfs.protocols import Message, Options, Reply, Request, Route
from kleene.udfs.text import digest_of
from kleene.udfs.tokens import CHARACTERS_PER_TOKEN, FRAMING_CHARACTERS

if TYPE_CHECKING:
    from kleene.planner.settings import Settings
    from kleene.udfs.lookups import Key
    from kleene.udfs.statement import CallSite, StatementContext, Wanted

EXPECTED_REPLY_TOKENS = 64


@attrs.frozen(eq=False)
class Lane:
    """A specification on its way to one model, made ready for many prompts.

    ``identity`` is who answers and everything else but the prompt that can change the answer. A ``volatile`` lane shares and keeps nothing.
    ``candidates`` are the routes whose remembered answers count too.
    """

    route: Route
    spec: CallSpec
    reader: AnswerReader
    options: Options
    volatile: bool
    key: str
    digest: str
    identity: str
    candidates: tuple[Route, ...] = ()
    batch: int | str = 1
    characters_per_token: float = CHARACTERS_PER_TOKEN

    @property
    def makes_vectors(self) -> bool:
        return self.spec.answer.kind == "embedding"

    @classmethod
    def of(cls, spec: CallSpec, routes: Sequence[Route], settings: Settings, *, volatile: bool) -> Lane:
        """Prepare. Raises ``PlanError`` on a schema or type that cannot be read."""
        options = Options(
            max_tokens=spec.max_tokens,
            effort=spec.effort,
            temperature=spec.temperature,
            seed=spec.seed,
            timeout=settings.timeout,
            cache_prefix=settings.cache_prefix,
        )
        key, digest = route_key(routes[0]), spec.digest()
        reader = AnswerReader.of(spec.answer)
        # A schema's references are to its own root, which in a batch is another.
        alone = volatile or bool(spec.session) or "$ref" in (spec.answer.schema or "")
        batch = 1 if alone else routes[0].embed_batch if spec.answer.kind == "embedding" else spec.batch
        return cls(routes[0], spec, reader, options, volatile, key, digest, f"{key}\n{digest}", tuple(routes), batch)

    @property
    def remembered(self) -> bool:
        """Whether the memo may answer: not for what is asked anew each time, nor for tools, which look at what there is now."""
        return not self.volatile and self.spec.session != "tool"

    def on(self, route: Route) -> Lane:
        """The same questions put to another model."""
        if route == self.route:
            return self
        key = route_key(route)
        return attrs.evolve(self, route=route, key=key, identity=f"{key}\n{self.digest}")

    def request(self, prompt: str) -> Request:
        return Request(
            self.spec.alias,
            (Message("user", prompt),),
            self.spec.system,
            self.reader.schema,
            self.options,
            self.route.model,
            wants="embedding" if self.makes_vectors else "text",
        )

    def replied(self, learned: Learned | None) -> float:
        """Tokens of a reply: as many as earlier ones of the same template had, else at most 64."""
        if learned is not None and learned.tokens is not None:
            return min(learned.tokens, self.spec.max_tokens)
        return min(EXPECTED_REPLY_TOKENS, self.spec.max_tokens)

    def price(self, characters: int, items: int = 1, replied: float | None = None) -> Estimate:
        """What a request is expected to cost: its own length, and ``replied`` tokens in all (None: at most 64 an item)."""
        asked = int((characters + FRAMING_CHARACTERS) / self.characters_per_token) + 1
        replied = round(items * self.replied(None) if replied is None else replied)
        price = self.route.price
        dollars = 0.0 if price is None else price.dollars(asked, replied)
        return Estimate(1, 0, asked, replied, dollars, int(price is None and not self.route.free))

    def price_each(self, works: Sequence[Work]) -> Estimate:
        """The sum of ``price`` over requests of one prompt each."""
        calls, ratio, price = len(works), self.characters_per_token, self.route.price
        asked = [int((len(w.prompt) + FRAMING_CHARACTERS) / ratio) + 1 for w in works]
        replied = [self.replied(w.site.learned) for w in works]
        dollars = 0.0 if price is None else price.dollars_each(asked, replied)
        unpriced = calls * int(price is None and not self.route.free)
        return Estimate(calls, 0, sum(asked), round(sum(replied)), dollars, unpriced)

    def replies(self, works: Sequence[Work]) -> float:
        """Tokens of the replies to several prompts."""
        return sum(self.replied(work.site.learned) for work in works)


class Work:
    """One prompt to be answered for all who asked for it. While it is on its way, others may wait for it (``waiting``)."""

    __slots__ = ("lane", "more", "outcome", "prompt", "site", "site_key", "waiting")

    def __init__(self, lane: Lane, prompt: str, site: CallSite, site_key: Key):
        self.lane = lane
        self.prompt = prompt
        self.site = site
        self.site_key = site_key
        self.more: list[tuple[CallSite, Key]] | None = None
        self.outcome: Answered | Unknown | None = None
        self.waiting: Any = None

    @property
    def flight(self) -> tuple[str, str]:
        return (self.lane.identity, self.prompt)

    def takers(self) -> Iterator[tuple[CallSite, Key]]:
        yield self.site, self.site_key
        if self.more:
            yield from self.more

    def describe(self) -> str:
        return self.site.describe(self.site_key)

    def digest(self) -> str:
        return digest_of(self.prompt)


@attrs.frozen(eq=False)
class Group:
    """The distinct prompts of one lane. ``extra`` are further takers of a prompt, by its index."""

    lane: Lane
    prompts: Sequence[str]
    sites: list[CallSite] | CallSite
    keys: Sequence[Key]
    extra: dict[int, list[tuple[CallSite, Key]]]

    def site(self, index: int) -> CallSite:
        return self.sites[index] if isinstance(self.sites, list) else self.sites

    def takers(self, index: int) -> Iterator[tuple[CallSite, Key]]:
        yield self.site(index), self.keys[index]
        yield from self.extra.get(index, ())

    @property
    def known(self) -> KnownColumn | None:
        """Where the answers go as a column, where they may."""
        if isinstance(self.sites, list) or not isinstance(self.prompts, KeyColumn):
            return None
        known = self.sites.answers.known
        return known if known is not None and known.keys is self.prompts else None

    def give(self, indexes: Sequence[int], values: Iterable[Any]) -> None:
        """Hand values to all who asked for the prompts of these indexes."""
        if not isinstance(self.sites, list) and not self.extra:
            self.sites.answers.given.update(zip(map(self.keys.__getitem__, indexes), values, strict=True))
            return
        for index, value in zip(indexes, values, strict=True):
            for site, key in self.takers(index):
                site.answers.given[key] = value

    def works(self, indexes: Iterable[int]) -> list[Work]:
        """The prompts of these indexes as work, in the order of their text: the same in every run and replay whatever the threads did, and
        equal beginnings follow each other, which a provider's prefix cache serves. Volatile calls stay in the order of their rows."""
        prompts = self.prompts
        ordered = list(indexes) if self.lane.volatile else sorted(indexes, key=prompts.__getitem__)
        found = []
        for index in ordered:
            work = Work(self.lane, prompts[index], self.site(index), self.keys[index])
            work.more = self.extra.get(index)
            found.append(work)
        return found


def grouped(wanted: Sequence[tuple[Lane, Wanted]]) -> list[Group]:
    """What is wanted, one group a lane, in the order given."""
    by_lane: dict[str, list[tuple[Lane, Wanted]]] = {}
    for lane, want in wanted:
        by_lane.setdefault(f"{lane.identity}\n{lane.volatile} {lane.batch}", []).append((lane, want))
    return [_group(parts) for parts in by_lane.values()]


def _group(parts: list[tuple[Lane, Wanted]]) -> Group:
    lane = parts[0][0]
    if len(parts) == 1 and lane.spec.template == IDENTITY and not lane.volatile:
        site, given = parts[0][1].site, parts[0][1].keys
        if isinstance(given, KeyColumn):
            return Group(lane, given, site, given, {})
        keys = list(given)
        return Group(lane, [k if isinstance(k, str) else k[0] for k in keys], site, keys, {})
    prompts: list[str] = []
    sites: list[CallSite] = []
    all_keys: list[Key] = []
    extra: dict[int, list[tuple[CallSite, Key]]] = {}
    index_of: dict[str, int] = {}
    for _, want in parts:
        for key in want.keys:
            prompt = want.site.prompt(key)
            index = len(prompts) if lane.volatile else index_of.setdefault(prompt, len(prompts))
            if index < len(prompts):
                extra.setdefault(index, []).append((want.site, key))
                continue
            prompts.append(prompt)
            sites.append(want.site)
            all_keys.append(key)
    return Group(lane, prompts, sites, all_keys, extra)


@attrs.frozen
class Estimate:
    """What a round will cost: ``calls`` is exact, tokens and dollars are estimates. ``hits`` are served from the memo."""

    calls: int = 0
    hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.calls + other.calls,
            self.hits + other.hits,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.dollars + other.dollars,
            self.unpriced + other.unpriced,
        )


def deliver(context: StatementContext, work: Work, outcome: Answered | Unknown, tokens: int | None = None) -> None:
    """Give an outcome to every site that asked. An unknown answer is NULL and is counted once per distinct prompt. ``tokens`` of its reply,
    None where nobody counted them."""
    value = None
    if isinstance(outcome, Unknown):
        context.meter.unknown(outcome.kind)
    else:
        value = outcome.value
    work.site.seen.take(value, tokens)
    work.site.answers.given[work.site_key] = value
    if work.more:
        for site, key in work.more:
            site.answers.given[key] = value


def repair(request: Request, reader: AnswerReader, reply: Reply, unknown: Unknown) -> Request:
    """The one repair turn: the reply is shown back with what was wrong. An empty reply is simply asked for again."""
    if unknown.kind == "empty":
        return request
    extra = (Message("assistant", reply.text), Message("user", reader.repair_message(unknown)))
    return attrs.evolve(request, messages=request.messages + extra)


def route_key(route: Route) -> str:
    return f"{route.provider}\n{route.endpoint}\n{route.model}"


def estimate_tokens(request: Request) -> int:
    """Input tokens, estimated as characters / 4."""
    characters = request.characters() + len(request.schema or "")
    return int(characters / CHARACTERS_PER_TOKEN) + 1


def usage_of(request: Request, reply: Reply, route: Route) -> Usage:
    """What a reply used: as reported, else estimated; priced by the provider's word, else by the route's price."""
    tokens_in = estimate_tokens(request) if reply.input_tokens is None else reply.input_tokens
    tokens_out = int(len(reply.said) / CHARACTERS_PER_TOKEN) + 1 if reply.output_tokens is None else reply.output_tokens
    dollars, unpriced = reply.dollars, 0
    if dollars is None:
        if route.price is not None:
            dollars = route.price.dollars(tokens_in, tokens_out, reply.cache_read_tokens, reply.cache_write_tokens)
        else:
            dollars, unpriced = 0.0, 0 if route.free else 1
    return Usage(1, 0, 0, tokens_in, tokens_out, reply.cache_read_tokens, reply.cache_write_tokens, dollars, unpriced)


def usage_of_failure(request: Request, route: Route, *, sent: bool, billed: bool, characters: int = 0) -> Usage:
    """What a request without a reply stays booked at: not known, so its input and the ``characters`` of text that came before it broke off,
    estimated, where the provider may charge it."""
    if not billed:
        return Usage(requests=int(sent))
    tokens, said = estimate_tokens(request), -int(-characters // CHARACTERS_PER_TOKEN)
    dollars = 0.0 if route.price is None else route.price.dollars(tokens, said)
    return Usage(requests=1, input_tokens=tokens, output_tokens=said, dollars=dollars)
