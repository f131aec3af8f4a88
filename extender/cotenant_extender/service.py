"""Everything put together: watches feed the ledger, the leader runs the queue, the verbs answer kube-scheduler."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from cotenant_api import names, packingpolicy
from cotenant_api.names import PodUID
from cotenant_extender import (
    binder,
    context,
    explanation,
    feed,
    later,
    leader,
    leadership,
    metrics,
    reading,
    records,
    storage,
    timeline,
    turns,
    verbs,
    wire,
    writer,
)
from cotenant_extender.kube import client, pods, transport, watches
from cotenant_extender.ledger import ledger, verdicts


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the command line says.

    Attributes:
        namespace: where the Leases are.
        identity: host name that kube-scheduler's holder identity starts with.
        assume_leader: lead without a Lease.
        leaves: what filter leaves of the nodes that take a pod.
    """

    namespace: str = names.RELEASE_NAMESPACE
    identity: str
    assume_leader: bool = False
    leaves: verbs.Leaves = verbs.Leaves.ONE


class Extender:
    """One extender process.

    Args:
        clock: seconds since the epoch.
        stopwatch: seconds since any time, by a clock that never goes back.

    Attributes:
        clock: the time that it decides by (see `timeline`).
    """

    def __init__(
        self,
        settings: Settings,
        carrier: transport.Transport,
        *,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.perf_counter,
        sleep: client.Sleep = asyncio.sleep,
    ) -> None:
        self._leaves = settings.leaves
        self.metrics, times = metrics.Metrics(), timeline.Timeline(clock, stopwatch)
        self.clock = times.now
        self.ledger = ledger.Ledger()
        self.leadership = leadership.Leadership(settings.identity, assume=settings.assume_leader)
        api = client.Client(carrier, sleep=sleep)
        leases_path = pods.leases_path(settings.namespace)
        shared = context.Context(
            ledger=self.ledger,
            leadership=self.leadership,
            api=api,
            metrics=self.metrics,
            clock=self.clock,
            latest=times.latest,
            stopwatch=stopwatch,
            urgency=later.Urgency(stopwatch),
            freshness=turns.Freshness(self.ledger),
            lease_path=f"{leases_path}/{names.SCHEDULER_LEASE}",
        )
        self.policies = feed.Policies(self.ledger, self._changed)
        self.binder = binder.Binder(shared)
        self.writer = writer.Writer(shared)
        self.leader = leader.Leader(shared, self.policies, times, writes=self.writer, binds=self.binder)
        feed_of_pods = feed.Pods(self.ledger, self.clock, self._changed)
        gpunodes = feed.GPUNodes(self.ledger, stopwatch, self._changed)
        leases = feed.Leases(self.ledger, self.leadership, stopwatch, self._changed)
        self._watches = {
            "pods": watches.Watch(api, pods.PODS, feed_of_pods, read=reading.pod, begins=feed_of_pods.asked),
            "nodes": watches.Watch(api, pods.NODES, feed.Nodes(self.ledger, self._changed), read=reading.node),
            "gpunodes": watches.Watch(api, pods.GPUNODES, gpunodes, read=reading.gpunode, begins=gpunodes.asked),
            "packingpolicies": watches.Watch(api, pods.POLICIES, self.policies),
            "persistentvolumeclaims": self._stored(api, pods.CLAIMS, storage.Claim, reading.claim),
            "persistentvolumes": self._stored(api, pods.VOLUMES, storage.Volume, reading.volume),
            "storageclasses": self._stored(api, pods.STORAGE_CLASSES, storage.StorageClass, reading.storage_class),
            "leases": watches.Watch(api, leases_path, leases, read=reading.lease),
        }

    def _stored(
        self, api: client.Client, path: str, kind: type[storage.Stored], read: Callable[[feed.Object], storage.Stored]
    ) -> watches.Watch:
        """Return a watch of objects that say where volumes can be used."""
        return watches.Watch(api, path, feed.Storage(self.ledger, kind, read, self._changed), read=read)

    async def run(self) -> None:
        """Until cancelled; an unexpected failure of any part ends all."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches.values():
                group.create_task(watch.run())
            group.create_task(
                self.leader.run((self._watches["gpunodes"], self._watches["nodes"], self._watches["pods"]))
            )

    async def stop(self) -> None:
        """Answer no more, and let what was written be answered."""
        self.leader.stop()
        await self.writer.finish()

    async def listed(self) -> None:
        """Wait until everything has been listed once."""
        for watch in self._watches.values():
            await watch.listed()

    def missing(self) -> list[str]:
        """Return what the ledger still lacks."""
        found = [f"{name} are not listed yet" for name, watch in self._watches.items() if watch.lists == 0]
        if not found and self.ledger.policy is None:
            error = self.policies.error
            found.append(f"no PackingPolicy named {packingpolicy.NAME}" if error is None else f"PackingPolicy: {error}")
        return found

    def serving(self) -> bool:
        """Return whether it leads and its ledger is whole."""
        return self.leader.serving and not self.missing()

    def standing(self) -> str:
        """Why it does not serve."""
        missing = self.missing()
        return "; ".join(missing) if missing else f"this extender does not lead: {self.leadership.describe()}"

    def known(self, uid: PodUID) -> records.Pod | None:
        """Return a pod as the ledger has it."""
        return self.ledger.pods.get(uid)

    async def filter(self, args: wire.Args) -> bytes:
        """ExtenderFilterResult. Held back while as many Bindings are asked for as may be."""
        if self.binder.full:
            await self.binder.room()
        await self.leader.freshness.wait()
        found = verbs.filter_nodes(self.ledger, args.pod, args.names, leaves=self._leaves)
        verdicts.asked(self.ledger, args.pod.uid, args.names, left=bool(found.chosen), now=self.clock())
        if found.reason is not None:
            self.metrics.rejections.labels(found.reason).inc()
        return wire.filter_result(args, found.chosen, found.failed)

    async def prioritize(self, args: wire.Args) -> bytes:
        """HostPriorityList."""
        await self.leader.freshness.wait()
        return wire.priorities(verbs.prioritize(self.ledger, args.pod, args.names))

    async def bind(self, args: wire.BindingArgs) -> bytes:
        """ExtenderBindingResult."""
        return wire.binding_result(await self.binder.bind(args))

    async def explain(self, pod: str | None) -> bytes | None:
        """Why pods wait, and where one is; None: there is no pod NAMESPACE/NAME that asks for a share."""
        await self.leader.freshness.wait()
        if pod is None:
            return await explanation.of_all(self.ledger, self.leader.teller, self.clock)
        namespace, _, name = pod.partition("/")
        return explanation.of_one(self.ledger, self.leader.teller, (namespace, name), now=self.clock())

    def _changed(self) -> None:
        self.leader.changed()
