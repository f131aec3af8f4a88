"""Nobody is held back for ever: a serving extender's queue is compared with one that remembers nothing.

A comparison costs some milliseconds of a core. It is made every `EVERY_SECONDS`, where somebody waits and something
has changed since the last one.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from extender import forgetful
from simulation import hosts

EVERY_SECONDS = 4.0


class World(Protocol):
    """What the rule needs of the world."""

    hosts: list[hosts.Host]

    def fail(self, text: str) -> None:
        """A rule is broken."""

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call something in no process."""


class WakeUps:
    """The rule, for all extenders of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._judged: dict[str, tuple[object, int]] = {}

    def start(self) -> None:
        """From now on."""
        self._world.later(EVERY_SECONDS, self._look)

    def _look(self) -> None:
        for host in self._world.hosts:
            for text in self._held_back(host):
                self._world.fail(f"{host.name}: {text}")
        self._world.later(EVERY_SECONDS, self._look)

    def _held_back(self, host: hosts.Host) -> Sequence[str]:
        extender, process = host.extender, host.extender_process
        if extender is None or process is None or not process.alive or process.paused or not extender.serving():
            return ()
        source, queue = extender.ledger, extender.leader.teller.queue
        as_of = queue, source.version
        if not source.index.pending or self._judged.get(host.name) == as_of:
            return ()
        self._judged[host.name] = as_of
        return forgetful.held_back(source, queue, now=extender.clock())
