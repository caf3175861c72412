"""From what a user gives and the configuration to a handler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kleene.config import Access, AliasConfig, AliasOptions, Config, load_config
from kleene.models import Anthropic, FunctionModel, OpenAI, Responses, build_handler
from kleene.models.build import make_provider
from kleene.planner.errors import ConfigError, NoModel
from kleene.planner.specs import Price

ANTHROPIC = Access(api_key="sk-ant")
LOCAL = Access(base_url="http://127.0.0.1:9/v1")


def routes(models: Any, config: Config) -> dict[str, str]:
    handler = build_handler(models, config)
    return {
        alias: f"{handler.route(alias).provider}:{handler.route(alias).model}"
        for alias in ("root", "worker", "proxy", "judge")
    }


def test_an_anthropic_key_gives_a_strong_root_and_a_cheap_proxy() -> None:
    assert routes(None, Config(anthropic=ANTHROPIC)) == {
        "root": "anthropic:claude-opus-5-5@effort=high",
        "worker": "anthropic:claude-sonnet-5-5@effort=low",
        "proxy": "anthropic:claude-haiku-5-5@effort=low",
        "judge": "anthropic:claude-sonnet-5-5@effort=medium",
    }
    route = build_handler(None, Config(anthropic=ANTHROPIC)).route("root")
    assert route.price is not None and route.price.input == 4.0 and route.endpoint == "https://api.anthropic.com"


def test_an_openai_url_gives_one_model_for_all() -> None:
    config = Config(openai=Access(base_url="http://127.0.0.1:9/v1", model="qwen"))
    assert set(routes(None, config).values()) == {"openai:qwen"}
    assert set(routes(None, Config(openai=Access(api_key="k"))).values()) == {"openai:gpt-5.4-mini"}
    assert set(routes(None, Config(responses=Access(base_url="http://127.0.0.1:9/v1", model="g"))).values()) == {
        "responses:g"
    }


def test_a_models_name_alone_is_not_a_configuration() -> None:
    config = Config(openai=Access(model="gpt"))
    assert not config.configured
    with pytest.raises(NoModel):
        build_handler(None, config).route("worker")


def test_a_string_names_one_model_for_all_aliases() -> None:
    config = Config(anthropic=ANTHROPIC, openai=LOCAL)
    assert set(routes("openai:llama3:8b", config).values()) == {"openai:llama3:8b"}
    assert build_handler("responses:r", config).route("worker").endpoint == "http://127.0.0.1:9/v1"


def test_a_mapping_goes_over_the_configuration() -> None:
    config = Config(
        openai=LOCAL,
        aliases={
            "worker": AliasConfig(("openai:w",)),
            "reviewer": AliasConfig(("openai:v",), AliasOptions(effort="low")),
        },
    )
    handler = build_handler(
        {"worker": [FunctionModel(lambda r: "x", "m"), "openai:second"], "root": "openai:r"}, config
    )
    assert [r.model for r in handler.routes("worker")] == ["m", "second"]  # type: ignore[attr-defined]
    assert (handler.route("root").model, handler.route("judge").model, handler.route("reviewer").model) == (
        "r",
        "m",
        "v@effort=low",
    )


def test_aliases_of_the_configuration_stand_beside_its_defaults() -> None:
    config = Config(anthropic=ANTHROPIC, openai=LOCAL, aliases={"proxy": AliasConfig(("openai:tiny",))})
    assert (
        routes(None, config)["proxy"] == "openai:tiny"
        and routes(None, config)["worker"] == "anthropic:claude-sonnet-5-5@effort=low"
    )


def test_the_users_price_and_window_are_used() -> None:
    config = Config(openai=LOCAL, pricing={"qwen": Price(0.1, 0.2)}, context_windows={"qwen": 4096})
    route = build_handler("openai:qwen", config).route("worker")
    assert (route.price, route.context_window, route.free) == (Price(0.1, 0.2), 4096, False)
    assert build_handler("openai:other", config).route("worker").price is None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "gpt-5",
            "write anthropic:MODEL; providers are anthropic, openai, responses; local is a small model in this process",
        ),
        (
            "antropic:x",
            "write anthropic:MODEL; providers are anthropic, openai, responses; local is a small model in this process",
        ),
        (
            "openai:",
            "write openai:MODEL; providers are anthropic, openai, responses; local is a small model in this process",
        ),
        (
            ":x",
            "write anthropic:MODEL; providers are anthropic, openai, responses; local is a small model in this process",
        ),
    ],
)
def test_a_string_that_names_no_model_is_an_error(text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        build_handler(text, Config()).route("worker")
    assert (error.value.message, error.value.hint) == (f"{text!r} does not name a model", hint)


@pytest.mark.parametrize(
    ("text", "variable"),
    [("anthropic:m", "ANTHROPIC_API_KEY"), ("openai:m", "OPENAI_API_KEY"), ("responses:m", "OPENAI_API_KEY")],
)
def test_a_model_without_a_key_says_which_one(text: str, variable: str) -> None:
    with pytest.raises(NoModel) as error:
        build_handler(text, Config()).route("worker")
    assert error.value.message == f"{text} needs a key"
    assert variable in (error.value.hint or "")


def test_the_configuration_decides_and_not_the_environment_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    found = make_provider("openai:m", Config(openai=Access(base_url="http://127.0.0.1:9/v1")))
    assert isinstance(found, OpenAI) and "authorization" not in found.connection.headers


def test_an_object_made_by_hand_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert Responses("m").endpoint == OpenAI("m").endpoint == "http://127.0.0.1:9/v1"
    assert OpenAI("m").connection.headers == {"authorization": "Bearer sk-environment"}
    assert Anthropic("m").connection.headers["authorization"] == "Bearer token"
    assert Anthropic("m").connection.headers["anthropic-beta"] == "oauth-2025-04-20"
    assert Anthropic("m", api_key="k").connection.headers == {"anthropic-version": "2023-06-01", "x-api-key": "k"}


@pytest.mark.parametrize(
    "models",
    [3, object(), {"worker": 3}, {"worker": []}, {}],
    ids=["a number", "an object", "a number for an alias", "none for an alias", "empty"],
)
def test_what_is_no_model_is_a_config_error(models: Any) -> None:
    with pytest.raises(ConfigError):
        build_handler(models, Config())


def test_the_lazy_names_of_the_package_are_all_there() -> None:
    import kleene.models

    assert all(getattr(kleene.models, name) for name in kleene.models.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        kleene.models.Nothing  # noqa: B018


def test_a_workspaces_file_reaches_the_handler(tmp_path: Path) -> None:
    (tmp_path / "kleene.toml").write_text(
        '[openai]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "w"\n[pricing."w"]\ninput_per_mtok = 1\n'
    )
    config = load_config(tmp_path, environ={"HOME": str(tmp_path)})
    route = build_handler(None, config).route("worker")
    assert (route.model, route.price) == ("w", Price(1.0, 0.0, source=str(tmp_path / "kleene.toml")))
