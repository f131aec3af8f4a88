"""Names out of a snapshot: each becomes a keyed hash, the same wherever it stands, so that the structure stays. Pure.

GPU models, times, shares and predictions stay: without them there is nothing to simulate. Who has the key can tell a
name that they guess; it is drawn anew for each snapshot and kept nowhere.
"""

import hashlib
import hmac
from typing import Final

from cotenant_api.names import GPUUID, Namespace, NodeName, PodUID
from cotenant_simulator.live import snapshot

_DIGITS: Final = 12


def redacted(whole: snapshot.Snapshot, *, key: bytes) -> snapshot.Snapshot:
    """Return the same snapshot without a name that anybody chose."""
    hide = _Hide(key)
    return whole.model_copy(
        update={
            "redacted": True,
            "nodes": tuple(map(hide.node, whole.nodes)),
            "pods": tuple(map(hide.pod, whole.pods)),
            "dljobs": tuple(map(hide.dljob, whole.dljobs)),
            "usage": tuple(map(hide.usage, whole.usage)),
            "unread": tuple(map(hide.unread, whole.unread)),
        }
    )


class _Hide:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def _name(self, kind: str, text: str) -> str:
        digest = hmac.new(self._key, f"{kind} {text}".encode(), hashlib.sha256).hexdigest()
        return f"{kind}-{digest[:_DIGITS]}"

    def _some(self, kind: str, text: str | None) -> str | None:
        return None if text is None else self._name(kind, text)

    def _namespace(self, text: str) -> Namespace:
        return Namespace(self._name("namespace", text))

    def _uuid(self, text: str) -> GPUUID:
        return GPUUID(self._name("gpu", text))

    def node(self, one: snapshot.Node) -> snapshot.Node:
        gpus = tuple(gpu.model_copy(update={"uuid": self._uuid(gpu.uuid)}) for gpu in one.gpus)
        return one.model_copy(update={"name": NodeName(self._name("node", one.name)), "gpus": gpus})

    def pod(self, one: snapshot.Pod) -> snapshot.Pod:
        believed = one.believed
        if believed is not None:
            believed = believed.model_copy(update={"graph": self._name("graph", believed.graph)})
        placement = tuple(gpu.model_copy(update={"uuid": self._uuid(gpu.uuid)}) for gpu in one.placement)
        return one.model_copy(
            update={
                "uid": PodUID(self._name("uid", one.uid)),
                "namespace": self._namespace(one.namespace),
                "name": self._name("pod", one.name),
                "dljob": self._some("dljob", one.dljob),
                "node": self._some("node", one.node),
                "gang": self._some("gang", one.gang),
                "believed": believed,
                "placement": placement,
            }
        )

    def dljob(self, one: snapshot.DLJob) -> snapshot.DLJob:
        return one.model_copy(
            update={"namespace": self._namespace(one.namespace), "name": self._name("dljob", one.name)}
        )

    def usage(self, one: snapshot.Usage) -> snapshot.Usage:
        return one.model_copy(update={"namespace": self._namespace(one.namespace), "pod": self._name("pod", one.pod)})

    def unread(self, one: snapshot.Unread) -> snapshot.Unread:
        return one.model_copy(update={"namespace": self._namespace(one.namespace), "name": self._name("pod", one.name)})
