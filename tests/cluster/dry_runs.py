"""The operator on a real API server that stores nothing: each object that it makes is created there as a dry run."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import APIError, Client
from cotenant_e2e.cluster import Cluster as RealCluster
from cotenant_operator import labels
from cotenant_operator.kube import api
from cotenant_operator.telling import metrics
from operator_kit import objects, parsing, quotas
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]

NAME: Final = "odd"
DRY_RUN: Final = "dryRun=All&fieldValidation=Strict"
STEPS: Final = 3
"""Times that the clock is advanced; each lasts longer than a pause between two tries."""
SECONDS: Final = 40.0
BUSY: Final = 429
FAULTS: Final = "cotenant_operator_reconciles_total"
FAULT: Final = metrics.Result.FAULT.value
JUDGED: Final = ("jobs", "deployments", "services", "dljobs")
"""Kinds of objects that have anything of the author's in them."""


@dataclass
class Trial:
    """What came of one DLJob.

    Attributes:
        refused: the API server's message where it takes no such DLJob.
        statuses: of the DLJob, then of the runs of a sweep, as the operator left them.
        faults: how often the operator failed by an exception.
        made: the workloads that the API server accepted, as it answered.
        rejected: the API server's message for each object of the operator that it refused.
        lacking: the API server's message for each workload of which it refused a pod.
    """

    refused: str = ""
    statuses: list[Json] = field(default_factory=list)
    faults: int = 0
    made: list[Json] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)

    @property
    def conditions(self) -> dict[str, Json]:
        """The DLJob's conditions by type."""
        return {one["type"]: one for status in self.statuses[:1] for one in status.get("conditions", ())}


@dataclass(frozen=True)
class DryRuns:
    """Tries DLJobs.

    Args:
        namespace: where.
        user: creates DLJobs.
        operator: talks with the rights of the operator.
        controllers: talk with the rights of the controllers that make pods, by the kind of the workload.
        graph: a ConfigMap of the namespace.
        parser: reads graphs.
    """

    namespace: str
    user: Client
    operator: Client
    controllers: Mapping[str, Client]
    graph: Json
    parser: parsing.Inline = field(default_factory=parsing.Inline)

    @classmethod
    def on(cls, cluster: RealCluster, namespace: str, graph: Json) -> Self:
        """Return one for a namespace of a cluster."""

        def client(home: str, account: str) -> Client:
            return cluster.client_for_token(cluster.token(home, account))

        return cls(
            namespace=namespace,
            user=cluster.client,
            operator=client(names.RELEASE_NAMESPACE, names.OPERATOR_ACCOUNT),
            controllers={
                "Job": client("kube-system", "job-controller"),
                "Deployment": client("kube-system", "replicaset-controller"),
            },
            graph=graph,
        )

    async def run(self, spec: Json, *, policy: Json, quota: bool = False) -> Trial:
        """Submit a DLJob, and let the operator work on it.

        Args:
            spec: of the DLJob.
            policy: of the PackingPolicy.
            quota: whether the namespace has a ResourceQuota. It has room for all.
        """
        trial = Trial()
        body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": NAME}, "spec": spec}
        path = clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=self.namespace)
        try:
            made = created(self.user, path, body)
        except APIError as error:
            trial.refused = error.message
            return trial
        cluster = self._cluster(trial, policy, quota=quota)
        cluster.apply({**made, "metadata": {"name": NAME, "namespace": self.namespace}})
        await cluster.start()
        for _ in range(STEPS):
            await cluster.advance(SECONDS)
        trial.statuses = [one.get("status", {}) for one in cluster.server.all("dljobs")]
        trial.faults = int(cluster.work.metrics.registry.get_sample_value(FAULTS, {"result": FAULT}) or 0)
        return trial

    def _cluster(self, trial: Trial, policy: Json, *, quota: bool) -> Cluster:
        cluster = Cluster(self.parser)
        cluster.apply(objects.policy(**policy), plural="packingpolicies")
        cluster.apply(objects.gpu_node(), plural="gpunodes")
        cluster.apply(self.graph, plural="configmaps")
        if quota:
            found = quotas.quota(pods="1000", gpu_share="100000")
            found["metadata"]["namespace"] = self.namespace
            cluster.apply(found, plural="resourcequotas")
        cluster.server.fault = functools.partial(self._judged, trial)
        return cluster

    def _judged(self, trial: Trial, request: api.Request) -> Fault | None:
        """Have a creation judged by the real API server; the one in memory does what is accepted."""
        if request.method != "POST" or request.body is None or request.path.rpartition("/")[2] not in JUDGED:
            return None
        try:
            made = created(self.operator, request.path, dict(request.body))
        except APIError as error:
            trial.rejected.append(error.message)
            return Fault(effect=False, status=error.code, message=error.message)
        trial.made.append(made)
        if made["kind"] in self.controllers:
            trial.lacking += self._refused_pod(made)
        return None

    def _refused_pod(self, made: Json) -> Iterator[str]:
        try:
            path = clients.path_of("pods", namespace=self.namespace)
            created(self.controllers[made["kind"]], path, pod_of(made))
        except APIError as error:
            yield error.message


def created(client: Client, path: str, body: Json) -> Json:
    """Return what the API server would store."""
    while True:
        try:
            return client.create(f"{path}?{DRY_RUN}", body)
        except APIError as error:
            if error.code != BUSY:
                raise


def pod_of(workload: Json) -> Json:
    """Return a pod as the controller of a Job or of a ReplicaSet makes it."""
    kind, metadata = workload["kind"], workload["metadata"]
    template = workload["spec"]["template"]
    owner = {"apiVersion": workload["apiVersion"], "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    if kind == "Deployment":
        owner |= {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{metadata['name']}-5d4f8c7b9"}
    own = {
        "generateName": f"{owner['name']}-",
        "namespace": metadata["namespace"],
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    spec = {**template["spec"]}
    if labels.EXTRACTION in template["metadata"]["labels"]:
        # Its own is made before the Job is resumed.
        spec.pop("serviceAccountName")
        spec.pop("serviceAccount", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], **own}, "spec": spec}
