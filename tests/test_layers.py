"""The three floors, and which third-party library may be imported where. The arrows point down: kleene, udfs, planner."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {"planner": "kleene.planner", "udfs": "kleene.udfs", "kleene": "kleene"}

ENGINE = (
    "kleene.attaching",
    "kleene.bounds",
    "kleene.connection",
    "kleene.counting",
    "kleene.executor",
    "kleene.explain",
    "kleene.frames",
    "kleene.macronames",
    "kleene.macros",
    "kleene.plainnames",
    "kleene.profile",
    "kleene.problems",
    "kleene.result",
    "kleene.keeping",
    "kleene.runner",
    "kleene.runs",
)
CALLS = tuple(f"kleene.udfs.{n}" for n in ("runtime", "dispatch", "gate", "sending", "delivery", "recall", "childwork"))
READERS = (
    "kleene.store",
    "kleene.tools.index",
    "kleene.session.context",
    "kleene.documents",
    "kleene.rendering.rows",
    "kleene.cli.reading",
    "kleene.bench.attempt",  # a statement that DuckDB fails on is an attempt that failed
    "kleene.bench.estimates",
    "kleene.reports",
)

DISPATCH = tuple(f"kleene.udfs.{part}" for part in ("dispatch", "childwork", "delivery", "gate", "recall", "sending"))

WEB = tuple(f"kleene.tools.{part}" for part in ("hosts", "web", "webclient", "websearch"))

# A library, and the modules (or packages, with all below them) that may import it. Everything else may not.
CONFINED = {
    "sqlglot": (
        "kleene.planner",
        "kleene.executor",
        "kleene.explaining",
        "kleene.runs",
        "kleene.repl.lexer",
    ),  # the last two ask for a statement's kind
    "duckdb": ("kleene.udfs", *ENGINE, *READERS, "kleene.bench.plain.tables"),  # the last is the rival's own
    "pyarrow": ("kleene.udfs", *ENGINE, *READERS, "kleene.cli.models", "kleene.bench.importers.rows"),
    "trio": ("kleene.udfs.runtime", *DISPATCH, "kleene.models", "kleene.udfs.waiting"),
    "httpx": ("kleene.models", *WEB),
    "httpcore": ("kleene.tools.webclient",),
    "h11": ("kleene.models.connection", "kleene.models.shards"),
    "mcp": ("kleene.mcp",),
    "anyio": ("kleene.mcp",),
    "httpx2": ("kleene.mcp",),
    "uvicorn": ("kleene.mcp",),
    "prompt_toolkit": ("kleene.repl", "kleene.cli.setup"),
    "rich": ("kleene.cli", "kleene.rendering", "kleene.repl"),
    "opentelemetry": ("kleene.otel",),
    "IPython": ("kleene.notebook",),
    "matplotlib": ("kleene.bench.plots",),
}


@attrs.frozen
class Import:
    """One import: who imports, what (as dotted names), on which line, and whether it runs (not only for type checking)."""

    module: str
    name: str
    line: int
    runs: bool
    top: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.name}"


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for folder, package in FLOORS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(p for p in parts if p != "__init__")] = path
    return found


MODULES = modules()


def imports_of(module: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def walk(node: ast.AST, runs: bool, top: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            child_runs, child_top = runs, top
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                child_runs = False
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                child_top = False
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(module, alias.name, child.lineno, runs, top)
            elif isinstance(child, ast.ImportFrom):
                base = relative(package, child.level, child.module)
                for alias in child.names:
                    name = f"{base}.{alias.name}"
                    yield Import(module, name if name in MODULES else base, child.lineno, runs, top)
            else:
                yield from walk(child, child_runs, child_top)

    yield from walk(tree, True, True)


def relative(package: str, level: int, module: str | None) -> str:
    if not level:
        return module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])


IMPORTS = [found for module, path in MODULES.items() for found in imports_of(module, path)]


def floor_of(name: str) -> int | None:
    """1 planner, 2 udfs, 3 kleene; None for what is not ours."""
    for depth, package in enumerate(("kleene.planner", "kleene.udfs", "kleene"), 1):
        if name == package or name.startswith(package + "."):
            return depth
    return None


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith((f"{place}.", f"{place}_")) for place in places)


def test_every_import_points_down() -> None:
    wrong = []
    for found in IMPORTS:
        target, own = floor_of(found.name), floor_of(found.module)
        assert own is not None
        if target is not None and target > own:
            wrong.append(str(found))
    assert wrong == []


def test_nothing_is_imported_by_the_name_of_its_folder() -> None:
    wrong = [str(found) for found in IMPORTS if found.name.partition(".")[0] in ("planner", "udfs", "tests")]
    assert wrong == []


@pytest.mark.parametrize("library", CONFINED)
def test_a_library_is_imported_only_where_it_belongs(library: str) -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.name.partition(".")[0] == library and not within(found.module, CONFINED[library])
    ]
    assert wrong == []


@pytest.mark.parametrize("library", ["duckdb", "pyarrow", "trio", "httpx"])
def test_the_planner_imports_no_library_that_runs_anything(library: str) -> None:
    wrong = [str(f) for f in IMPORTS if floor_of(f.module) == 1 and f.name.partition(".")[0] == library]
    assert wrong == []


def test_folders_do_not_import_each_other_in_a_circle() -> None:
    """A folder and one that lies in it are one thing here: a package puts its parts together."""
    edges: dict[str, set[str]] = {}
    for found in IMPORTS:
        if found.runs and found.top and floor_of(found.name) is not None:
            here, there = folder_of(found.module), folder_of(found.name)
            if not within(here, (there,)) and not within(there, (here,)):
                edges.setdefault(here, set()).add(there)
    assert circle_in(edges) is None


def folder_of(module: str) -> str:
    """The package a module lies in; modules directly under ``kleene`` stand for themselves."""
    path = MODULES.get(module)
    if path is None or path.name == "__init__.py":
        return module
    return module if module.count(".") == 1 else module.rpartition(".")[0]


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Imports for type checking and those inside functions count: a circle of knowledge is one however late it is imported."""
    edges: dict[str, set[str]] = {}
    for found in IMPORTS:
        if found.name in MODULES and found.name != found.module:
            edges.setdefault(found.module, set()).add(found.name)
    assert circle_in(edges) is None


