"""The objects of a job: a ConfigMap with its graph, and the DLJob that names it. Pure."""

import base64
import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cotenant_api import dljob, documents, errors, graph, names, pod, quantity, rootless, written
from cotenant_cli.submitting import scripts

Object = dict[str, Any]

KEY: Final = "graph.json.gz"
MANAGED_BY: Final = "cotenant-submit"
CONTAINER: Final = "main"
LABELS: Final = {"app.kubernetes.io/managed-by": MANAGED_BY}
_VOLUME: Final = "code"
_PYTHON: Final = ("python",)
_UNBUFFERED: Final = "PYTHONUNBUFFERED"
"""So that a line is in the log when it is printed."""
_DIGEST_CHARACTERS: Final = 8
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_MOST_OF_A_NAMESPACE: Final = 63
_SOURCE: Final = "--filename"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked for on the command line; None: the DLJob's own default.

    Attributes:
        command, args: of the container; empty: the image's.
        environment: variables, by name.
        user: number of the user that the container runs as; None: the image's.
    """

    image: str
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    user: int | None = None
    workload_type: pod.WorkloadType = pod.WorkloadType.TRAINING
    replicas: int | None = None
    gpus_per_replica: int | None = None
    gpu_models: Sequence[str] = ()
    gpu_memory: str | None = None
    sharing: dljob.Sharing | None = None


def name_of(wanted: str | None, target: str) -> str:
    """Return the DLJob's name: as wanted, else made of the model's.

    Raises:
        InvalidInputError: it may not be one.
    """
    name = wanted if wanted is not None else _derived(target)
    return _required(name, field="--name", most=dljob.MAX_NAME, remedy=": give another --name")


def config_map(found: graph.Graph, *, namespace: str, name: str) -> Object:
    """Return the ConfigMap that holds the graph of the DLJob of that name.

    Raises:
        InvalidInputError: the graph is larger than the operator takes.
    """
    packed = found.packed()
    if len(packed) > graph.MAX_COMPRESSED_BYTES:
        remedy = (
            f"must be at most {graph.MAX_COMPRESSED_BYTES} bytes, gzipped: extract fewer layers, or give the DLJob "
            "spec.model.entrypoint or onnx instead"
        )
        raise errors.InvalidInputError("graph", f"{len(packed)} bytes", remedy)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _config_map_name(name), "namespace": namespace, "labels": dict(LABELS)},
        "binaryData": {KEY: base64.b64encode(packed).decode()},
    }


def graph_of(found: Mapping[str, Any]) -> bytes:
    """Return the graph that such a ConfigMap holds, gzipped."""
    return base64.b64decode(found["binaryData"][KEY])


def owned(found: Object, owner: Mapping[str, Any]) -> Object:
    """Return the ConfigMap as the DLJob's, so that it goes when the DLJob does."""
    metadata = owner["metadata"]
    reference = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": metadata["name"], "uid": metadata["uid"]}
    return found | {"metadata": found["metadata"] | {"ownerReferences": [reference]}}


def job(options: Options, *, namespace: str, name: str) -> Object:
    """Return the DLJob, with the graph's ConfigMap as its model.

    Raises:
        InvalidInputError: a value is out of its bounds.
    """
    return _modelled(plain_job(options, namespace=namespace, name=name))


def plain_job(options: Options, *, namespace: str, name: str) -> Object:
    """Return the DLJob without a model.

    Raises:
        InvalidInputError: a value is out of its bounds.
    """
    container: Object = {"name": CONTAINER, "image": options.image, **_security(options)}
    container |= {"command": list(options.command)} if options.command else {}
    container |= {"args": list(options.args)} if options.args else {}
    if options.environment:
        container["env"] = [{"name": key, "value": value} for key, value in options.environment.items()]
    wanted = {
        "workloadType": options.workload_type.value,
        "replicas": options.replicas,
        "gpusPerReplica": options.gpus_per_replica,
        "gpuModels": list(options.gpu_models) or None,
        "gpuMemory": options.gpu_memory,
        "sharing": None if options.sharing is None else options.sharing.value,
    }
    spec = {key: value for key, value in wanted.items() if value is not None}
    metadata = {"name": name, "namespace": namespace, "labels": dict(LABELS)}
    template = {"spec": {"containers": [container]}}
    made = {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "metadata": metadata,
        "spec": spec | {"template": template},
    }
    spec_of(made)
    return made


def of_script(code: scripts.Code, options: Options, *, namespace: str, name: str) -> list[Object]:
    """Return the ConfigMap of a script, where it has one, and the DLJob that runs it.

    The words of `options.command` run the script (default: python), and its `args` are the script's.

    Raises:
        InvalidInputError: a value is out of its bounds.
    """
    changed = replace(
        options,
        command=options.command or _PYTHON,
        args=(code.path, *options.args),
        environment={_UNBUFFERED: "1"} | dict(options.environment or {}),
    )
    made = plain_job(changed, namespace=namespace, name=name)
    if not code.files:
        return [made]
    # Named by what it holds: a job never runs other code than it was submitted with.
    digest = hashlib.sha256(repr(sorted(code.files.items())).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    metadata = {"name": f"{name}-code-{digest}", "namespace": namespace, "labels": dict(LABELS)}
    inner = made["spec"]["template"]["spec"]
    inner["volumes"] = [{"name": _VOLUME, "configMap": {"name": metadata["name"]}}]
    inner["containers"][0]["volumeMounts"] = [{"name": _VOLUME, "mountPath": scripts.FOLDER, "readOnly": True}]
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(code.files)}, made]


