"""Runs what was typed: statements on the engine, commands here. Errors are said and never end the shell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from kleene.cli.confirm import confirm
from kleene.cli.exits import Exit, UsageError, exit_of
from kleene.cli.faults import described
from kleene.cli.invocation import EngineLike, Invocation, PlanLike
from kleene.cli.progress import Tally, shown
from kleene.cli.report import report, usage_line
from kleene.planner.errors import Cancelled, KleeneError
from kleene.repl.complete import is_command
from kleene.repl.names import Names, read_names
from kleene.repl.output import Output
from kleene.repl.relay import Relay
from kleene.repl.worker import Worker

if TYPE_CHECKING:
    from kleene.planner.statements import Statement
    from kleene.udfs.events import Event

T = TypeVar("T")
DEEPEST = 16  # files that run files
RED, RESET = "\x1b[31m", "\x1b[0m"


@attrs.frozen
class Asked:
    """An engine whose statements run in the worker: what ``confirm`` needs of one."""

    worker: Worker

    @property
    def state(self) -> Any:
        return self.worker.call(lambda engine: engine.state)

    def explain(self, text: str) -> PlanLike:
        return self.worker.call(lambda engine: engine.explain(text))


@attrs.define(eq=False)
class Shell:
    """What one prompt knows between two inputs. ``commands`` runs what begins with a backslash or a slash."""

    inv: Invocation
    database: str
    commands: Callable[[Shell, str], None]
    relay: Relay = attrs.field(init=False)
    worker: Worker = attrs.field(init=False)
    output: Output = attrs.field(init=False)
    names: Names = attrs.field(factory=Names)
    timing: bool = False
    done: bool = False
    last: str = ""  # the last statement
    last_id: str = ""  # of the last one that made calls
    draft: str = ""  # what the next prompt begins with
    on_opened: Callable[[BaseException | None], None] = lambda error: None
    _files: list[Path] = attrs.field(factory=list)
    _said: int = 0  # of the engine's notes

    def __attrs_post_init__(self) -> None:
        self.relay = Relay(streams=self.inv.terminal.shows_progress)
        self.worker = Worker(lambda: self.inv.open(self.database, on_event=self.relay), on_opened=self._opened)
        self.output = Output(self.inv)

    def _opened(self, error: BaseException | None) -> None:
        if error is None:
            self.worker.later(self._read_names)
        self.on_opened(error)

    def _read_names(self, engine: EngineLike) -> None:
        self.names = read_names(engine, self.names)

    # -- running -----------------------------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> Exit:
        """Run an input: a command, or statements until one fails. What went wrong is said; the exit code is that of the error."""
        try:
            if is_command(text):
                self.commands(self, text.strip())
            else:
                self._statements(text)
            return Exit.DONE
        except Stopped as error:
            self._failed(error, error.render())
            return error.code
        except KeyboardInterrupt as error:
            return self._failed(error, "cancelled")
        except Cancelled as error:
            return self._failed(error, error.message)
        except KleeneError as error:
            return self._failed(error, error.render())
        except Exception as error:
            return self._failed(error, described(error))

    def _failed(self, error: BaseException, text: str) -> Exit:
        if error is self.worker.failure:
            self.done = True  # there is no engine, and there will be none
        if self.inv.args.log == "debug":
            import traceback

            self.inv.terminal.error("".join(traceback.format_exception(error)).rstrip())
        if self.inv.terminal.color and text.startswith("error:"):
            text = f"{RED}error:{RESET}{text.removeprefix('error:')}"
        self.inv.terminal.error(text)
        return exit_of(error)

    def _statements(self, text: str) -> None:
        from kleene.cli.statements import placed

        try:
            for statement in self.split(text):
                with placed(statement):
                    self.statement(statement.text)
        finally:
            self._say_notes()

    def _say_notes(self) -> None:
        """Say what the engine has to say of itself, and of MCP servers, since the last input."""
        notes = () if self.worker.engine is None else tuple(self.worker.engine.notes)
        for note in notes[self._said :]:
            self.inv.terminal.say(f"note: {note}")
        self._said = len(notes)

    def split(self, text: str) -> Sequence[Statement]:
        """The statements of a text. The parser is the engine's: it is loaded where the engine is."""

        def parsed(engine: EngineLike) -> Sequence[Statement]:
            from kleene.planner.statements import parse

            return parse(text)

        return self.worker.call(parsed)

    def statement(self, text: str) -> None:
        """Confirm, run and report one statement."""
        inv = self.inv
        started = time.perf_counter()
        confirm(Asked(self.worker), text, inv)  # type: ignore[arg-type]
        asked = time.perf_counter()
        tally = self.tally()
        result = self.watched(tally, lambda engine: engine.sql(text))
        ran = time.perf_counter() - asked
        self.last = text
        if result.usage.requests or result.usage.memo_hits:
            self.last_id = getattr(result, "statement_id", "")
        report(result, text, inv, self.output.write)
        line = usage_line(result.usage)
        if line:
            inv.terminal.say(line)
        if self.timing:
            inv.terminal.say(f"time: {ran:.3f} s, estimating included {time.perf_counter() - started:.3f} s")
        if changes_names(text):
            self.worker.later(self._read_names)

    def tally(self) -> Tally:
        tally = Tally()
        tally.share = self.fullest
        return tally

    def watched(
        self,
        tally: Tally,
        function: Callable[[EngineLike], T],
        *,
        listener: Callable[[Event], None] | None = None,
        replies: bool = False,
    ) -> T:
        """Run something on the engine with its progress on the terminal. Ctrl-C becomes ``Cancelled`` with what was answered until then."""
        if self.worker.busy:
            self.inv.terminal.say("note: the statement before is still ending")
        try:
            with self.relay.heard_by(listener or tally), shown(tally, self.inv.terminal, replies=replies):
                return self.worker.call(function)
        except (KeyboardInterrupt, Cancelled) as error:
            raise Cancelled(tally.cancelled()) from error

    def fullest(self) -> tuple[str, float] | None:
        """The budget's dimension that is used up most, and its share; None without a budget."""
        ledger = getattr(self.worker.engine, "ledger", None)
        if ledger is None:
            return None
        limits, left = ledger.limits, ledger.remaining()
        shares = [
            (name, 1 - getattr(left, name) / getattr(limits, name))
            for name in ("calls", "tokens", "dollars")
            if getattr(limits, name)
        ]
        return max(shares, key=lambda s: s[1], default=None)

    # -- files -------------------------------------------------------------------------------------------------------------------------

    def file(self, name: str) -> None:
        """Run a file: statements and commands, until one fails. Raises ``UsageError`` where it cannot be read, or runs itself."""
        from kleene.cli.texts import decoded, read_bytes

        path = Path(name).expanduser()
        if len(self._files) >= DEEPEST or path.resolve() in self._files:
            raise UsageError(f"{name} runs itself", hint=r"a file that is being run cannot be run again by \i")
        text = decoded(read_bytes(name), name)
        self._files.append(path.resolve())
        try:
            for chunk in chunks(text):
                code = self.feed(chunk)
                if code is not Exit.DONE:
                    raise Stopped(code, f"{name} was not run to its end")
                if self.done:
                    return
        finally:
            self._files.pop()

    def close(self) -> None:
        self.output.to_screen()
        self.worker.close()


