"""Where rows go: the screen, or a file after ``\\o``."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from kleene.cli.exits import UsageError
from kleene.cli.invocation import Invocation
from kleene.rendering.formats import SCREEN_ROWS, write_rows
from kleene.rendering.rows import Relation
from kleene.rendering.table import Limits

BY_SUFFIX = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".md": "markdown", ".txt": "table"}
MORE = r"\o FILE.csv takes all"


class Output:
    """``expanded``: each value in full, on lines of its own."""

    def __init__(self, inv: Invocation):
        self.inv = inv
        self.expanded = False
        self.path: Path | None = None
        self._file: TextIO | None = None
        self._format = ""

    def to_file(self, name: str) -> Path:
        """Rows go to a new file from now on, in the format of its name. Raises ``UsageError`` where it cannot be written."""
        path = Path(name).expanduser()
        try:
            file = path.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror or error}") from error
        self.to_screen()
        self.path, self._file = path, file
        self._format = BY_SUFFIX.get(path.suffix.lower(), self.inv.args.format or "table")
        return path

    def to_screen(self) -> None:
        if self._file is not None:
            self._file.close()
        self.path = self._file = None

    @property
    def on_screen(self) -> bool:
        """Whether rows are drawn for people, so that a command may leave out what only programs read."""
        return self._file is None and self.inv.terminal.shows_tables and self.inv.args.format in (None, "table")

    def write(self, relation: Relation) -> None:
        terminal = self.inv.terminal
        if self._file is not None:
            write_rows(relation, self._format, self._file)
            self._file.flush()
            return
        if not relation.columns or is_plan(relation):
            terminal.out.writelines(f"{line}\n" for line in plan_lines(relation))
        elif self.on_screen:
            limits = Limits(terminal.width, SCREEN_ROWS, terminal.color, whole=self.expanded, rest=MORE)
            write_rows(relation, "table", terminal.out, limits)
        else:
            self.inv.write(relation)
        terminal.out.flush()


def is_plan(relation: Relation) -> bool:
    """Whether the rows are the lines of a plan, Kleene's or DuckDB's."""
    return getattr(relation, "plan", None) is not None or tuple(relation.columns) == ("explain_key", "explain_value")


def plan_lines(relation: Relation) -> list[str]:
    from kleene.rendering.rows import as_text
    from kleene.rendering.table import visible

    if not relation.columns:
        return []
    cells = [row[-1] or "" for batch in as_text(relation) for row in batch]
    return [visible(line) for cell in cells for line in cell.split("\n")]
