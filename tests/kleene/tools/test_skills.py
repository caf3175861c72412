"""Skills: where they are found, what is shown of them, and that every statement of those that come with Kleene runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import kleene
from kleene.planner.errors import CallFailed
from kleene.tools.skills import BUILT_IN, FILE, MOST, find_skills, read_skill
from tests.kleene.engines import CountingModel, engine
from tests.kleene.scripted import Script, sql
from tests.kleene.scripted import engine as scripted
from tests.kleene.tools.work import NO_SANDBOX
from tests.kleene.tools.working import write

NAMES = ["add-mcp-server", "code-task", "create-skill", "long-context", "plan-queries", "run-benchmark"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(tmp_path / "home" / "conf"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def statements(name: str) -> list[str]:
    blocks = [
        body for language, body in FENCE.findall((BUILT_IN / name / FILE).read_text("utf-8")) if language == "sql"
    ]
    assert blocks
    return blocks


def answered(prompt: str) -> str:
    """Of a model that knows what the texts of these tests say."""
    if prompt.startswith("Does this passage"):
        return str("failed" in prompt).lower()
    if prompt.startswith("Name the part"):
        return "seal" if "seal" in prompt else "pump"
    if prompt.startswith("What is this review about?"):
        return "delivery" if "late" in prompt else "quality"
    if prompt.startswith("One word"):
        return prompt.split(": ")[1].split()[0]
    return str("late" in prompt).lower()


def code(folder: Path) -> None:
    write(
        folder,
        {
            "shop.py": "def total(price, count):\n    return price + count\n",
            "check.py": "from shop import total\nassert total(3, 4) == 12\nprint('passes')\n",
        },
    )


def results(folder: Path) -> None:
    def rows(solved: Callable[[int], bool]) -> str:
        lines = [f"t{i},{str(solved(i)).lower()},final,row 1 differs,0.01" for i in range(20)]
        return "\n".join(["task,solved,outcome,detail,dollars", *lines, ""])

    write(folder, {"a.csv": rows(lambda i: i % 4 > 0), "b.csv": rows(lambda i: True)})


def nothing(folder: Path) -> None:
    pass


MADE: dict[str, Callable[[Path], None]] = {"code-task": code, "run-benchmark": results}


def run_all(name: str, folder: Path) -> list[kleene.Result]:
    """Every block of the skill's SQL, in order, as it stands."""
    MADE.get(name, nothing)(folder)
    with engine(CountingModel(answered), workspace=folder) as (k, _):
        if name == "long-context":
            rows = [
                (i, f"Day {i}: the seal of pump {i} {'failed' if i % 40 == 7 else 'held'}.", "log.txt")
                for i in range(200)
            ]
            k.sql("CREATE TABLE ctx(ordinal BIGINT, text TEXT, source TEXT)")
            k.con.executemany("INSERT INTO ctx VALUES (?, ?, ?)", rows)
        return [k.sql(block) for block in statements(name)]


def test_long_context_finds_what_the_text_says(folder: Path) -> None:
    done = run_all("long-context", folder)
    assert done[-1].fetchall() == [("seal", 5)] and done[0].fetchall()[0][0] == 0


@pytest.mark.skipif(NO_SANDBOX is not None, reason=f"no sandbox here: {NO_SANDBOX}")
def test_code_task_mends_the_code(folder: Path) -> None:
    import subprocess

    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    done = run_all("code-task", folder)
    assert (folder / "shop.py").read_text() == "def total(price, count):\n    return price * count\n"
    assert done[2].fetchall()[0][2] == 1 and "shop.py" in str(done[-1].fetchall()[0][0])
    with engine(workspace=folder) as (k, _):
        assert k.sql("CALL shell('python3 check.py')").fetchall()[0][:3] == ("passes\n", "", 0)


def test_plan_queries_makes_few_calls(folder: Path) -> None:
    done = run_all("plan-queries", folder)
    explained = "\n".join(str(row[0]) for row in done[0].fetchall())
    assert "llm_bool" in explained and done[4].fetchall() == [("delivery", 50), ("quality", 150)]


def test_run_benchmark_counts_and_compares(folder: Path) -> None:
    done = run_all("run-benchmark", folder)
    assert done[0].fetchall() == [(20, 15, 0.2)]
    assert done[1].fetchall() == [(0.531, 0.888)]  # Wilson's interval of 15 of 20
    assert [row[:3] for row in done[2].fetchall()] == [(False, True, 5), (True, True, 15)]
    assert [row[0] for row in done[3].fetchall()] == ["t0", "t12", "t16", "t4", "t8"]


@pytest.mark.parametrize("name", ["long-context", "plan-queries"])
def test_a_session_may_run_all_of_it(folder: Path, name: str) -> None:
    text = "\n\n".join(f"Day {i}: the seal of pump {i} {'failed' if i % 40 == 7 else 'held'}." for i in range(200))
    blocks = [sql(block) for block in statements(name)]
    script = Script(*blocks, sql("FINAL('done')"), calls=answered)
    with scripted(script, workspace=folder) as k:
        done = k.run("Which part failed most?", context=text, max_turns=len(blocks) + 1)
        assert done.outcome == "final" and done.answer is not None
        assert done.answer.fetchall()[0][0] == ("seal" if name == "long-context" else "done")
        errors = k.sql("SELECT sql, error FROM trace_statements WHERE error IS NOT NULL").fetchall()
        assert errors == []


