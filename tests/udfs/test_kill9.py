"""A process killed in the middle of a statement loses what was in flight, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kill9 import kill_at, moments


def test_a_kill_costs_what_was_in_flight(tmp_path: Path) -> None:
    assert kill_at(0.5, tmp_path, prompts=80).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("share", moments(10, seed=9))
def test_a_kill_at_any_moment_costs_what_was_in_flight(share: float, tmp_path: Path) -> None:
    assert kill_at(share, tmp_path).problems == ()
