"""``memo``: the answers that are kept."""

from __future__ import annotations

import argparse
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.cli.command import Command

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation

STATS = """\
SELECT provider, model, kind, count(*) AS answers, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    sum(dollars) AS dollars, min(created_at) AS oldest, max(created_at) AS newest
FROM memo GROUP BY ALL ORDER BY answers DESC, provider, model, kind"""

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="stats|prune|trust",
        choices=("stats", "prune", "trust"),
        help="count what is kept, delete some of it, or believe a store that was set aside",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="trust: the store (default: the last one set aside)")
    parser.add_argument(
        "--older-than", metavar="AGE", type=age_s, help="prune answers of that age: 90s, 30m, 12h, 30d, 8w"
    )
    parser.add_argument("--all", action="store_true", help="prune every answer")


def age_s(text: str) -> float:
    """Seconds of an age such as ``30d``.

    >>> age_s("12h"), age_s("1.5m")
    (43200.0, 90.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is not an age such as 90s, 30m, 12h, 30d or 8w")
    return float(found[1]) * UNITS_S[found[2]]


def execute(inv: Invocation) -> int:
    from kleene.cli.reading import print_query

    if inv.args.action == "trust":
        return trusted(inv)
    if inv.args.file is not None:
        from kleene.cli.exits import UsageError

        raise UsageError(f"memo {inv.args.action} takes no file", hint="--store names another store")
    if inv.args.action == "stats":
        print_query(inv, STATS, whole=True)
        return 0
    return prune(inv)


def prune(inv: Invocation) -> int:
    from kleene.cli.exits import UsageError
    from kleene.store import Store

    args = inv.args
    if (args.older_than is None) == (not args.all):
        raise UsageError(
            "memo prune needs --older-than AGE or --all", hint="python -m kleene memo prune --older-than 30d"
        )
    if not inv.store.exists():
        raise UsageError(f"there is no store at {inv.store}", hint="--store names another place")
    if (
        args.all
        and not args.yes
        and not (inv.terminal.can_ask and inv.terminal.ask("Delete every answer that was paid for?"))
    ):
        raise UsageError("nothing was deleted", hint="--yes deletes without asking")
    with Store.open(inv.store, lock_wait_s=args.lock_wait) as store, closing(store.memo()) as memo:
        gone = memo.prune(None if args.all else args.older_than)
    inv.terminal.say(f"{gone:,} answer{'' if gone == 1 else 's'} deleted")
    return 0


def trusted(inv: Invocation) -> int:
    from kleene.cli.exits import UsageError, misconfigured
    from kleene.store.origin import trust, untrusted

    with misconfigured():
        file = Path(inv.args.file) if inv.args.file else untrusted(inv.store)
        if file is None or not file.exists():
            what = f"there is no {file}" if file else f"no store was set aside for {inv.store}"
            raise UsageError(what, hint="memo trust FILE names one")
        asked = f"Believe the answers and the runs of {file}, whoever wrote them?"
        if not inv.args.yes and not (inv.terminal.can_ask and inv.terminal.ask(asked)):
            raise UsageError("nothing was changed", hint="--yes trusts it without asking")
        before = trust(inv.store, file)
    inv.terminal.say(f"{file} is the store {inv.store} now" if file != inv.store else f"{file} is trusted")
    if before is not None:
        inv.terminal.say(f"what was there is {before}")
    return 0


COMMAND = Command(
    name="memo",
    summary="count or delete the answers that are kept, or believe a store",
    usage="stats|prune [--older-than AGE | --all] | trust [FILE] [OPTIONS]",
    description="""\
Every answer that was paid for is kept in the store and used again for the same question to the same model. stats counts
them by model; prune deletes those older than an age, or all. A store that you did not make where it lies (a checkout
brought it, or you moved the folder) is set aside unread; trust takes it back.""",
    examples="""\
# how many answers, and what they cost
python -m kleene memo stats

# forget what is older than thirty days
python -m kleene memo prune --older-than 30d

# forget everything
python -m kleene memo prune --all --yes

# the folder was moved: take its store back
python -m kleene memo trust""",
    add_arguments=add_arguments,
    execute=execute,
)
