"""How a mutant is tried in one stage: what is run, and what follows from what came of it. Pure.

A mutant is killed by a test that fails, twice with the mutant and never without it, so that a test which a loaded
machine can fail kills nothing. A test that takes many times its usual CPU time kills nothing either: such mutants are
counted apart.
"""

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

MOST_LATE: Final = 2
"""After as many tests that ran out of CPU time, the rest is not tried."""


class Ask(NamedTuple):
    """Tests to be run, in order, up to the first that fails."""

    tests: Sequence[str]
    mutated: bool = True


class Outcome(NamedTuple):
    """What came of it.

    Attributes:
        killer: the test that failed; empty: none did.
        why: what a person wants to know beside.
        certain: it fails each time (an import, a seed of the simulation).
        late: the test that used up its CPU time; it ended the process.
        seconds: CPU time of the process.
    """

    killer: str = ""
    why: str = ""
    certain: bool = False
    late: str = ""
    seconds: float = 0.0


class Verdict(NamedTuple):
    """How a mutant fared in a stage; an empty killer: it lives.

    Attributes:
        late: the first test that used up its CPU time.
        seconds: CPU time that the stage took.
    """

    stage: str
    killer: str = ""
    late: str = ""
    seconds: float = 0.0


def trial(stage: str, tests: Sequence[str]) -> Generator[Ask, Outcome, Verdict]:
    """Try the tests of one stage."""
    left, seconds = list(tests), 0.0
    late: list[str] = []
    while left and len(late) < MOST_LATE:
        found = yield Ask(left)
        seconds += found.seconds
        if found.late:
            late.append(found.late)
            left = _after(left, found.late)
        elif not found.killer:
            break
        elif found.certain:
            return Verdict(stage, f"{found.killer}: {found.why}" if found.why else found.killer, seconds=seconds)
        else:
            again = yield Ask([found.killer])
            without = yield Ask([found.killer], mutated=False)
            seconds += again.seconds + without.seconds
            if again.killer and not without.killer:
                return Verdict(stage, found.killer, seconds=seconds)
            left = _after(left, found.killer)
    return Verdict(stage, late=late[0] if late else "", seconds=seconds)


def _after(tests: Sequence[str], one: str) -> list[str]:
    return list(tests[tests.index(one) + 1 :]) if one in tests else []
