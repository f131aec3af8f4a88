"""Strategies for specs of DLJobs that the schema allows and nobody would write on purpose.

Fields of the DLJob come from the CustomResourceDefinition, fields of the pod template from the API server's own OpenAPI
document. A new field of either is drawn without a change here.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from cluster.workloads import CONTAINER, graph_document
from cotenant_e2e import configuration

Json = dict[str, Any]
Schema = Mapping[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
"""Draws a value of a strategy."""

CRD: Final = configuration.REPOSITORY / "manifests/crds/cotenant.dev_dljobs.yaml"
POD_SPEC: Final = "io.k8s.api.core.v1.PodSpec"
GRAPH: Final = "graph"
"""Name of a ConfigMap that holds a readable graph."""
CHARACTERS: Final = 300
DEPTH: Final = 5
"""Levels below a field of the pod's spec that get more than the fields they must have."""

_WRONG: Final[tuple[Any, ...]] = (
    *(None, "", "x", 0, -1, 2**63 - 1, 1.5, True, [], {}, [None], ["x"], [{}], [{"name": "main"}]),
    *({"name": "main"}, {"a": {"b": 1}}),
)
"""Values of any type. The API server checks no types below the fields that the DLJob's schema spells out."""
_NAMES: Final = ("main", "side", "data", "Main", "a.b", "", "-x", "x" * 63, "x" * 64, "extract", "cotenant-model")
_TEXTS: Final = ("", "x", "main", "a/b", "../x", "a..b", "é", "Upper_Case", "1", "x" * CHARACTERS, "example.org/hold")
_QUANTITIES: Final = (
    *("0", "1", "100m", "64Mi", "+1Gi", "100.Mi", ".5Gi", "1e9", "1e99", "1e-99", "1n", "1Pi", "999999999999Ei"),
    *("-1", "8E", "", "lots", 0, 1, 2**40, 2**63 - 1),
)
_BY_NAME: Final[Mapping[str, tuple[Any, ...]]] = {
    "name": _NAMES,
    "containerName": ("main", "main", "side", "Main"),
    "container": ("main", "main", "main", "side"),
    "claimName": ("data", "data.1", "a..b", "a" * 253),
    "subdomain": ("peers", "", "a.b", "Upper"),
    "image": ("registry.example/train:1", "", " x"),
    "mountPath": ("/data", "data", "", "/cotenant-extraction", "/cotenant-model"),
    "path": ("/m.onnx", "m.onnx", "", "a/../b", "/"),
    "callable": ("models:build", "a.b:c.d", ".:."),
    "key": ("graph.json", "graph.json", "graph.json.gz", "..x", "a" * 253),
    "dtype": ("fp32", "int64", "", "banana"),
    "restartPolicy": ("Always", "Never"),
    "schedulerName": ("cotenant", "cotenant", "default-scheduler"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Sometimes"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError", ""),
    "dnsPolicy": ("ClusterFirst", "Default", "None", ""),
    "protocol": ("TCP", "UDP", "", "tcp"),
    "effect": ("NoSchedule", "NoExecute", ""),
    "topologyKey": ("kubernetes.io/hostname", ""),
    "serviceAccountName": ("default", "nobody", "a/b", "..", "Upper"),
    "priorityClassName": ("system-node-critical", "nope", ""),
    "gpuModels": ("NVIDIA-H200", "Tesla-T4", "NVIDIA-L4", "T4", "a" * 63),
}
_AMOUNTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "completions": (1, 2, 3),
    "minimumRunSeconds": (0, 1, 3600, 3601),
    "values": (1, 2, 3, 143, 255, 0),
    "gpuMemory": (
        "1Gi",
        "64Mi",
        "+64Mi",
        "100.Mi",
        "1e9",
        2**30,
        2**26,
        "1Pi",
        "0.0625Gi",
        "67108864000m",
        "1125899906842624",
    ),
    "requestsPerSecond": ("1", "1n", "1e-99", "1e99", "1e18", 2**63 - 1, "8E", "0.5", "+.5"),
}
_KEYS: Final = (
    *("a", "", "example.org/a", "bad key", "job-name", "controller-uid", "batch.kubernetes.io/job-name"),
    *("pod-template-hash", "kueue.x-k8s.io/queue-name", "app.kubernetes.io/managed-by", "x" * 70),
    "batch.kubernetes.io/job-completion-index",
)
_RESOURCES: Final = (
    *("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.org/thing", "amd.com/gpu", "pods", "bad name"),
    *("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "cotenant.dev/gpu-memory", "requests.cpu"),
)
_TRAINING: Final = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "managedBy", "podFailurePolicy")
_SWEEP: Final = ("completions", "parallelism")
_EXTRACTED: Final = ("batchSize", "precision", "inputShapes")
_BY_CHOICE: Final = {"template", "model", "workloadType", *_TRAINING, *_SWEEP, *_EXTRACTED, "slo", "replicas"}


