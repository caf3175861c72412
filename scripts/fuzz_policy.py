"""Draws statements and looks whether parser and policy crash, hang, or let one pass that touches a file.

    python scripts/fuzz_policy.py [--seconds 60] [--engine hypothesis|atheris|random] [--keep-going]

``hypothesis`` draws at random and shortens what it finds; ``atheris`` (pip install atheris) follows the branches of ``kleene.planner``. What must
hold of a statement is in ``tests/planner/hostile.py``. Prints each fault with its statement; the exit code says whether there was one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

ENGINES = ("hypothesis", "atheris", "random")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--engine", choices=ENGINES, default="hypothesis")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first fault")
    given = parser.parse_args()
    if given.engine == "atheris":
        return with_atheris(given.seconds)
    from tests.planner.hostile import Trap, numbered, seeds, statement_of

    with tempfile.TemporaryDirectory() as folder:
        trap, known = Trap(Path(folder) / "trap"), seeds()
        faults: Counter[str] = Counter()
        done = 0
        ends = time.monotonic() + given.seconds

        def one(data: bytes) -> None:
            nonlocal done
            done += 1
            text = statement_of(data, known)
            try:
                trap.check(text)
            except Exception as error:
                error.add_note(f"of {text!r}")
                raise

        def found(error: Exception) -> bool:
            said = f"{type(error).__name__}: {error}"
            if said not in faults:
                print(said[:3000], *error.__notes__, sep="\n    ", flush=True)
            faults[said] += 1
            return not given.keep_going

        if given.engine == "random":
            for data in numbered():
                try:
                    one(data)
                except Exception as error:
                    if found(error):
                        break
                if time.monotonic() > ends:
                    break
        else:
            with_hypothesis(one, found, ends)
        print(f"{done:,} statements, {trap.accepted:,} accepted, {trap.run:,} of them ran, {len(faults)} faults")
        trap.close()
    return 1 if faults else 0


def with_hypothesis(one, found, ends: float) -> None:  # type: ignore[no-untyped-def]
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    class Over(Exception):
        """The time is over."""

    @settings(
        max_examples=10**6,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.binary(min_size=8, max_size=250))
    def draw(data: bytes) -> None:
        if time.monotonic() > ends:
            raise Over
        one(data)

    while time.monotonic() < ends:
        try:
            draw()
        except Over:
            return
        except BaseExceptionGroup as errors:
            if any(found(e) for e in errors.exceptions if isinstance(e, Exception) and not isinstance(e, Over)):
                return
        except Exception as error:
            if found(error):
                return


def with_atheris(seconds: float) -> int:
    try:
        import atheris
    except ImportError:
        print(
            "atheris is not installed: pip install atheris (it has wheels for some versions of Python)", file=sys.stderr
        )
        return 2
    with atheris.instrument_imports(include=["kleene.planner"]):
        from tests.planner.hostile import Trap, seeds, statement_of
    folder = tempfile.mkdtemp()
    trap, known = Trap(Path(folder) / "trap"), seeds()

    def one(data: bytes) -> None:
        trap.check(statement_of(data, known))

    atheris.Setup([sys.argv[0], f"-max_total_time={int(seconds)}", "-max_len=250", "-timeout=60"], one)
    atheris.Fuzz()  # ends the process: 0, or 77 with the fault
    return 0


if __name__ == "__main__":
    sys.exit(main())
