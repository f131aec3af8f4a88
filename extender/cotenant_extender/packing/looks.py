"""Places for pods that are alike, one after the other: after each only the nodes that it changed are looked at again.

Says what `rules.offers` and `placing.choose` say of all nodes. A row that was written is newer than the look.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from cotenant_api.names import NodeName, PodUID
from cotenant_extender.packing import fleet, holding, knowledge, placing, registry, rules, spaces, view

_PART = 4
"""Where more than one row in so many was written, all are looked at."""


@dataclass(slots=True)
class _Look:
    """What was found of one kind of pods.

    Attributes:
        clock: the fleet's, as of the look.
        rows, models: of the fleet, as of the look: where they are others, all is looked at again.
        scores: of each place, shape of `offers.fits`; None: not asked for yet.
        scored, basis: as of when, and what the scores rest on.
        bounded: what its namespace may have of further GPUs: that depends on what it has on all nodes.
    """

    offers: rules.Offers
    clock: int
    rows: Mapping[NodeName, int]
    models: int
    bounded: Hashable
    scores: rules.Array | None = None
    scored: int = -1
    basis: object = None


class Looks:
    """Looks at one fleet.

    Attributes:
        fleet: the fleet; it may change meanwhile.
    """

    def __init__(self, source: fleet.Fleet, *, check_host: bool = True) -> None:
        self.fleet, self._check_host = source, check_host
        self._known: dict[Hashable, _Look] = {}
        self._lets: dict[Hashable, tuple[bool, ...]] = {}
        self._holders: frozenset[PodUID] = frozenset()
        self._count = 0

    def offers(self, request: view.Request) -> rules.Offers:
        """Where a pod fits now. The arrays are overwritten when it is asked again for a pod like it."""
        return self._look(request).offers._replace(request=request)

    def choose(self, request: view.Request, known: knowledge.Knowledge) -> placing.Choice | None:
        """Return the place that the policy's placement puts highest."""
        return placing.highest(*self.scored(request, known))

    def scored(self, request: view.Request, known: knowledge.Knowledge) -> tuple[rules.Offers, rules.Array]:
        """Where a pod fits now, and how high the policy's placement puts each place; as to `offers`."""
        score = registry.PLACEMENTS[self.fleet.policy.spec.placement]
        look, source = self._look(request), self.fleet
        offers = look.offers._replace(request=request)
        if not offers.fits.any():
            return offers, np.zeros(offers.fits.shape)
        if not isinstance(score, registry.ByRow):
            return offers, score(offers, known)
        basis = score.basis(source, known)
        rows = np.flatnonzero(source.versions > look.scored)
        if look.scores is None or look.basis is not basis or _PART * len(rows) > len(source):
            look.scores, look.basis = np.array(score.scores(offers, known, basis), dtype=np.float64), basis
        elif len(rows):
            look.scores[rows] = score.scores(self._part(request, rows), known, basis)
        look.scored = source.clock
        return offers, look.scores

    def _look(self, request: view.Request) -> _Look:
        """Return what is found now."""
        key, source = self.kind(request), self.fleet
        look = self._known.get(key)
        if look is None or look.rows is not source.rows or look.models != len(source.models):
            return self._anew(key, request)
        if look.bounded != self._bounded(request):
            return self._anew(key, request)
        rows = np.flatnonzero(source.versions > look.clock)
        if _PART * len(rows) > len(source) or look.offers.cells.shape != source.present.shape:
            return self._anew(key, request)
        if len(rows) and not self._update(look, self._part(request, rows), rows):
            return self._anew(key, request)
        return look

    def _anew(self, key: Hashable, request: view.Request) -> _Look:
        source, offers = self.fleet, rules.offers(self.fleet, request, check_host=self._check_host)
        self._known[key] = look = _Look(offers, source.clock, source.rows, len(source.models), self._bounded(request))
        return look

    def _bounded(self, request: view.Request) -> Hashable:
        beyond = spaces.beyond(self.fleet, request.demand.namespace, request.demand.gpus) > 0
        return beyond, holding.further(self.fleet, request)

    def _update(self, look: _Look, part: rules.Offers, rows: rules.Array) -> bool:
        """Take over what was found of some rows; False: it is not the same number everywhere any more."""
        standing = look.offers
        news = list(
            zip((standing.fits, standing.cells, *standing.needs), (part.fits, part.cells, *part.needs), strict=True)
        )
        if any(isinstance(values, int) and not (isinstance(new, int) and new == values) for values, new in news):
            return False
        for values, new in news:
            if isinstance(values, np.ndarray):
                values[rows] = new
        look.clock = self.fleet.clock
        return True

    def _part(self, request: view.Request, rows: rules.Array) -> rules.Offers:
        return rules.offers(self.fleet.at(rows), request, check_host=self._check_host)

    def kind(self, request: view.Request) -> Hashable:
        """Pods with equal keys are taken and refused alike (see `view.Request.fit_key`), on held GPUs, too."""
        label = self.fleet.policy.spec.tenancy_label
        return request.fit_key, request.demand.namespace, label and request.labels.get(label), self._holds(request)

    def _holds(self, request: view.Request) -> tuple[bool, ...]:
        """Which holds let a pod in."""
        holds = self.fleet.holds
        if self._count != len(holds):
            self._count, self._lets = len(holds), {}
            self._holders = frozenset().union(*(hold.holders for hold in holds))
        uid = request.demand.uid
        alike = request.priority, request.since, uid if uid in self._holders else None
        found = self._lets.get(alike)
        if found is None:
            found = self._lets[alike] = tuple(holding.may_use(hold, request) for hold in holds)
        return found
