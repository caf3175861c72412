"""The package as users install it: a wheel, an editable checkout, and the checkout's own folder."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import kleene

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("kleene", "planner", "udfs", "pyproject.toml", "README.md", "LICENSE")
QUIET = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
WRONG = "raise ImportError('this is the user\\'s own module')\n"


def run(*argv: str | Path, cwd: Path) -> str:
    """The output of a command that must succeed, free of what the surrounding environment says about Python."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "PIP_"))}
    done = subprocess.run(
        [str(a) for a in argv], cwd=cwd, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packaged: building leaves files behind, and other tests run at the same time."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / name)
    return folder


def bare_environment(folder: Path) -> Path:
    """A virtual environment without pip that finds our dependencies, but not our package, in this one. Gives its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    # A path in a .pth file is added as it is: the .pth files of that folder, an editable install's among them, are not read.
    (site / "dependencies.pth").write_text(
        "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}), encoding="utf-8"
    )
    return python


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", *QUIET, "--no-build-isolation", "--wheel-dir", out, checkout, cwd=out)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = bare_environment(tmp_path_factory.mktemp("installed") / "venv")
    run(sys.executable, "-m", "pip", "--python", python, "install", *QUIET, wheel, cwd=wheel.parent)
    return python


@pytest.fixture(scope="module")
def editable(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = bare_environment(tmp_path_factory.mktemp("editable") / "venv")
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        *QUIET,
        "--no-build-isolation",
        "--editable",
        checkout,
        cwd=checkout,
    )
    return python


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    """A folder with modules of the user's own that have our folders' names."""
    for name in ("planner.py", "udfs.py"):
        (tmp_path / name).write_text(WRONG, encoding="utf-8")
    return tmp_path


HOW = pytest.mark.parametrize("how", ["installed", pytest.param("editable", marks=pytest.mark.slow)])
NEEDS_ENGINE = pytest.mark.skipif(find_spec("kleene.attaching") is None, reason="there is no engine yet")


@HOW
def test_it_starts_beside_a_users_planner_and_udfs(
    how: str, users_folder: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue(how)
    assert run(python, "-m", "kleene", "--version", cwd=users_folder) == f"kleene {kleene.__version__}\n"
    assert run(python.parent / "kleene", "--version", cwd=users_folder) == f"kleene {kleene.__version__}\n"


@NEEDS_ENGINE
@HOW
def test_a_statement_runs_beside_a_users_planner_and_udfs(
    how: str, users_folder: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue(how)
    assert run(python, "-m", "kleene", "sql", "SELECT 1 AS one", cwd=users_folder) == '{"one":1}\n'
    (users_folder / "script.py").write_text(
        "import kleene\nprint(kleene.connect().sql('SELECT 1').fetchall())\n", encoding="utf-8"
    )
    assert run(python, "script.py", cwd=users_folder) == "[(1,)]\n"


@NEEDS_ENGINE
def test_a_statement_runs_in_the_checkout_though_a_wheel_is_installed(installed: Path, checkout: Path) -> None:
    assert (
        run(installed, "-m", "kleene", "sql", "SELECT 1 AS one", "--workspace", installed.parent, cwd=checkout)
        == '{"one":1}\n'
    )


@HOW
def test_every_module_can_be_imported(
    how: str, users_folder: Path, checkout: Path, request: pytest.FixtureRequest
) -> None:
    paths = [name.removesuffix(".py").split("/") for name in packaged_files(checkout) if name.endswith(".py")]
    names = {".".join(part for part in path if part not in ("__init__", "__main__")) for path in paths}
    (users_folder / "every.py").write_text("".join(f"import {name}\n" for name in sorted(names)), encoding="utf-8")
    run(request.getfixturevalue(how), "every.py", cwd=users_folder)


def packaged_files(checkout: Path) -> set[str]:
    """Every file of the three folders, by its path in a wheel."""
    return {
        f"{package}/{path.relative_to(checkout / folder).as_posix()}"
        for folder, package in {"planner": "kleene/planner", "udfs": "kleene/udfs", "kleene": "kleene"}.items()
        for path in (checkout / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_a_wheel_holds_every_file_of_the_three_folders(wheel: Path, checkout: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == packaged_files(checkout)


def test_the_version_is_the_same_everywhere(wheel: Path) -> None:
    assert wheel.name.split("-")[1] == kleene.__version__
    assert importlib.metadata.version("kleene") == kleene.__version__


@pytest.mark.slow
def test_a_source_distribution_builds_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    code = "import sys; from setuptools.build_meta import build_sdist; print(build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", code, tmp_path, cwd=checkout).splitlines()[-1]
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        *QUIET,
        "--no-build-isolation",
        "--wheel-dir",
        tmp_path,
        tmp_path / name,
        cwd=tmp_path,
    )
    again = next(tmp_path.glob("*.whl"))
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


HEAVY = ("duckdb", "pyarrow", "numpy", "sqlglot", "trio", "httpx", "rich", "prompt_toolkit", "attr", "cattrs")


@pytest.mark.parametrize(
    "argv", [["-c", "import kleene"], ["-m", "kleene", "--version"], ["-m", "kleene", "sql", "--help"]]
)
def test_nothing_heavy_is_loaded_before_it_is_needed(argv: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "import time:" in line
    }
    assert loaded & set(HEAVY) == set()


def test_every_public_name_is_there() -> None:
    names = getattr(kleene, "__all__", ())
    assert sorted(set(names)) == sorted(names)
    for name in names:
        assert getattr(kleene, name) is not None


@NEEDS_ENGINE
def test_no_module_hides_a_public_name() -> None:
    import kleene

    for name in ("connect", "attach", "Engine"):
        assert callable(getattr(kleene, name)), name


def test_the_top_level_holds_what_it_should() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert {name.partition("/")[0] for name in listed.stdout.splitlines()} == {
        *(".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"),
        *("docs", "kleene", "planner", "scripts", "tasks", "tests", "udfs"),
    }
