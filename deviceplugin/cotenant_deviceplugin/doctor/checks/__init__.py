"""What is judged of a machine: one module for each subject, with a pure function `examine(machine)`.

A new check is one file: nothing lists them. No check reads.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Protocol, cast

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine


class Check(Protocol):
    """A module of this room."""

    def examine(self, machine: Machine) -> Iterator[findings.Finding]:
        """Return what it finds."""


@functools.cache
def every_check() -> Mapping[str, Check]:
    """Return the checks by name, in order."""
    found = sorted(one.name for one in pkgutil.iter_modules(__path__))
    return {name.replace("_", "-"): cast("Check", importlib.import_module(f"{__name__}.{name}")) for name in found}


def examined(machine: Machine) -> tuple[findings.Finding, ...]:
    """Return what they find, in order."""
    return tuple(
        one for name, check in every_check().items() for one in findings.stamped(check.examine(machine), check=name)
    )