def _security(options: Options) -> Object:
    """Say what lets a container share a GPU; nothing of one that has whole GPUs, unless a user is named."""
    user = {} if options.user is None else {"runAsUser": options.user}
    whole = options.sharing is dljob.Sharing.EXCLUSIVE or (options.gpus_per_replica or 1) > 1
    if whole:
        return {"securityContext": user} if user else {}
    return {"securityContext": rootless.PROVEN | user}


def from_file(text: str, *, source: str, namespace: str | None, default: str) -> Object:
    """Return the DLJob of a YAML file, with the graph's ConfigMap as its model.

    Args:
        text: the file.
        source: its name, for the message of an error.
        namespace: None: the file's own, else the default.
        default: where neither names one.

    Raises:
        InvalidInputError: it holds no single DLJob, or one of another namespace, or with another source of its graph.
    """
    found = _one_dljob(text, source)
    metadata, spec = (_object(found.get(key), field=f"{source}: {key}") for key in ("metadata", "spec"))
    _required(metadata.get("name"), field=f"{source}: metadata.name", most=dljob.MAX_NAME)
    there = metadata.get("namespace")
    if there is not None:
        _required(there, field=f"{source}: metadata.namespace", most=_MOST_OF_A_NAMESPACE)
    if namespace is not None and there not in (None, namespace):
        raise errors.InvalidInputError("--namespace", namespace, f"must be {there!r}, as in {source}, or left out")
    if spec.get("model"):
        remedy = "must be left out: the graph of MODEL is put there (without MODEL: kubectl apply --server-side)"
        raise errors.InvalidInputError(f"{source}: spec.model", spec["model"], remedy)
    placed = found | {"metadata": metadata | {"namespace": namespace or there or default}, "spec": spec}
    return _modelled(placed)


def spec_of(found: Mapping[str, Any]) -> dljob.Spec:
    """Return the spec of a DLJob.

    Raises:
        InvalidInputError: a field is wrong, as the API server would say it, too.
    """
    spec = documents.validated(dljob.Spec, found.get("spec") or {}, source="spec")
    memory, least = spec.gpu_memory, dljob.MIN_GPU_MEMORY_MIB
    if memory is not None and quantity.mebibytes(memory, field="spec.gpuMemory") < least:
        remedy = f'must be at least {least}Mi, such as "10Gi": a number without a unit counts bytes'
        raise errors.InvalidInputError("spec.gpuMemory", memory, remedy)
    if spec.workload_type is pod.WorkloadType.TRAINING and spec.replicas < 1:
        raise errors.InvalidInputError("spec.replicas", spec.replicas, "must be 1 or more for a training job")
    return spec


def listed(found: Sequence[Mapping[str, Any]]) -> Object:
    """Objects as `kubectl get -o json` shows more than one."""
    return {"apiVersion": "v1", "kind": "List", "items": [dict(one) for one in found]}


def _modelled(found: Object) -> Object:
    """With its graph, and checked."""
    changed = copy.deepcopy(found)
    reference = {"name": _config_map_name(found["metadata"]["name"]), "key": KEY}
    changed.setdefault("spec", {})["model"] = {"configMapRef": reference}
    spec_of(changed)
    return changed


def _config_map_name(name: str) -> str:
    return f"{name}-graph"


def _derived(target: str) -> str:
    """`my_models:resnet` -> resnet, `models/BERT_base.onnx` -> bert-base."""
    last = target.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    stem = re.sub(r"\.(json|onnx|py)?(\.gz)?$", "", last)
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[: dljob.MAX_NAME].rstrip("-")


def _required(name: object, *, field: str, most: int, remedy: str = "") -> str:
    """Return the name, if an object may have it: it becomes a part of a path."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > most:
        allowed = f"must be a string of lower case letters, digits and '-', at most {most}"
        raise errors.InvalidInputError(field, name, f"{allowed}{remedy}")
    return name


def _object(value: object, *, field: str) -> Object:
    """Return an object of a file; an empty one where there is none."""
    if value is not None and not isinstance(value, dict):
        raise errors.InvalidInputError(field, value, "must be an object")
    return value or {}


def _one_dljob(text: str, source: str) -> Object:
    found = written.every(text, field=_SOURCE, source=source)
    if len(found) != 1 or not isinstance(found[0], dict) or found[0].get("kind") != "DLJob":
        kinds = [one.get("kind") if isinstance(one, dict) else one for one in found]
        raise errors.InvalidInputError(
            _SOURCE, source, f"must hold one DLJob and nothing else; it holds {errors.shortened(kinds)}"
        )
    version = found[0].get("apiVersion")
    if version != names.API_VERSION:
        raise errors.InvalidInputError(f"{source}: apiVersion", version, f"must be {names.API_VERSION}")
    result: Object = found[0]
    return result
