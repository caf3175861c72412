"""Characters a token, learned from what was reported."""

from __future__ import annotations

import threading

from kleene.udfs.tokens import CHARACTERS_PER_TOKEN, FRAMING_CHARACTERS, TokenRatio, TokenRatios


def test_a_model_nobody_asked_has_four_characters_a_token() -> None:
    assert TokenRatios().of("m") == CHARACTERS_PER_TOKEN == 4.0


def test_the_ratio_converges_to_what_is_reported() -> None:
    ratios = TokenRatios()
    off = []
    for _ in range(40):
        ratios.learn("m", 920, 400)  # 1,000 characters with their framing
        off.append(abs((920 + FRAMING_CHARACTERS) / ratios.of("m") - 400) / 400)
    assert off == sorted(off, reverse=True) and off[0] < 0.15 and off[-1] < 0.005
    assert ratios.of("another") == 4.0


def test_a_model_that_changes_is_followed() -> None:
    ratios = TokenRatios([TokenRatio("m", 4_000_000, 1_000_000)])
    for _ in range(60):
        ratios.learn("m", 19_920, 10_000)
    assert 2.0 <= ratios.of("m") < 2.1


def test_no_count_is_nothing_learned_and_absurd_counts_are_bounded() -> None:
    ratios = TokenRatios()
    ratios.learn("m", 1000, 0)
    assert (ratios.of("m"), ratios.changed()) == (4.0, ())
    ratios.learn("m", 0, 10**9)
    ratios.learn("n", 10**9, 1)
    assert (ratios.of("m"), ratios.of("n")) == (0.5, 16.0)


def test_what_changed_is_told_once_and_what_is_recalled_is_no_change() -> None:
    ratios = TokenRatios()
    ratios.learn("m", 320, 100)
    ratios.recall([TokenRatio("m", 1, 1), TokenRatio("old", 2000, 1000)])
    assert ratios.changed() == (TokenRatio("m", 400, 100),)
    assert ratios.changed() == ()
    assert ratios.of("old") < 2.2


def test_threads_lose_nothing() -> None:
    ratios = TokenRatios()
    threads = [
        threading.Thread(target=lambda: [ratios.learn("m", 20, 1) for _ in range(500)] and None) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ratios.changed() == (TokenRatio("m", 200_000, 2000),)
