"""The few objects that the test and the end of an installation are about, as requests. Decides nothing.

Each write names the object and the version of it that was read: one that arrives when Cotenant was installed again
changes nothing.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from cotenant_api import names
from cotenant_operator.kube import api
from cotenant_operator.kube.api import API, Json, Request

FIELD_MANAGER: Final = "cotenant-uninstall"
COMPONENT: Final = "app.kubernetes.io/name"
AGENT, OPERATOR = "cotenant-node-agent", "cotenant-operator"
_GATING: Final = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/cotenant-pods"
_POLICY: Final = f"/apis/{names.API_VERSION}/packingpolicies/default"
_GPU_NODES: Final = f"/apis/{names.API_VERSION}/gpunodes"
_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/pods"
_OURS: Final = {"fieldManager": FIELD_MANAGER}


class Objects:
    """Of one release.

    Args:
        client: sends requests.
        namespace: of the release.
    """

    def __init__(self, client: API, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def stop_gating(self) -> None:
        """No new pod gets our gate."""
        found = await self._found(_GATING)
        if found is not None:
            await self._if_there(Request(method="DELETE", path=_GATING, query={}, body={"preconditions": found}))

    async def stop_sharing(self) -> None:
        """Nothing more is placed, pods that ask for a share are refused, agents give back what no tenant holds."""
        await self._set(_POLICY, {"mode": "Observe"})

    async def stop_operator(self) -> None:
        """Stop the operator: it would make new workloads of DLJobs that wait."""
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{OPERATOR}/scale"
        await self._set(path, {"replicas": 0})

    async def workload(self, plural: str, name: str) -> Json | None:
        """Return a Deployment or DaemonSet of the release; None: it is not there."""
        return await self._got(f"/apis/apps/v1/namespaces/{self._namespace}/{plural}/{name}")

    async def policy(self) -> Json | None:
        """Return the PackingPolicy; None: it is not there."""
        return await self._got(_POLICY)

    async def gates(self) -> bool:
        """Return whether new pods that ask for a share get our gate."""
        return await self._got(_GATING) is not None

    async def nodes_of(self, component: str) -> list[str]:
        """Return the nodes with a pod of a workload of this release; an empty name for a pod without one."""
        path, query = f"/api/v1/namespaces/{self._namespace}/pods", {"labelSelector": f"{COMPONENT}={component}"}
        return [item["spec"].get("nodeName", "") async for item in self._all(path, query)]

    async def gpu_nodes(self) -> AsyncIterator[Json]:
        """All GPUNodes, one by one, as they may be many; none where there is no such kind."""
        try:
            async for item in self._all(_GPU_NODES, {}):
                yield item
        except api.NotFoundError:
            return

    def nodes(self) -> AsyncIterator[Json]:
        """All Nodes, likewise."""
        return self._all(_NODES, {})

    async def pods(self, fields: str) -> list[Json]:
        """Return the pods of all namespaces with these fields."""
        return [item async for item in self._all(_PODS, {"fieldSelector": fields})]

    async def change_node(self, name: str, patch: Mapping[str, Any]) -> None:
        """Merge a patch into a Node, if it is there. Raises ConflictError where it has changed meanwhile."""
        await self._merge(f"{_NODES}/{name}", patch)

    async def _set(self, path: str, spec: Mapping[str, Any]) -> None:
        """Merge into the spec of an object as it is, if it is there. Raises ConflictError where it has changed."""
        found = await self._found(path)
        if found is not None:
            await self._merge(path, {"metadata": found, "spec": spec})

    async def _found(self, path: str) -> dict[str, str] | None:
        """Whose UID and version a write of an object has to name; None: there is no such object."""
        found = await self._got(path)
        return None if found is None else {key: str(found["metadata"][key]) for key in ("uid", "resourceVersion")}

    async def _got(self, path: str) -> Json | None:
        """Return an object; None: it is not there."""
        try:
            return await self._client.ask(Request(method="GET", path=path, query={}))
        except api.NotFoundError:
            return None

    async def _merge(self, path: str, patch: Mapping[str, Any]) -> None:
        await self._if_there(Request(method="PATCH", path=path, query=_OURS, body=patch, content_type=api.MERGE))

    async def _if_there(self, request: Request) -> None:
        try:
            await self._client.ask(request)
        except api.NotFoundError:
            return

    async def _all(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Json]:
        asked = {**query, "limit": str(api.PAGE)}
        while True:
            page = await self._client.ask(Request(method="GET", path=path, query=dict(asked)))
            for item in page.get("items") or ():
                yield item
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            asked["continue"] = following
