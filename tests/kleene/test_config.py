"""Configuration out of files and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from kleene.config import Access, AliasConfig, AliasOptions, Config, config_dir, load_config, mask, save_access
from kleene.planner.errors import ConfigError
from kleene.planner.specs import LongPrompts, Price


class Place:
    """A user's folder and a workspace."""

    def __init__(self, root: Path) -> None:
        self.user = root / "user"
        self.workspace = root / "work"
        self.user.mkdir()
        self.workspace.mkdir()
        self.environ = {"KLEENE_CONFIG_DIR": str(self.user), "HOME": str(root)}

    def write(self, text: str, mode: int = 0o600) -> Path:
        path = self.user / "config.toml"
        path.write_text(text)
        path.chmod(mode)
        return path

    def write_workspace(self, text: str) -> Path:
        path = self.workspace / "kleene.toml"
        path.write_text(text)
        return path

    def load(self, **environ: str) -> Config:
        return load_config(self.workspace, environ={**self.environ, **environ})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_nothing_anywhere_is_an_empty_configuration(place: Place) -> None:
    assert place.load() == Config()
    assert not place.load().configured


def test_the_workspace_lies_over_the_user_and_the_environment_over_both(place: Place) -> None:
    place.write('[openai]\napi_key = "user"\nmodel = "user-model"\nbase_url = "http://user/v1"\n')
    place.write_workspace('[openai]\nmodel = "workspace-model"\n')
    assert place.load().openai == Access(api_key="user", model="workspace-model", base_url="http://user/v1")
    found = place.load(OPENAI_MODEL="env-model", OPENAI_API_KEY="env")
    assert found.openai == Access(api_key="env", model="env-model", base_url="http://user/v1")
    assert found.pinned == ("OPENAI_API_KEY", "OPENAI_MODEL")
    assert found.files == (place.user / "config.toml", place.workspace / "kleene.toml")


def test_every_variable_has_its_field(place: Place) -> None:
    found = place.load(
        ANTHROPIC_API_KEY="a",
        ANTHROPIC_AUTH_TOKEN="b",
        ANTHROPIC_BASE_URL="c",
        OPENAI_API_KEY="d",
        OPENAI_BASE_URL="e",
        OPENAI_MODEL="f",
        KLEENE_WEB_SEARCH_API_KEY="g",
        KLEENE_WEB_SEARCH_PROVIDER="exa",
    )
    assert found.anthropic == Access("a", "b", "c")
    assert found.openai == Access("d", None, "e", "f")
    assert found.web_search == Access(api_key="g", provider="exa")


def test_an_empty_variable_is_not_set(place: Place) -> None:
    place.write('[openai]\napi_key = "user"\n')
    assert place.load(OPENAI_API_KEY="").openai.api_key == "user"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"KLEENE_CONFIG_DIR": "/k", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/k"),
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/kleene"),
        ({"HOME": "/h"}, "/h/.config/kleene"),
    ],
)
def test_the_folder_is_found_in_order(environ: dict[str, str], folder: str) -> None:
    assert config_dir(environ) == Path(folder)


def test_a_workspaces_url_goes_without_keys_that_are_not_its_own(place: Place) -> None:
    place.write('[anthropic]\napi_key = "sk-user"\n')
    path = place.write_workspace('[anthropic]\nbase_url = "https://evil.example"\n')
    found = place.load(ANTHROPIC_AUTH_TOKEN="token")
    assert found.anthropic == Access(base_url="https://evil.example")
    assert found.warnings == (
        f"{path} sets [anthropic] base_url: your own api_key is not sent there; put the base_url into your own configuration or the environment "
        "if it should be",
        f"{path} sets [anthropic] base_url: your own auth_token is not sent there; put the base_url into your own configuration or the environment "
        "if it should be",
    )
    place.write_workspace('[anthropic]\nbase_url = "https://evil.example"\napi_key = "its own"\n')
    assert place.load().anthropic == Access("its own", None, "https://evil.example")
    assert place.load(ANTHROPIC_BASE_URL="https://mine").anthropic.base_url == "https://mine"


def test_a_file_with_keys_that_others_may_read_is_told(place: Place) -> None:
    path = place.write('[openai]\napi_key = "k"\n', 0o644)
    assert place.load().warnings == (f"{path} holds keys and others may read it (mode 0644): chmod 600 it",)
    place.write('[openai]\nmodel = "m"\n', 0o644)
    assert place.load().warnings == ()


