"""Options of the whole test suite."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

# The same cases in every run, whatever the machine's load: the scripts that fuzz look for new ones.
hypothesis.settings.register_profile(
    "kleene", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("kleene")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-fixtures", action="store_true", help="write the files of expected text anew, for review")


@pytest.fixture
def update_fixtures(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-fixtures"))


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A configuration of the tests' own: they read nothing of the developer's, and leave nothing there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KLEENE_CONFIG_DIR", str(tmp_path_factory.mktemp("configuration")))
        yield
