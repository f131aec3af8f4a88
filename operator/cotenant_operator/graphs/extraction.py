"""What a graph is extracted with: a Job in the user's own image, and what it may do. Pure: values in, manifests out.

The pod is the user's container without its GPU: image, variables, volumes, identity and place as the template has them,
our command instead of theirs. Its ServiceAccount may patch the one ConfigMap of the result, and nothing else.
"""

import functools
import hashlib
import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import dljob, documents, names
from cotenant_operator import labels
from cotenant_operator.graphs import extraction_pod
from cotenant_operator.state import extractions, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders

START_SECONDS: Final = 600
"""How long a pod may take to start, its image pulled, beside the time that its container has."""
GRAPH_KEY: Final = "graph.json.gz"
ONNX_KEY: Final = "model.onnx.gz"
MAX_NAME: Final = 63
"""Of a Job: its pods carry it as a label."""
_RBAC: Final = "rbac.authorization.k8s.io"

Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a DLJob's graph is to be extracted with.

    Attributes:
        digest: of the DLJob and of all that its pod is made from; another digest is another extraction.
        result: where the pod writes.
        seconds: how long its container may run.
        pod: the pod's spec, but for its ServiceAccount and the ConfigMap of its code.
    """

    digest: str
    result: dljob.ConfigMapRef
    seconds: int
    pod: Mapping[str, Any]

    @property
    def files(self) -> tuple[str, ...]:
        """What is mounted into the pod."""
        return extraction_pod.WRITER, extraction_pod.ONNX if self.result.key == ONNX_KEY else extraction_pod.EXTRACTOR


def wanted(owner: views.DLJob) -> Wanted | None:
    """Return what the DLJob's graph is to be extracted with; None: it comes from elsewhere."""
    spec = owner.spec
    if spec is None or not is_needed(spec):
        return None
    pod = extraction_pod.spec(spec)
    content = {"uid": owner.meta.uid, "pod": pod, "arguments": extraction_pod.arguments(spec)}
    digest = hashlib.sha256(documents.canonical(content).encode()).hexdigest()[:8]
    key = GRAPH_KEY if spec.model is not None and spec.model.entrypoint is not None else ONNX_KEY
    result = dljob.ConfigMapRef(name=f"{owner.meta.key.name}-graph-{digest}", key=key)
    seconds = extraction_pod.seconds(spec)
    namespace = owner.meta.key.namespace
    where = ("--config-map", result.name, "--namespace", namespace, "--key", key, "--seconds", str(seconds))
    pod["containers"][0]["command"] += [*where, *extraction_pod.arguments(spec)]
    return Wanted(digest=digest, result=result, seconds=seconds, pod=pod)


def is_needed(spec: dljob.Spec) -> bool:
    """Return whether the graph has to be made from the user's own image or volume."""
    return spec.model is not None and (spec.model.onnx is not None or spec.model.entrypoint is not None)


def result(owner: views.DLJob, asked: Wanted) -> Manifest:
    """Return the ConfigMap of the result, empty; it stays when the Job goes."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(owner, asked.digest, name=asked.result.name, by=builders.owner_reference(owner)),
    }


def selector(owner: views.DLJob) -> str:
    """Return what finds the results of a DLJob, whatever their digests."""
    return f"{names.DLJOB_LABEL}={owner.meta.key.name},{labels.EXTRACTION}"


def job(owner: views.DLJob, asked: Wanted, *, number: int) -> Manifest:
    """Return the Job of one try. Made suspended: what its pod needs is made before it starts."""
    name = job_name(owner, asked, number=number)
    metadata = _metadata(owner, asked.digest, name=name, by=builders.owner_reference(owner))
    metadata["labels"][labels.EXTRACTION_NUMBER] = str(number)
    pod = {**asked.pod, "serviceAccountName": name}
    pod["volumes"] = [*pod["volumes"], {"name": extraction_pod.CODE, "configMap": {"name": name}}]
    marks = _labels(owner, asked.digest) | {names.DLJOB_UID_LABEL: owner.meta.uid}
    content = {
        "suspend": True,
        "backoffLimit": 0,
        "activeDeadlineSeconds": asked.seconds + START_SECONDS,
        "podReplacementPolicy": "Failed",
        # A pod that was evicted is made again; the deadline ends that.
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "template": {"metadata": {"labels": marks}, "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": content}


def job_name(owner: views.DLJob, asked: Wanted, *, number: int) -> str:
    """Return the Job of a try; the same whoever computes it. The digest tells it from that of a DLJob of like name."""
    end = f"-extract-{asked.digest}-{number}"
    return owner.meta.key.name[: MAX_NAME - len(end)].rstrip("-.") + end


def companions(observed: Observed, asked: Wanted, made: extractions.ExtractionJob) -> tuple[tuple[Kind, Manifest], ...]:
    """Return what the pod needs beside its Job, which owns all of it: its identity, what that may do, and its code."""
    owner, name = observed.job, made.meta.key.name
    by = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made.meta.uid, "controller": True}
    metadata = _metadata(owner, asked.digest, name=name, by=by)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [asked.result.name], "verbs": ["patch"]}
    account = {"kind": "ServiceAccount", "name": name, "namespace": owner.meta.key.namespace}
    return (
        (
            Kind.SERVICE_ACCOUNT,
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata,
                "imagePullSecrets": [dict(secret) for secret in observed.pull_secrets],
            },
        ),
        (Kind.ROLE, {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}),
        (
            Kind.ROLE_BINDING,
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
                "subjects": [account],
            },
        ),
        (
            Kind.CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {file: _source(file) for file in asked.files},
            },
        ),
    )


def last_line(words: str) -> str:
    """Return what our program said last in the tail of a log; else the tail itself, shortened from its beginning."""
    ours = [line for line in words.splitlines() if re.match(r"(cotenant|extractor): ", line)]
    text = " ".join((ours[-1].partition(": ")[2] if ours else words).split())
    return text if len(text) <= extraction_pod.MAX_WORDS else f"...{text[3 - extraction_pod.MAX_WORDS :]}"


@functools.cache
def _source(file: str) -> str:
    """Return a file of the predictor: a constant of this release, though it lies beside the program."""
    return importlib.resources.files("cotenant_predictor.extraction").joinpath(file).read_text(encoding="utf-8")


def _labels(owner: views.DLJob, digest: str) -> dict[str, str]:
    return {
        names.DLJOB_LABEL: owner.meta.key.name,
        labels.MANAGED_BY: labels.FIELD_MANAGER,
        labels.EXTRACTION: digest,
    }


def _metadata(owner: views.DLJob, digest: str, *, name: str, by: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": owner.meta.key.namespace,
        "labels": _labels(owner, digest),
        "ownerReferences": [dict(by)],
    }
