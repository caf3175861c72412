"""``repo``: a folder of source files, made in the workspace; a count that must leave out what is hidden, built or fetched."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

import attrs

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Exact

EXTENSIONS = ("rs", "md", "toml", "sql", "txt", "yml")
FOLDERS = ("api", "core", "docs", "engine", "io", "lib", "net", "parse", "store", "tools", "util", "web")
NAMES = (
    "build",
    "cache",
    "client",
    "config",
    "error",
    "index",
    "main",
    "model",
    "notes",
    "plan",
    "query",
    "readme",
    "route",
    "table",
    "value",
)
LEFT_OUT = ("target", "node_modules", ".cache", ".idea")  # folders

# Each line of the list: lines, lines that say TODO, path. Paths have no blanks.
SETUP = """\
while read -r plain todos path; do
    mkdir -p "$(dirname "$path")"
    { seq -f 'line %g' 1 "$plain"; seq -f '# TODO item %g' 1 "$todos"; } > "$path"
done <<'END'
{files}
END"""

SQL = r"""WITH own AS (
    SELECT path FROM files('**/*.{extension}') WHERE kind = 'file' AND NOT regexp_matches('/' || path, '/(target|node_modules|\.[^/]*)(/|$)')
)
"""


@attrs.frozen
class _File:
    path: PurePosixPath
    plain: int
    todos: int

    @property
    def lines(self) -> int:
        return self.plain + self.todos

    def counts(self) -> bool:
        """Whether nothing on its path is hidden, built or fetched."""
        return not any(part.startswith(".") or part in LEFT_OUT for part in self.path.parts)


def repo(dial: float, rng: Rng) -> Example:
    """15 to 135 files in folders up to 1 + 3 x dial deep, a quarter of them under target, node_modules or a hidden folder, or hidden themselves.
    Asked of the files of one extension: how many, how many lines, how many lines with TODO, or the top folder with the most of them."""
    files = _files(15 + int(120 * dial), 1 + int(3 * dial), rng)
    extension = rng.choice(EXTENSIONS)
    own = [f for f in files if f.path.suffix == f".{extension}" and f.counts()]
    asked, rows, sql = _question(rng.choice(("files", "lines", "todo", "folder")), own)
    task = (
        "The workspace is a project. Leave out everything in folders named target or node_modules, and files and folders whose names begin "
        f"with a dot. {asked.format(extension=extension)}"
    )
    listed = "\n".join(f"{f.plain} {f.todos} {f.path}" for f in files)
    return Example(
        "repo_count",
        task,
        Exact(rows),
        rating(dial),
        sql=SQL.replace("{extension}", extension) + sql,
        setup=(SETUP.replace("{files}", listed),),
    )


def _files(count: int, depth: int, rng: Rng) -> list[_File]:
    found: dict[str, _File] = {}
    while len(found) < count:
        parts = [rng.choice(FOLDERS) for _ in range(rng.between(0, depth))]
        name = rng.choice(NAMES)
        out = rng.below(8)
        if out == 0:
            parts.insert(rng.between(0, len(parts)), rng.choice(LEFT_OUT))
        elif out == 1:
            name = f".{name}"
        path = PurePosixPath(*parts, f"{name}.{rng.choice(EXTENSIONS)}")
        found[str(path)] = _File(path, rng.between(0, 12), rng.between(0, 3))
    return list(found.values())


def _question(kind: str, own: list[_File]) -> tuple[str, tuple[tuple[str | int, ...], ...], str]:
    if kind == "files":
        return "How many files end in .{extension}? Answer one number.", ((len(own),),), "SELECT count(*) FROM own"
    if kind == "lines":
        sql = "SELECT count(*) FROM own, LATERAL lines(own.path)"
        return (
            "How many lines have the files that end in .{extension}? Answer one number.",
            ((sum(f.lines for f in own),),),
            sql,
        )
    if kind == "todo":
        sql = "SELECT count(*) FROM own, LATERAL lines(own.path) AS l WHERE contains(l.text, 'TODO')"
        return (
            "How many lines of the files that end in .{extension} say TODO? Answer one number.",
            ((sum(f.todos for f in own),),),
            sql,
        )
    tops = Counter(f.path.parts[0] if len(f.path.parts) > 1 else "." for f in own)
    most = max(tops.values(), default=0)
    asked = (
        "Which folder at the top has the most files that end in .{extension}, its own and those in folders below it? Files that lie at the top "
        "count for a folder named '.'. Answer one row a folder that has as many as any other, the name alone; 'none' if there are no such files."
    )
    sql = (
        "SELECT top FROM (SELECT CASE WHEN contains(path, '/') THEN split_part(path, '/', 1) ELSE '.' END AS top FROM own) GROUP BY top "
        "QUALIFY rank() OVER (ORDER BY count(*) DESC) = 1\nUNION ALL SELECT 'none' WHERE NOT EXISTS (FROM own)"
    )
    return asked, tuple((top,) for top in sorted(tops) if tops[top] == most) or (("none",),), sql