def circle_in(edges: dict[str, set[str]]) -> list[str] | None:
    """One path that comes back to where it began, or None."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for target in sorted(edges.get(node, ())):
            found = visit(target, [*path, node])
            if found:
                return found
        done.add(node)
        return None

    return next((found for node in sorted(edges) if (found := visit(node, []))), None)


def test_the_search_for_circles_finds_one() -> None:
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}}) is None


def test_pyproject_names_every_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert set(settings["packages"]) == folders
    assert settings["package-dir"] == {package: folder for folder, package in FLOORS.items()}


def test_every_folder_with_modules_is_a_package() -> None:
    bare = {str(p.parent.relative_to(ROOT)) for p in MODULES.values() if not (p.parent / "__init__.py").exists()}
    assert bare == set()


def test_every_module_postpones_annotations() -> None:
    wrong = [
        module
        for module, path in MODULES.items()
        if path.read_text(encoding="utf-8").strip()
        and not any(f.module == module and f.name == "__future__" for f in IMPORTS)
    ]
    assert wrong == []


def test_the_reference_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/gen_callsql_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_an_engine_is_made_without_what_tools_and_calls_need() -> None:
    """Tools are declared for every engine, and what they do is imported at their first use, as is what makes calls."""
    program = """
import sys, kleene
k = kleene.connect(store=":memory:", models="openai:m")
assert k.sql("SELECT 1").fetchall() == [(1,)]
k.close()
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    light = {"asking", "base", "functions", "lazy", "leaving", "settings", "setup", "standard", "toolbox", "values"}
    assert {name for name in loaded if name.startswith("kleene.tools.")} == {f"kleene.tools.{name}" for name in light}
    heavy = {"pypdf", "docx", "pptx", "openpyxl", "bs4", "markdownify", "markdown_it", "charset_normalizer", "lxml"}
    calling = {"trio", "httpx", "asyncio", "rich", "prompt_toolkit", "kleene.udfs.dispatch", "kleene.udfs.runtime"}
    assert loaded & (heavy | calling) == set()
