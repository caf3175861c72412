"""Options of the whole test suite."""

from __future__ import annotations

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
