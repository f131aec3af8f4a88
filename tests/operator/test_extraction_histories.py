"""Random histories of an extraction: whatever happens in whatever order, one at most runs, and nothing is left."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from operator_kit import extractions, objects, steps

PROGRAMS = {
    "start": extractions.start,
    "write": extractions.write,
    "succeed": extractions.succeed,
    "fail": extractions.fail,
    "lose": extractions.lose,
}
OTHERS = ("create_pods", "stop_suspended", "place", "run_pods", "succeed", "reap")
STEPS = st.one_of(
    st.sampled_from(sorted(PROGRAMS)).map(lambda name: ("program", name)),
    st.sampled_from(OTHERS).map(lambda name: ("other", name)),
    st.booleans().map(lambda value: ("edit", {"suspend": value})),
    st.sampled_from(("a:b", "c:d")).map(lambda name: ("edit", {"model": {"entrypoint": {"callable": name}}})),
    st.sampled_from(("jobs", "configmaps")).map(lambda plural: ("delete", plural)),
    steps.STEPS,
    steps.LATE,
)


class History(steps.Befallen):
    """A cluster with one DLJob whose graph has to be extracted, and the faults to come.

    Attributes:
        empty: how many places for results may be left over.
    """

    empty = 0

    async def begin(self) -> None:
        """A policy, a node, the DLJob."""
        self.cluster.apply(objects.policy(), plural="packingpolicies")
        self.cluster.apply(objects.gpu_node(), plural="gpunodes")
        self.cluster.apply(extractions.dljob())
        await self.cluster.start()

    async def step(self, kind: str, value: Any) -> None:
        """One thing that happens."""
        cluster = self.cluster
        if kind == "program":
            PROGRAMS[value](cluster)
        elif kind == "other":
            getattr(cluster, value)()
        elif kind == "edit":
            cluster.server.change("dljobs", "train", lambda found: found.update(spec={**found["spec"], **value}))
        elif kind == "delete":
            self.delete(value)
        else:
            await self.befall(kind, value)

    def delete(self, plural: str) -> None:
        """Somebody deletes an extraction's Job, or its result."""
        found = extractions.jobs(self.cluster) if plural == "jobs" else extractions.results(self.cluster)
        for value in found[:1]:
            self.cluster.server.delete(plural, value["metadata"]["name"])

    async def settle(self) -> None:
        """The faults end, and everybody goes on."""
        cluster = self.cluster
        cluster.server.change("dljobs", "train", lambda found: found.update(spec={**found["spec"], "suspend": False}))
        if cluster.dljob().get("status", {}).get("phase") == "Succeeded":
            # What arrives when all is over stays, empty, until the DLJob goes.
            late = [request for request in cluster.server.late if request.method == "POST"]
            self.empty = sum(1 for request in late if request.path.endswith("/configmaps"))
        await self.end_faults()
        for _ in range(4):
            cluster.server.collect()
            await cluster.advance(400)
            cluster.server.reap()
            for name in ("start", "write", "succeed"):
                PROGRAMS[name](cluster)
                await cluster.advance(15)
            await cluster.run("stop_suspended", "reap", "create_pods", "place", "run_pods", "succeed")

    async def check(self) -> None:
        """The job has run, once, and nothing of any extraction is left."""
        cluster = self.cluster
        assert cluster.dljob()["status"]["phase"] == "Succeeded"
        assert [job["metadata"]["name"] for job in cluster.attempts()] == ["train-1"]
        left = extractions.left(cluster)
        assert left.pop("results") <= self.empty
        assert not any(left.values())
        cluster.server.requests.clear()
        cluster.work.enqueue(cluster.store.keys())
        await cluster.advance(100)
        assert cluster.server.requests == []


async def play(story: list[steps.Step]) -> None:
    history = History()
    await history.begin()
    for kind, value in story:
        await history.step(kind, value)
        alive = [
            job for job in extractions.jobs(history.cluster) if not job["spec"]["suspend"] and not job.get("status")
        ]
        assert len(alive) <= 1
    await history.settle()
    await history.check()


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_every_history_of_an_extraction_settles_and_leaves_nothing(story: list[steps.Step]) -> None:
    asyncio.run(play(story))