def test_add_mcp_server_runs(folder: Path) -> None:
    assert "llm_bool" in [row[0] for row in run_all("add-mcp-server", folder)[0].fetchall()]


def test_create_skill_makes_one_that_is_found(folder: Path) -> None:
    done = run_all("create-skill", folder)
    text = done[2].fetchall() if done[2].columns == ("text",) else done[1].fetchall()
    assert text and text[0][0].startswith("# Close a month\n") and done[-1].fetchall() == [(2,)]
    assert find_skills(folder)["close-month"].scope == "project"


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_skill_is_short_and_says_what_it_is_for(name: str) -> None:
    text = (BUILT_IN / name / FILE).read_text("utf-8")
    skill = read_skill(name, "built in", text)
    assert len(text.splitlines()) <= 120 and f"\nname: {name}\n" in text
    assert 40 < len(skill.description) < 200 and skill.description.endswith(".")
    assert skill.text.startswith("# ") and "---" not in skill.text.split("\n")[0]


def test_they_are_listed_and_read(folder: Path) -> None:
    with engine(workspace=folder) as (k, _):
        shown = k.sql("SHOW SKILLS")
        assert shown.columns == ("name", "description", "scope")
        assert [(name, scope) for name, _, scope in shown.fetchall()] == [(name, "built in") for name in NAMES]
        assert k.sql("SELECT text FROM skill('plan-queries')").fetchall()[0][0].startswith("# Few calls\n")
        with pytest.raises(CallFailed) as caught:
            k.sql("SELECT * FROM skill('plan-querys')")
        assert caught.value.hint == "did you mean 'plan-queries'?"


def test_a_model_is_told_of_skills_where_somebody_wrote_some(folder: Path) -> None:
    prompts: list[str] = []

    def told() -> str:
        script = Script(sql("SELECT count(*) FROM skill('long-context')"), sql("FINAL('done')"))
        with scripted(script, workspace=folder) as k:
            assert k.run("Do it.", max_turns=3).outcome == "final"
        prompts.append(str(script.asked()[0]))
        return prompts[-1]

    write(folder, {"a.txt": "x"})
    assert "skill(name" not in told()
    write(folder, {".agents/skills/mine/SKILL.md": "# Mine\n"})
    assert "skill(name" in told()


def test_the_first_of_a_name_counts(folder: Path, tmp_path: Path) -> None:
    skill = "---\nname: x\ndescription: {0}\n---\n# {0}\n"
    places = {
        "home/conf/skills": "user",
        "home/.agents/skills": "agents of the user",
        "workspace/.claude/skills": "claude",
        "workspace/.agents/skills": "agents",
        "workspace/.kleene/skills": "kleene",
    }
    seen = []
    for place, what in places.items():
        write(
            tmp_path,
            {f"{place}/long-context/SKILL.md": skill.format(what), f"{place}/{place[0]}-own/SKILL.md": "# Own\n"},
        )
        found = find_skills(folder)["long-context"]
        seen.append((found.description, found.scope))
    user, project = "user", "project"
    assert seen == [("user", user), ("user", user), ("claude", project), ("agents", project), ("kleene", project)]


def test_what_a_checkout_may_bring_is_not_believed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    write(tmp_path / "secret", {"SKILL.md": "hunter2", "a/SKILL.md": "hunter2"})
    skills = folder / ".agents" / "skills"
    write(
        skills,
        {
            "big/SKILL.md": "x" * 100_000,
            "Bad_Name/SKILL.md": "x",
            "none/README.md": "x",
            "bytes/SKILL.md": b"# \xff\x00\n",
        },
    )
    (skills / "linked").symlink_to(tmp_path / "secret")
    (skills / "file").mkdir()
    (skills / "file" / "SKILL.md").symlink_to(tmp_path / "secret" / "SKILL.md")
    (folder / ".claude").mkdir()
    (folder / ".claude" / "skills").symlink_to(tmp_path / "secret")
    (folder / ".kleene").symlink_to(tmp_path / "secret")
    found = {name: skill for name, skill in find_skills(folder).items() if skill.scope == "project"}
    assert {name: skill.description for name, skill in found.items()} == {"bytes": "\ufffd"}
    assert "hunter2" not in str([s.text for s in find_skills(folder).values()])
    for n in range(MOST + 20):
        write(folder, {f".agents/skills/n{n}/SKILL.md": "# N\n"})
    assert len([s for s in find_skills(folder).values() if s.scope == "project"]) <= MOST


@pytest.mark.parametrize(
    ("text", "description", "body"),
    [
        ("", "", "\n"),
        ("# A\n\nb", "A", "# A\n\nb\n"),
        ("---\ndescription: x\n---\n", "x", "\n"),
        ("---\ndescription: >\n  several\n  lines\nname: a\n---\n# A", "several lines", "# A\n"),
        ("---\nname: a\n---\n\nFirst.\n", "First.", "First.\n"),
        ("---\nnever closed", "---", "---\nnever closed\n"),
        ("---\ndescription: a\x1b[31mred\n---\n", "a [31mred", "\n"),
        ("---\ndescription: " + "x" * 300 + "\n---\n", "x" * 199 + "…", "\n"),
    ],
)
def test_a_head_is_read(text: str, description: str, body: str) -> None:
    skill = read_skill("a", "user", text)
    assert (skill.description, skill.text) == (description, body)
