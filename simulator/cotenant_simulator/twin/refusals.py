"""Why a cluster that is empty would refuse a pod for ever: the extender's own rules and words."""

from collections.abc import Sequence

from cotenant_api import pod
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import constraints, policies, rules, view
from cotenant_simulator.twin import leader, sites


class Empty:
    """A cluster without a pod, under one policy."""

    def __init__(self, nodes: Sequence[sites.Node], policy: policies.InForce) -> None:
        known = ledger.Ledger()
        known.policy_changed(policy)
        sites.enter(known, nodes)
        self._seen = known.seen()

    def refuses(self, demand: pod.Demand) -> tuple[pod.PackedReason, str] | None:
        """Reason and words; None: it takes the pod."""
        request = view.Request(
            demand=demand,
            labels={},
            priority=0,
            since=0.0,
            host=leader.NO_HOST_NEED,
            constraints=constraints.Constraints(),
            fit_key=None,
        )
        if rules.offers(self._seen, request, check_host=True).fits.any():
            return None
        found = rules.rejection(self._seen, request, check_host=True)
        return found.reason, found.message
