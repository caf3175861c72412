"""The line that is typed on: editing, completion, colours, keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from kleene.repl.complete import is_complete
from kleene.repl.lexer import CallSQLLexer
from kleene.repl.names import Names
from kleene.repl.suggest import Word, suggest

PROMPT = "kleene> "
MORE = "     -> "
# The sixteen colours are the terminal's own, so that the prompt looks right on light and on dark. Nothing sets a background but the menu,
# which is the terminal's own reversed.
STYLE = {
    "prompt": "ansicyan bold",
    "continuation": "ansicyan",
    "keyword": "ansiblue bold",
    "type": "ansicyan",
    "call": "ansimagenta bold",
    "function": "ansicyan",
    "string": "ansigreen",
    "number": "ansiyellow",
    "parameter": "ansiyellow",
    "comment": "ansibrightblack italic",
    "command": "ansimagenta",
    "bottom-toolbar": "noreverse ansibrightblack",
    "completion-menu": "noinherit reverse",
    "completion-menu.completion": "noinherit reverse",
    "completion-menu.completion.current": "noinherit bold",
    "completion-menu.meta.completion": "noinherit reverse",
    "completion-menu.meta.completion.current": "noinherit bold",
    "scrollbar.background": "noinherit reverse",
    "scrollbar.button": "noinherit",
}


class NameCompleter(Completer):
    """Asks ``suggest`` with the names as they are when a key is pressed."""

    def __init__(self, names: Callable[[], Names], commands: tuple[Word, ...]):
        self._names = names
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        found = suggest(
            document.text_before_cursor,
            document.text_after_cursor,
            self._names(),
            self._commands,
            asked=complete_event.completion_requested,
        )
        for suggestion in found:
            yield Completion(suggestion.text, start_position=-suggestion.length, display_meta=suggestion.kind)


def key_bindings() -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus("DEFAULT_BUFFER")

    @keys.add("enter", filter=typing & ~completion_is_selected)
    def run_or_go_on(event: KeyPressEvent) -> None:
        """Run what is complete; otherwise go on in a new line."""
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    @keys.add("enter", filter=typing & completion_is_selected)
    def take(event: KeyPressEvent) -> None:
        """Keep the completion that is chosen; the next Enter runs."""
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter", filter=typing)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("tab", filter=typing & ~completion_is_selected)
    def complete(event: KeyPressEvent) -> None:
        """Complete; in the margin of a line indent."""
        buffer = event.current_buffer
        if not buffer.complete_state and not buffer.document.current_line_before_cursor.strip() and buffer.text.strip():
            buffer.insert_text("    ")
        elif buffer.complete_state:
            buffer.complete_next()
        else:
            buffer.start_completion(insert_common_part=True)

    return keys


class Prompt:
    """``input`` and ``output`` stand in for the terminal in tests. ``on_shown`` is called once, when the first prompt is on the screen."""

    def __init__(
        self,
        *,
        history: History,
        names: Callable[[], Names],
        commands: tuple[Word, ...],
        toolbar: Callable[[], str] | None = None,
        color: bool = True,
        on_shown: Callable[[], None] | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ):
        self._on_shown = on_shown
        self.session: PromptSession[str] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            lexer=CallSQLLexer(),
            completer=NameCompleter(names, commands),
            complete_while_typing=True,
            complete_in_thread=False,
            history=history,
            key_bindings=key_bindings(),
            prompt_continuation=self._continuation,
            bottom_toolbar=None if toolbar is None else (lambda: [("class:bottom-toolbar", toolbar())]),
            style=Style.from_dict(STYLE if color else dict.fromkeys(STYLE, "")),
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
            enable_suspend=True,
            enable_open_in_editor=True,
            tempfile_suffix=".sql",
            reserve_space_for_menu=6,
            input=input,
            output=output,
        )
        self.session.app.after_render += self._shown
        self.session.app.ttimeoutlen = 0.05

    def _shown(self, app: Any) -> None:
        if self._on_shown is not None:
            call, self._on_shown = self._on_shown, None
            call()

    @staticmethod
    def _continuation(width: int, line: int, wrapped: int) -> StyleAndTextTuples:
        return [("class:continuation", MORE if not wrapped else " " * width)]

    def read(self, default: str = "") -> str:
        """One input. Raises ``KeyboardInterrupt`` at Ctrl-C, ``EOFError`` at Ctrl-D on an empty line."""
        return self.session.prompt(default=default)

    def interrupt(self, error: BaseException) -> None:
        """End the prompt that is open with an error, from another thread. Does nothing where none is open."""
        app = self.session.app
        loop = app.loop
        if loop is not None and app.is_running:
            loop.call_soon_threadsafe(lambda: app.exit(exception=error) if app.is_running else None)

    def redraw(self) -> None:
        self.session.app.invalidate()
