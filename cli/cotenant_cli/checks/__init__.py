"""What `cotenant doctor` checks: one module for each subject, and each a pure function of what was read.

A check is a module of this room with `READS` (sources), `RIGHTS` where it asks for any, and `examine(seen)`; it is
named as its module. A new one is one file: nothing lists them. No check reads, and none knows another.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Final, Protocol, cast

from cotenant_api import findings
from cotenant_cli.reading.installation import Installation, Right, Source

_REMEDY: Final = "run the doctor as an account that may read it"


class Check(Protocol):
    """A module of this room."""

    READS: tuple[Source, ...]
    """What it looks at; where one of them cannot be read, the check says that and nothing else."""

    def examine(self, seen: Installation) -> Iterator[findings.Finding]:
        """Return what it finds."""


@functools.cache
def every_check() -> Mapping[str, Check]:
    """Return the checks by name, in order."""
    found = sorted(one.name for one in pkgutil.iter_modules(__path__))
    return {name.replace("_", "-"): cast("Check", importlib.import_module(f"{__name__}.{name}")) for name in found}


def every_source() -> Iterator[Source]:
    """Yield what all of them look at."""
    for check in every_check().values():
        yield from check.READS


def every_right() -> Iterator[Right]:
    """Yield what all of them ask that the caller may do."""
    for check in every_check().values():
        yield from getattr(check, "RIGHTS", ())


def examined(seen: Installation) -> tuple[findings.Finding, ...]:
    """Return what they find, in order."""
    return tuple(
        one for name, check in every_check().items() for one in findings.stamped(_findings(check, seen), check=name)
    )


def _findings(check: Check, seen: Installation) -> Iterator[findings.Finding]:
    unread = [seen.unread[source] for source in check.READS if source in seen.unread]
    if not unread:
        yield from check.examine(seen)
    for why in unread:
        yield findings.warning("cluster", f"could not be looked at: {why}", _REMEDY)
