"""The pod in which a graph is extracted: of the user's template what their code needs, without its GPU. Pure."""

import copy
import re
from typing import Any, Final

from cotenant_api import dljob, errors, graph, pod, quantity
from cotenant_operator import labels

WRITER: Final = "in_pod.py"
EXTRACTOR: Final = "extractor.py"
ONNX: Final = "onnx_strip.py"
CODE: Final = "cotenant-extraction"
"""Volume of these files."""
FOLDER: Final = "/cotenant-extraction"
CLAIM: Final = "cotenant-model"
CLAIM_FOLDER: Final = "/cotenant-model"
ONNX_SECONDS: Final = 300
"""An ONNX file is read in less; the default of an entrypoint."""
CPU: Final = ("500m", "2")
"""Request and limit: one step without data is run once, on one core for the most part."""
MEMORY: Final = ("1Gi", "8Gi")
"""Request and limit where the template's container has no limit of its own."""
MAX_WORDS: Final = 600
"""Characters of what a container said, in a condition."""
TIMED_OUT: Final = 124
"""Exit code of `in_pod.py` when its time is over."""
PRECISIONS: Final = (graph.Precision.FP32, graph.Precision.TF32, graph.Precision.FP16, graph.Precision.BF16)
"""What extraction knows."""

_OF_THE_POD: Final = (
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "runtimeClassName",
    "securityContext",
    "hostUsers",
    "hostNetwork",
    "hostAliases",
    "dnsPolicy",
    "dnsConfig",
)
_OF_THE_CONTAINER: Final = ("image", "imagePullPolicy", "envFrom", "workingDir", "securityContext")
_NO_GPU: Final = (
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
)
_PYTHON: Final = re.compile(r"(.*/)?python[0-9.]*")


def spec(wanted: dljob.Spec) -> dict[str, Any]:
    """Return the pod's spec, but for its ServiceAccount, the volume of its code, and the end of its command."""
    inner = wanted.template["spec"]
    theirs = container_of(wanted)
    container: dict[str, Any] = {field: theirs[field] for field in _OF_THE_CONTAINER if field in theirs}
    hidden = {item["name"] for item in _NO_GPU}
    container |= {
        "name": labels.EXTRACTION_CONTAINER,
        "command": [_interpreter(theirs), f"{FOLDER}/{WRITER}"],
        "env": [*(item for item in theirs.get("env") or () if item.get("name") not in hidden), *_NO_GPU],
        "resources": _resources(theirs),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*(theirs.get("volumeMounts") or ()), {"name": CODE, "mountPath": FOLDER, "readOnly": True}],
    }
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    volumes = [volume for volume in inner.get("volumes") or () if volume.get("name") in mounted]
    claim = None if wanted.model is None or wanted.model.onnx is None else wanted.model.onnx.claim_name
    if claim is not None:
        volumes.append({"name": CLAIM, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
        container["volumeMounts"].append({"name": CLAIM, "mountPath": CLAIM_FOLDER, "readOnly": True})
    found = {field: inner[field] for field in _OF_THE_POD if field in inner}
    found |= {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": True,
        # Never ready: a Service of the DLJob's pods sends it nothing.
        "readinessGates": [{"conditionType": labels.EXTRACTION}],
        "containers": [container],
        "volumes": volumes,
    }
    return copy.deepcopy(found)


def arguments(wanted: dljob.Spec) -> list[str]:
    """Return what is extracted, as `in_pod.py` is told."""
    source = wanted.model or dljob.ModelSource()
    if source.onnx is not None:
        path = source.onnx.path
        return ["onnx", path if source.onnx.claim_name is None else f"{CLAIM_FOLDER}/{path.lstrip('/')}"]
    if source.entrypoint is None:
        raise errors.InvalidInputError("spec.model", source, "must have onnx or entrypoint")
    given = dict(source.entrypoint.args)
    if wanted.input_shapes:
        given.setdefault("input_shapes", repr({shape.name: list(shape.dims) for shape in wanted.input_shapes}))
    named = [part for key, value in sorted(given.items()) for part in ("--arg", f"{key}={value}")]
    precision = (wanted.precision or graph.Precision.FP32).value
    batch = str(wanted.batch_size)
    more = ["--batch-size", batch, "--mode", mode(wanted).value, "--precision", precision]
    return ["entrypoint", source.entrypoint.callable, *more, *named]


def mode(wanted: dljob.Spec) -> graph.Mode:
    """Return what a step does."""
    training = wanted.workload_type is pod.WorkloadType.TRAINING
    return graph.Mode.TRAINING if training else graph.Mode.INFERENCE


def seconds(wanted: dljob.Spec) -> int:
    """Return how long the container may run."""
    entrypoint = None if wanted.model is None else wanted.model.entrypoint
    return ONNX_SECONDS if entrypoint is None else entrypoint.timeout_seconds


def account(wanted: dljob.Spec) -> str:
    """Return the ServiceAccount of the template's pods: pull secrets may be there and not in the template."""
    return str(wanted.template["spec"].get("serviceAccountName") or "default")


def container_of(wanted: dljob.Spec) -> dict[str, Any]:
    """Return the container that gets the GPU: the user's code is in it."""
    containers: list[dict[str, Any]] = wanted.template["spec"]["containers"]
    return next((each for each in containers if each.get("name") == wanted.container), containers[0])


def _interpreter(theirs: dict[str, Any]) -> str:
    """Return the Python that the user's command names, else the image's."""
    first = str((theirs.get("command") or [""])[0])
    return first if _PYTHON.fullmatch(first) else "python3"


def _resources(theirs: dict[str, Any]) -> dict[str, Any]:
    """Return a little of the CPU.

    Of memory what the user's container may have, else enough for a large model's operators.
    """
    request, limit = MEMORY
    given = str(((theirs.get("resources") or {}).get("limits") or {}).get("memory") or "")
    if given:
        limit = given
        request = given if _bytes(given) < _bytes(request) else request
    return {"requests": {"cpu": CPU[0], "memory": request}, "limits": {"cpu": CPU[1], "memory": limit}}


def _bytes(text: str) -> float:
    try:
        return float(quantity.parse(text, field="resources.limits.memory"))
    except errors.InvalidInputError:
        # The API server will refuse the template and say why.
        return 0.0