@dataclass(frozen=True)
class Specs:
    """Draws specs of DLJobs.

    Args:
        definitions: schemas of the API server's own types, by name.
    """

    definitions: Mapping[str, Schema]

    def spec(self, draw: Draw) -> Json:
        """Draw a spec. Most are of a kind that the rules of the CustomResourceDefinition allow."""
        fields = _dljob_fields()
        kind = draw(st.sampled_from(("training", "gang", "sweep", "inference")))
        spec: Json = {"template": self.template(draw), **_model(draw, fields, kind)}
        own = {"training": _TRAINING, "gang": _TRAINING, "sweep": (*_TRAINING, *_SWEEP), "inference": ("slo",)}[kind]
        for name in [*own, *(name for name in fields if name not in _BY_CHOICE)]:
            if _rarely(draw, 4):
                spec[name] = self._of(draw, name, fields[name], DEPTH)
        if kind == "inference":
            spec["workloadType"] = "Inference"
        if kind in ("gang", "inference"):
            spec["replicas"] = draw(st.sampled_from((2, 3, 256) if kind == "gang" else (0, 1, 2, 1024)))
        if kind == "sweep":
            spec.setdefault("completions", 2)
        if _rarely(draw, 12):
            name = draw(st.sampled_from(sorted(fields)))
            spec[name] = self._of(draw, name, fields[name], DEPTH)
        return spec

    def template(self, draw: Draw) -> Json:
        """Draw a pod template: one that runs, with a few fields that are drawn."""
        containers = [{**CONTAINER, **self._some(draw, "io.k8s.api.core.v1.Container", 3)}]
        if _rarely(draw, 3):
            containers.append({**CONTAINER, "name": "side", **self._some(draw, "io.k8s.api.core.v1.Container", 2)})
        inner = {"containers": containers, **self._some(draw, POD_SPEC, 3)}
        if _rarely(draw, 4):
            inner["initContainers"] = [
                {**CONTAINER, "name": "before", **self._some(draw, "io.k8s.api.core.v1.Container", 2)}
            ]
        made: Json = {"spec": inner}
        if _rarely(draw, 4):
            kind = draw(st.sampled_from(("labels", "annotations")))
            made["metadata"] = {
                kind: draw(st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_TEXTS), max_size=2))
            }
        return made

    def _some(self, draw: Draw, name: str, most: int) -> Json:
        """Draw a few fields of one of the API server's types."""
        fields = self.definitions[name]["properties"]
        chosen = draw(st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True))
        return {field: self._of(draw, field, fields[field], 0) for field in chosen}

    def _of(self, draw: Draw, name: str, schema: Schema, depth: int) -> Any:
        """Draw the value of a field. In a pod template it may be of another type."""
        if depth < DEPTH and _rarely(draw, 12):
            return draw(st.sampled_from(_WRONG))
        schema = self._resolved(schema)
        match schema.get("type"):
            case "array":
                most = 2 if depth < DEPTH else max(2, schema.get("minItems", 0))
                count = draw(st.integers(min(schema.get("minItems", 0), most), most))
                return [self._of(draw, name, schema["items"], depth + 1) for _ in range(count)]
            case "object":
                return self._object(draw, name, schema, depth)
        return draw(st.sampled_from(_values(name, schema)))

    def _object(self, draw: Draw, name: str, schema: Schema, depth: int) -> Json:
        if "properties" not in schema:
            keys = _RESOURCES if name in ("limits", "requests", "overhead", "capacity") else _KEYS
            inner = schema.get("additionalProperties") or {"type": "string"}
            chosen = draw(st.lists(st.sampled_from(keys), max_size=2, unique=True))
            return {key: self._of(draw, "value", inner, depth + 1) for key in chosen}
        fields = schema["properties"]
        needed = set(schema.get("required", ()))
        if fields.keys() - needed:
            needed |= set(draw(st.lists(st.sampled_from(sorted(fields.keys() - needed)), max_size=2, unique=True)))
        return {field: self._of(draw, field, fields[field], depth + 1) for field in sorted(needed)}

    def _resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref") or next((one["$ref"] for one in schema.get("allOf", ())), None)
        return schema if reference is None else self._resolved(self.definitions[reference.rpartition("/")[2]])


def _model(draw: Draw, fields: Mapping[str, Schema], kind: str) -> Json:
    """Draw where the computation graph comes from, and the fields that belong to it."""
    source = draw(st.sampled_from(("none", "features", "configMapRef", "onnx", "entrypoint")))
    if source == "none":
        return {}
    if source == "features":
        return {"model": {"features": graph_document().to_object()}}
    if source == "configMapRef" or kind == "sweep":
        key = draw(st.sampled_from(_BY_NAME["key"]))
        return {"model": {"configMapRef": {"name": draw(st.sampled_from((GRAPH, "a..b", "nope"))), "key": key}}}
    drawn = Specs({})
    found: Json = {"model": {source: drawn._of(draw, source, fields["model"]["properties"][source], DEPTH)}}
    for name in _EXTRACTED:
        if name == "batchSize" or _rarely(draw, 3):
            found[name] = drawn._of(draw, name, fields[name], DEPTH)
    return found


def _values(name: str, schema: Schema) -> Sequence[Any]:
    """Return the values of a field that is neither a list nor an object."""
    if name in _AMOUNTS:
        return _AMOUNTS[name]
    if "x-kubernetes-int-or-string" in schema or "oneOf" in schema or schema.get("format") == "int-or-string":
        return _QUANTITIES
    if "enum" in schema:
        return tuple(schema["enum"])
    kind = schema.get("type")
    if kind == "boolean":
        return (False, True)
    return _integers(schema) if kind == "integer" else _BY_NAME.get(name, _TEXTS)


def _integers(schema: Schema) -> tuple[int, ...]:
    """Return numbers at the bounds of a schema, and beyond them where it has none."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        return (least, least + 1, 2**63 - 1 if most is None else most)
    return (0, 1, 2, 80, -1, 65536, 2**31 - 1, 2**31, 2**63 - 1)


def _rarely(draw: Draw, times: int) -> bool:
    """Draw True once in so many times."""
    return bool(draw(st.integers(0, times - 1)) == times - 1)


@functools.cache
def _dljob_fields() -> Mapping[str, Schema]:
    definition = yaml.safe_load(Path(CRD).read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: Mapping[str, Schema] = schema["properties"]["spec"]["properties"]
    return found
