"""What befalls the operator in a random history: events late, twice or never, requests that fail, restarts, time."""

from typing import Any, Final

from hypothesis import strategies as st

from cotenant_operator.kube import api
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Step = tuple[str, Any]

STEPS: Final[st.SearchStrategy[Step]] = st.one_of(
    st.integers(1, 8).map(lambda count: ("deliver", count)),
    st.integers(1, 4).map(lambda count: ("lose", count)),
    st.tuples(st.integers(1, 20), st.integers(1, 4)).map(lambda part: ("repeat", part)),
    st.integers(1, 6).map(lambda count: ("work", count)),
    st.sampled_from((1, 15, 40, 400)).map(lambda seconds: ("wait", seconds)),
    st.sampled_from(((True, 0), (False, 0), (True, -1), (False, -1), (False, 403), (False, 409), (False, 500))).map(
        lambda fault: ("fault", fault)
    ),
    st.just(("settle", None)),
    st.just(("settle", None)),
    st.booleans().map(lambda deaf: ("deaf", deaf)),
    st.sampled_from((-3600, -20, 20, 3600)).map(lambda seconds: ("set clock", seconds)),
    st.just(("restart", None)),
    st.just(("relist", None)),
)
"""To be mixed with the steps of users and of other programs, which each history has of its own."""
LATE: Final[st.SearchStrategy[Step]] = st.one_of(
    st.sampled_from((0, -1)).map(lambda status: ("late", status)),
    st.integers(0, 3).map(lambda index: ("arrive", index)),
)
"""A write is given up by who sent it, and arrives later, in any order."""


class Befallen:
    """A cluster whose operator is befallen by these steps.

    Attributes:
        faults: what is to happen to the next writes, one each.
        lost: whether events were lost since the last listing.
        deaf: whether the API server gives no events of other programs to who asks for them.
    """

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.faults: list[Fault] = []
        self.lost = self.deaf = False
        self.cluster.server.fault = self._fault

    def _fault(self, request: api.Request) -> Fault | None:
        if request.method == "GET":
            return Fault(effect=False, status=500) if self.deaf and request.path.endswith("/events") else None
        return self.faults.pop(0) if self.faults else None

    async def befall(self, kind: str, value: Any) -> None:
        """One of `STEPS`."""
        if kind == "lose":
            self.lost = True
            self.cluster.lose(value)
        elif kind == "set clock":
            self.cluster.time.skew += value
        elif kind == "deaf":
            self.deaf = value
        elif kind == "wait":
            self.cluster.time.seconds += value
        elif kind == "fault":
            self.faults.append(Fault(effect=value[0], status=value[1]))
        elif kind == "late":
            self.faults.append(Fault(effect=False, status=value, late=True))
        elif kind == "arrive":
            self.cluster.server.arrive(value)
        else:
            await self._to_the_operator(kind, value)

    async def _to_the_operator(self, kind: str, value: Any) -> None:
        cluster = self.cluster
        if kind == "deliver":
            await cluster.deliver(value)
        elif kind == "settle":
            await cluster.settle()
        elif kind == "work":
            for _ in range(value):
                await cluster.step()
        elif kind == "repeat":
            start = max(cluster.delivered - value[0], 0)
            for event in cluster.server.watched[start : min(start + value[1], cluster.delivered)]:
                await cluster.tell(event)
        elif kind == "relist":
            await cluster.relist()
        elif kind == "restart":
            cluster.restart()
            await cluster.start()
        else:
            raise ValueError(f"no step {kind!r}")

    async def end_faults(self) -> None:
        """What comes goes well, what is under way arrives, and a watch that lost events is found out."""
        self.faults.clear()
        self.deaf = False
        while self.cluster.server.late:
            self.cluster.server.arrive()
        if self.lost:
            await self.cluster.relist()