def test_aliases_prices_and_windows_are_read(place: Place) -> None:
    place.write_workspace("""
[aliases.root]
candidates = ["anthropic:a", {provider = "openai_compat", model = "b"}]
options = {effort = "high", temperature = 0.5}
[aliases.reviewer]
candidates = ["openai:c"]
concurrency = 4
[aliases]
judge = "openai:d"
proxy = ["openai:e", "openai:f"]
[pricing."b"]
input_per_mtok = 1
output_per_mtok = 2.5
cache_read_per_mtok = 0.1
batch_input_per_mtok = 0.5
batch_output_per_mtok = 1.25
context_window = 4096
as_of = "2026-11-30"
source = "invoice"
[pricing."b".long]
above = 1000
input_per_mtok = 2
output_per_mtok = 5
[pricing."local"]
context_window = 2048
[tools]
allow = ["x"]
""")
    found = place.load()
    assert found.aliases == {
        "root": AliasConfig(("anthropic:a", "openai_compat:b"), AliasOptions("high", 0.5)),
        "reviewer": AliasConfig(("openai:c",), AliasOptions(concurrency=4)),
        "judge": AliasConfig(("openai:d",)),
        "proxy": AliasConfig(("openai:e", "openai:f")),
    }
    assert found.pricing == {
        "b": Price(1.0, 2.5, 0.1, None, "2026-11-30", "invoice", 0.5, 1.25, LongPrompts(1000, 2.0, 5.0))
    }
    assert found.context_windows == {"b": 4096, "local": 2048}
    assert found.settings == {"tools": {"allow": ["x"]}}
    assert found.configured


def test_a_router_file_is_read_from_the_variable_or_the_key(place: Place) -> None:
    (place.user / "router.toml").write_text('[aliases.x]\ncandidates = ["openai:m"]\n')
    assert place.load(KLEENE_ROUTER_TOML="router.toml").aliases == {"x": AliasConfig(("openai:m",))}
    place.write('router = "router.toml"\n')
    assert set(place.load().aliases) == {"x"}
    with pytest.raises(ConfigError, match="there is no configuration file"):
        place.load(KLEENE_ROUTER_TOML="none.toml")


def test_the_older_name_of_the_openai_section_is_read(place: Place) -> None:
    place.write('[openai_compat]\nmodel = "m"\n')
    assert place.load().openai.model == "m"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[openai]\nbase_ur = "x"\n', "[openai] has the unknown key base_ur", "did you mean base_url?"),
        ("[openai]\napi_key = 3\n", "[openai] api_key is 3, not a string", None),
        ("openai = 3\n", "openai is not a table", "write [openai] on a line of its own"),
        (
            "[aliases.x]\ncandidates = []\n",
            "[aliases.x] has no candidates",
            'write candidates = ["anthropic:MODEL", "openai:MODEL"]',
        ),
        (
            "[aliases.x]\ncandidates = [3]\n",
            "[aliases.x] has no candidates",
            'write candidates = ["anthropic:MODEL", "openai:MODEL"]',
        ),
        (
            "[aliases]\nx = 3\n",
            "[aliases.x] is not a table",
            'write [aliases.x] and under it candidates = ["anthropic:MODEL"]',
        ),
        (
            '[aliases.x]\ncandidates = ["a:b"]\neffort = "huge"\n',
            "[aliases.x] effort is 'huge'",
            "one of low, medium, high, max",
        ),
        (
            '[aliases.x]\ncandidates = ["a:b"]\nconcurrency = 0\n',
            "[aliases.x] concurrency is 0, not a whole number of 1 or more",
            None,
        ),
        (
            '[aliases.x]\ncandidates = ["a:b"]\ntemperature = "hot"\n',
            "[aliases.x] temperature is 'hot', not a number",
            None,
        ),
        (
            '[pricing.m]\ninput_per_mtok = "1"\n',
            "[pricing.\"m\"] input_per_mtok is '1', not a number of 0 or more",
            None,
        ),
        ("[pricing.m]\ninput_per_mtok = -1\n", '[pricing."m"] input_per_mtok is -1, not a number of 0 or more', None),
        (
            "[pricing.m]\nbatch_input_per_mtok = true\n",
            '[pricing."m"] batch_input_per_mtok is True, not a number of 0 or more',
            None,
        ),
        (
            "[pricing.m]\nbatch_input_per_mtok = 1\n",
            '[pricing."m"] has neither input_per_mtok nor output_per_mtok',
            None,
        ),
        (
            "[pricing.m]\ninput_mtok = 1\n",
            '[pricing."m"] has the unknown key input_mtok',
            "did you mean input_per_mtok?",
        ),
        ("[pricing.m]\ninput_per_mtok = nan\n", '[pricing."m"] input_per_mtok is nan, not a number of 0 or more', None),
        ("[pricing.m]\ninput_per_mtok = 1\nlong = 3\n", '[pricing."m".long] is not a table', None),
        (
            "[pricing.m]\ninput_per_mtok = 1\nlong = {input_per_mtok = 2, output_per_mtok = 3}\n",
            '[pricing."m".long] has no above',
            "above is in tokens of the prompt",
        ),
        (
            "[pricing.m.long]\nabove = 1\ninput_per_mtok = 2\noutput_per_mtok = 3\n",
            '[pricing."m"] has neither input_per_mtok nor output_per_mtok',
            None,
        ),
        (
            "[pricing.m]\ninput_per_mtok = 1\nlong = {over = 1}\n",
            '[pricing."m".long] has the unknown key over',
            "did you mean above?",
        ),
    ],
)
def test_a_wrong_setting_names_its_file_and_key(place: Place, text: str, message: str, hint: str | None) -> None:
    path = place.write_workspace(text)
    with pytest.raises(ConfigError) as error:
        place.load()
    assert (error.value.message, error.value.hint) == (f"{path}: {message}", hint)


