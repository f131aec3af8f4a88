"""The judge of holds in vain: how long GPUs are held and stand empty although nobody is there for whom a job waits."""

from collections.abc import Iterable

from cotenant_api.names import PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import view
from cotenant_extender.queue import vain

LOOK_SECONDS, SLACK_SECONDS = 20.0, 60.0


class Idling:
    """Seconds for which GPUs stood empty, by the job for which they were held; of what was looked at often enough."""

    def __init__(self) -> None:
        self._looked = 0.0
        self._seconds: dict[frozenset[PodUID], float] = {}

    def look(self, source: ledger.Ledger, *, now: float) -> list[str]:
        """Count the time since the last look, in which nothing changed; return whose GPUs stand empty for too long."""
        passed, self._looked = min(now - self._looked, LOOK_SECONDS), now
        idle = {hold.holders for hold in source.holds if self._idle(source, hold)}
        self._seconds = {job: self._seconds.get(job, -passed) + passed for job in idle}
        return [
            f"GPUs stand empty for {seconds:.0f} s, held for {', '.join(sorted(job))}"
            for job, seconds in self._seconds.items()
            if seconds > vain.IDLE_SECONDS + SLACK_SECONDS
        ]

    def _idle(self, source: ledger.Ledger, hold: view.Hold) -> bool:
        """Whether all of it is empty, and nobody else has a share on its nodes; nor may a limit be what is awaited."""
        assert source.policy is not None
        limited = source.policy.spec.max_gpus_per_namespace is not None
        return not limited and not _tenants(source, source.holds[hold])


def _tenants(source: ledger.Ledger, nodes: Iterable[str]) -> bool:
    return any(claim.share for claim in source.claims.values() if claim.node in nodes)
