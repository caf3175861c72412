"""Runs a pack: which tasks in which order, several at a time, each attempt once."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kleene.bench.attempt import Options, attempt, set_up
from kleene.bench.pack import Pack, Ready, Task
from kleene.bench.prng import Rng
from kleene.bench.recordings import Drift, Recordings, note
from kleene.bench.results import ResultsFile, Row
from kleene.planner.errors import Cancelled, ConfigError

if TYPE_CHECKING:
    from kleene.engine import Engine

Episode = tuple[Task, ...]
POLL_S = 0.1
MOST_DETAIL = 1_000  # characters of a verdict's words that a row keeps


@attrs.frozen
class Choice:
    """Which tasks run, and how often. ``sample`` episodes are drawn with ``seed`` (a task and those that continue it are one), in the pack's
    order; of what is left ``limit`` tasks run, the first ones."""

    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    repeats: int = 1

    def of(self, pack: Pack) -> list[Episode]:
        episodes: Sequence[Episode] = pack.episodes()
        if self.sample is not None and self.sample < len(episodes):
            drawn = Rng.of("sample", self.seed).sample(range(len(episodes)), self.sample)
            episodes = [episodes[n] for n in sorted(drawn)]
        chosen, left = [], len(pack.tasks) if self.limit is None else self.limit
        for episode in episodes:
            if left > 0:
                chosen.append(episode[:left])
            left -= len(episode)
        return chosen


@attrs.frozen
class Done:
    """What a run did. ``skipped``: attempts without reference SQL in relational mode, ``unrecorded``: those without a recording to replay.
    ``drifts``: the attempts that were replayed and were not as recorded."""

    ran: int
    before: int
    skipped: int
    unrecorded: int = 0
    drifts: tuple[Drift, ...] = ()


def run_pack(
    pack: Pack, choice: Choice, options: Options, results: ResultsFile, *, jobs: int = 1, on_row: Callable[[Row], None]
) -> Done:
    """Run all attempts that the results do not have. The first error ends the others and is raised; what was decided stays in the results."""
    work = _Work(pack, choice, options, results, on_row)
    threads = [threading.Thread(target=work.take, name=f"kleene-bench-{n}", daemon=True) for n in range(max(1, jobs))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL_S)
    except BaseException:
        work.stop()
        for thread in threads:
            thread.join()
        raise
    if work.error is not None:
        raise work.error
    return Done(work.ran, work.before, work.skipped, work.unrecorded, tuple(work.drifts))


class _Work:
    """Episodes still to be taken, and the engines that are open. All threads share one; nothing of a finished task is kept."""

    def __init__(
        self, pack: Pack, choice: Choice, options: Options, results: ResultsFile, on_row: Callable[[Row], None]
    ) -> None:
        self.pack = pack
        self.options = attrs.evolve(options, open_engine=self._opened)
        self.results = results
        self.error: BaseException | None = None
        self.ran = self.before = self.skipped = self.unrecorded = 0
        self.drifts: list[Drift] = []
        self._open_engine = options.open_engine
        self._on_row = on_row
        self._lock = threading.Lock()
        self._stopped = False
        self._engines: list[Engine] = []
        self._left = self._episodes(choice)

    def _episodes(self, choice: Choice) -> Iterator[tuple[Episode, int]]:
        for repeat in range(1, choice.repeats + 1):
            for episode in choice.of(self.pack):
                yield episode, repeat

    def take(self) -> None:
        """A thread's life: episodes until there are none, or one has failed."""
        try:
            while True:
                with self._lock:
                    taken = None if self._stopped else next(self._left, None)
                if taken is None:
                    return
                self._run(*taken)
        except BaseException as error:
            self.stop(error)

    def stop(self, error: BaseException | None = None) -> None:
        """End what runs. The first error is the one that is raised; what the others say comes of being ended."""
        with self._lock:
            if self.error is None:
                self.error = error
            self._stopped = True
            engines = list(self._engines)
        for engine in engines:
            with suppress(Exception):
                engine.cancel()

    def _run(self, episode: Episode, repeat: int) -> None:
        todo = [task.id for task in episode if (task.id, repeat) not in self.results.done]
        replay = self.options.replay
        unrecorded = [] if replay is None else [id_ for id_ in todo if replay.path(id_, repeat) is None]
        with self._lock:
            self.before += len(episode) - len(todo)
            self.unrecorded += len(unrecorded)
        todo = [id_ for id_ in todo if id_ not in unrecorded]
        if not todo:
            return
        with tempfile.TemporaryDirectory(prefix="kleene-workspace-") as folder:
            workspace = Path(folder).resolve()
            for task in episode[: 1 + max(n for n, task in enumerate(episode) if task.id in todo)]:
                if self._stopped:
                    return
                ready = self.pack.ready(task)
                set_up(ready, workspace, self.options.sandbox)
                if task.id in todo:
                    self._attempt(ready, repeat, workspace)

    def _attempt(self, ready: Ready, repeat: int, workspace: Path) -> None:
        if self.options.mode == "relational" and ready.sql is None:
            with self._lock:
                self.skipped += 1
            return
        made = attempt(ready, repeat, workspace, self.options)
        row = Row(
            pack=self.pack.name,
            digest=self.pack.digest[:16],
            mode=self.options.mode,
            model=made.model,
            task=ready.id,
            repeat=repeat,
            kind=ready.kind,
            difficulty=ready.difficulty,
            solved=made.verdict.solved,
            score=made.verdict.score,
            outcome=made.outcome,
            detail=made.verdict.detail[:MOST_DETAIL],
            calls=made.usage.requests,
            input_tokens=made.usage.input_tokens,
            output_tokens=made.usage.output_tokens,
            dollars=made.usage.dollars,
            seconds=round(made.seconds, 3),
            turns=made.turns,
            valid=made.valid,
            statements=made.statements,
            did=made.did,
            answer=made.answer,
            est_calls=made.estimated.planned,
            bare_calls=made.estimated.bare,
        )
        record, replay, outputs = self.options.record, self.options.replay, self.options.outputs
        if outputs is not None:
            outputs.write(row, made.found, made.events, made.began)
        with self._lock:
            self.results.add(row)
            if record is not None:
                note(record, row)
            if replay is not None and (drift := _drift(replay, row, made.drift)) is not None:
                self.drifts.append(drift)
            self.ran += 1
            self._on_row(row)

    def _opened(self, **given: Any) -> AbstractContextManager[Engine]:
        return self._watched(self._open_engine(**given))

    @contextmanager
    def _watched(self, opening: AbstractContextManager[Engine]) -> Iterator[Engine]:
        with opening as engine:
            with self._lock:
                if self._stopped:
                    raise Cancelled("cancelled")
                self._engines.append(engine)
            try:
                yield engine
            finally:
                with self._lock:
                    self._engines.remove(engine)


def _drift(replay: Recordings, row: Row, request: str) -> Drift | None:
    """What is not as recorded: a request of the attempt, told before what came of it."""
    return Drift(row.task, row.repeat, request) if request else replay.drift(row)


def no_reference(pack: Pack) -> ConfigError:
    return ConfigError(f"no task of {pack.name} has reference SQL", hint="--mode frozen runs it")