@pytest.mark.parametrize("data", [b"[openai", b"\xff\xfe", b"a = 1\na = 2"], ids=["cut", "bytes", "twice"])
def test_a_file_that_is_no_toml_is_a_config_error(place: Place, data: bytes) -> None:
    (place.workspace / "kleene.toml").write_bytes(data)
    with pytest.raises(ConfigError, match=r"kleene\.toml"):
        place.load()


def test_a_byte_order_mark_is_read_over(place: Place) -> None:
    (place.workspace / "kleene.toml").write_bytes(b'\xef\xbb\xbf[openai]\r\nmodel = "m"\r\n')
    assert place.load().openai.model == "m"


def test_a_file_given_by_name_must_exist(place: Place) -> None:
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load_config(place.workspace, environ=place.environ, file=place.user / "none.toml")
    other = place.user / "other.toml"
    other.write_text('[openai]\nmodel = "o"\n')
    assert load_config(place.workspace, environ=place.environ, file=other).openai.model == "o"


def test_keys_do_not_show(place: Place) -> None:
    place.write('[openai]\napi_key = "sk-0123456789abcdef"\n')
    found = place.load(ANTHROPIC_AUTH_TOKEN="token-0123456789")
    assert "0123456789" not in repr(found)
    assert [mask(k) for k in ("sk-0123456789abcdef", "short", "", None)] == ["sk-0...cdef", "***", "not set", "not set"]


def test_saved_fields_are_read_back_and_the_rest_is_kept(place: Place) -> None:
    path = place.write(
        '# mine\n[openai]\nmodel = "m" # best\napi_key = "old"\n\n[aliases.x]\ncandidates = ["openai:m"]\n'
    )
    assert save_access("openai", {"api_key": 'new"\\key\t'}, environ=place.environ) == path
    assert save_access("anthropic", {"api_key": "a"}, environ=place.environ) == path
    found = place.load()
    assert found.openai == Access(api_key='new"\\key\t', model="m")
    assert found.anthropic.api_key == "a" and set(found.aliases) == {"x"}
    assert path.read_text().startswith("# mine\n") and "# best" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_saving_makes_a_private_folder_and_file(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "x")}
    path = save_access("openai", {"base_url": "http://127.0.0.1:1/v1"}, environ=environ)
    assert path == tmp_path / "x" / "kleene" / "config.toml"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert load_config(tmp_path, environ=environ).openai.base_url == "http://127.0.0.1:1/v1"


def test_a_broken_file_is_not_overwritten(place: Place) -> None:
    path = place.write("[openai\n")
    with pytest.raises(ConfigError):
        save_access("openai", {"api_key": "x"}, environ=place.environ)
    assert path.read_text() == "[openai\n"
