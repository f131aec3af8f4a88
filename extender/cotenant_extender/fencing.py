"""Fence a pod: move its resource version, so that a request decided on an older one can no longer take effect.

A request without a reply may arrive minutes later: a kernel goes on retransmitting what a closed socket had sent, and
the API server counts its `timeout` from the arrival. No time makes such a request harmless. Every Binding and every
Eviction therefore names the resource version that it was decided on, and the API server answers 409 once the pod has
another one. The earmark annotation is what this account may write, so a fence writes it again, with the next attempt
and the mark of the present term. The fence names a resource version as well: a late fence changes nothing.

A machine that stood still, its clock too, believes in its Lease when it wakes, and so does one whom news of the Lease
reach late. Whoever marked a pod later had the Lease by then. So before a mark of another leader is written over, the
Lease is read, after the pod: it tells whether that leader came before or after.
"""

from cotenant_api.names import Namespace, PodUID
from cotenant_extender import context, records
from cotenant_extender.kube import client, pods, transport
from cotenant_extender.ledger import earmarks

REQUEST_SECONDS = 2.0
CHANGES = 10
"""How often a pod that changes meanwhile is marked, before others get their turn."""
UNREADABLE = (transport.UnansweredError, client.APIError, client.BusyError)


class Fences:
    """Reads and fences pods; what it sees goes into the ledger."""

    def __init__(self, shared: context.Context) -> None:
        self._ledger, self._api, self._clock = shared.ledger, shared.api, shared.clock
        self._metrics, self._leading, self._lease_path = shared.metrics, shared.leadership, shared.lease_path

    async def read(self, namespace: Namespace, name: str, uid: PodUID) -> records.Pod | None:
        """Return the pod as the API server has it now; None: that pod is gone.

        Raises:
            UnansweredError: no answer came.
            APIError: the API server refused to say.
            BusyError: it is too busy.
        """
        try:
            found = await self._api.get(pods.pod_path(namespace, name), timeout_seconds=REQUEST_SECONDS)
        except client.NotFoundError:
            self._ledger.pod_gone(uid)
            return None
        return self._seen(found, uid)

    async def confirm_term(self) -> None:
        """Make sure that nobody leads after the present term: whoever else marked a pod that was read, came before.

        Raises:
            ConflictError: another leads, or has led since.
            UnansweredError, APIError, BusyError: the Lease cannot be read.
        """
        if self._leading.assume:
            return
        lease = records.lease_record(await self._api.get(self._lease_path, timeout_seconds=REQUEST_SECONDS))
        if not self._leading.confirmed_by(lease, mark=self._ledger.earmarks.leader):
            # Nothing older than the present term can be read: this ends it.
            self._leading.observe(lease)
            raise client.ConflictError(409, f"another leads, or has led since: {self._leading.describe()}")

    async def readable(self, record: records.Pod) -> bool:
        """Return whether the pod can be read: then not the way to the API server keeps it from being marked."""
        try:
            await self.read(record.namespace, record.name, record.uid)
        except UNREADABLE:
            return False
        return True

    async def settled(self, record: records.Pod, *, version: int) -> records.Pod | None:
        """Return the pod when no request that names `version` can take effect any more; None: the pod is gone.

        Raises:
            UnansweredError: no answer came; a request may still take effect.
            APIError: the API server refused a request of ours.
            BusyError: it is too busy.
        """
        found = await self.read(record.namespace, record.name, record.uid)
        if found is None or found.version != version:
            return found
        moved = await self._moved(found)
        if moved is None or moved.version != version:
            return moved
        raise transport.UnansweredError("the pod's version does not move")

    async def taken_over(self, record: records.Pod, *, confirmed: bool = False) -> records.Pod | None:
        """Return the pod with the mark of the present term, or bound by a former leader; None: the pod is gone.

        Args:
            record: the pod as it was read.
            confirmed: whether the present term was confirmed since the pod was read.

        Raises:
            ConflictError: another leads, or has led since.
            UnansweredError: no answer came; a request of a former leader may still take effect.
            APIError: the API server refused a request of ours.
            BusyError: it is too busy.
        """
        found: records.Pod | None = record
        for _ in range(CHANGES):
            if found is None or found.node is not None:
                return found
            version = found.version
            found = await self._moved(found, confirmed=confirmed)
            confirmed = False
            if found is not None and found.version != version and self._marked(found):
                return found
        raise transport.UnansweredError("the pod changed each time, or does not keep its mark")

    async def promised(self, record: records.Pod, earmark: earmarks.Earmark) -> records.Pod | None:
        """Return the pod with an earmark, or as it is where it had changed before that came; None: the pod is gone.

        Raises:
            ConflictError: another leads, or has led since.
            UnansweredError: no answer came.
            APIError: the API server refused a request of ours.
            BusyError: it is too busy.
        """
        return await self._moved(record, note=earmark.note())

    async def _moved(
        self, record: records.Pod, *, note: earmarks.Note | None = None, confirmed: bool = False
    ) -> records.Pod | None:
        """Return the pod after a fence, or as it is where it had changed before the fence came.

        `note`: what the fence writes, if not that what stands there is still promised.
        """
        if not confirmed and foreign(record, self._ledger.earmarks):
            await self.confirm_term()
        path = pods.pod_path(record.namespace, record.name)
        change = pods.fence(record, note or earmarks.next_note(record, leader=self._ledger.earmarks.leader))
        try:
            raw = await self._api.patch_once(
                path, change, content_type=transport.STRATEGIC_MERGE_PATCH, timeout_seconds=REQUEST_SECONDS
            )
        except client.NotFoundError:
            self._ledger.pod_gone(record.uid)
            return None
        except client.ConflictError:
            return await self.read(record.namespace, record.name, record.uid)
        self._metrics.fences.inc()
        return self._seen(raw, record.uid)

    def _marked(self, record: records.Pod) -> bool:
        """Return whether the pod's earmark annotation bears the mark of the present term."""
        written = earmarks.note(record)
        return written is not None and written.leader == self._ledger.earmarks.leader

    def _seen(self, raw: client.Object, uid: PodUID) -> records.Pod | None:
        found = records.pod_record(raw)
        if found.uid != uid:
            self._ledger.pod_gone(uid)
            return None
        self._ledger.pod(found, now=self._clock())
        return found


def foreign(record: records.Pod, standing: earmarks.Earmarks) -> bool:
    """Return whether a pod lacks the mark of this term, and a Binding of another leader may be under way."""
    written = earmarks.note(record)
    marked = written is not None and written.leader == standing.leader
    return not marked and (record.earmark is not None or record.uid in standing.unmarked)