class Stopped(KleeneError):
    """A file stopped at an error that was said already. ``code`` is that error's exit code."""

    def __init__(self, code: Exit, message: str):
        super().__init__(message)
        self.code = code


def chunks(text: str) -> list[str]:
    r"""A script in inputs as they would be typed: commands by the line, statements up to the semicolon that ends their line.

    >>> chunks("\\timing on\nSELECT 1;\nSELECT\n 2;\n\nSELECT 3")
    ['\\timing on', 'SELECT 1;', 'SELECT\n 2;', 'SELECT 3']
    """
    from kleene.repl.complete import is_complete

    found: list[str] = []
    typed: list[str] = []
    for line in text.splitlines():
        if not typed and not line.strip():
            continue
        typed.append(line)
        whole = "\n".join(typed)
        # Only such a line can end an input: a long script is not read again for each of its lines.
        if (len(typed) == 1 or ";" in line or "*/" in line) and is_complete(whole):
            found.append(whole)
            typed = []
    if typed and any(line.strip() for line in typed):
        found.append("\n".join(typed))
    return found


QUERIES = ("select", "from", "values", "explain", "show", "describe", "summarize", "table")


def changes_names(text: str) -> bool:
    """Whether a statement may have made or dropped something that can be completed.

    >>> changes_names("CREATE TABLE t (a INT)"), changes_names("SELECT 1")
    (True, False)
    """
    return not text.lstrip("( \n").lower().startswith(QUERIES)
