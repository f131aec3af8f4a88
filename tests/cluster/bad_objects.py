"""DLJobs, pods and policies that cannot be used: what `kubectl apply` says, or the object's own condition."""

from typing import Any, Final

from bad_input import Object
from cotenant_api import names

GIB: Final = '"10Gi"'
BYTES: Final = "a number without a unit counts bytes"
LEAST: Final = "at least 64Mi"
MODEL: Final = {"configMapRef": {"name": "graph", "key": "graph.json"}}
ANOTHER: Final = {"name": "other", "image": "i"}


def dljob(name: str, *said: str, reason: str = "", **changes: Any) -> Object:
    """A DLJob; changes of its spec but for `template`, `container` and `metadata`."""
    parts = {part: changes.pop(part, {}) for part in ("template", "container", "metadata")}
    return Object(name=name, said=said, kind="DLJob", reason=reason, spec=changes, **parts)


def pod(name: str, *said: str, reason: str = "", share: str | None = "20", **changes: Any) -> Object:
    """A pod with a share; `notes`: annotations of ours, by the part of their names that differs."""
    notes = {f"{names.GROUP}/{key}": text for key, text in changes.pop("notes", {}).items()}
    container = changes.pop("container", {})
    if share is not None:
        container = {"resources": {"limits": {names.GPU_SHARE: share} | changes.pop("limits", {})}} | container
    return Object(name=name, said=said, kind="Pod", reason=reason, spec=notes, container=container, template=changes)


def policy(name: str, *said: str, **spec: Any) -> Object:
    """A PackingPolicy with these fields."""
    return Object(name=name, said=said, kind="PackingPolicy", spec=spec)


DLJOBS: Final = (
    dljob("memory-without-unit", "spec.gpuMemory", '"10"', LEAST, GIB, BYTES, gpuMemory="10"),
    dljob("memory-as-small-integer", "spec.gpuMemory", "10", LEAST, BYTES, gpuMemory=10),
    dljob("memory-in-milli", "spec.gpuMemory", '"10m"', LEAST, gpuMemory="10m"),
    dljob("memory-below-64mi", "spec.gpuMemory", '"63Mi"', LEAST, gpuMemory="63Mi"),
    dljob("memory-of-zero", "spec.gpuMemory", '"0"', LEAST, gpuMemory="0"),
    dljob("memory-below-zero", "spec.gpuMemory", '"-5Gi"', GIB, gpuMemory="-5Gi"),
    dljob("memory-in-gb", "spec.gpuMemory", '"10GB"', GIB, gpuMemory="10GB"),
    dljob("memory-with-a-blank", "spec.gpuMemory", '"10 Gi"', GIB, gpuMemory="10 Gi"),
    dljob("memory-as-fraction", "spec.gpuMemory", "must be of type integer,string", gpuMemory=1.5),
    dljob("memory-as-word", "spec.gpuMemory", '"lots"', GIB, gpuMemory="lots"),
    dljob("memory-of-many-digits", "spec.gpuMemory", "1e999", GIB, gpuMemory="1e999"),
    dljob("memory-above-1pi", "spec.gpuMemory", '"2Pi"', "at most 1Pi", gpuMemory="2Pi"),
    dljob("memory-of-60-digits", "spec.gpuMemory", '"1e60"', "at most 1Pi", gpuMemory="1e60"),
    dljob("memory-beyond-64-bits", "spec.gpuMemory", '"9223372036854775808"', "1Pi", gpuMemory="9223372036854775808"),
    dljob("memory-as-huge-integer", "spec.gpuMemory", "at most 1Pi", gpuMemory=2**61),
    dljob("models-as-blank", "spec.gpuModels[0]", '" "', gpuModels=[" "]),
    dljob("models-as-comma", "spec.gpuModels[0]", '","', gpuModels=[","]),
    dljob("models-in-one", "spec.gpuModels[0]", '"Tesla-T4,NVIDIA-L4"', gpuModels=["Tesla-T4,NVIDIA-L4"]),
    dljob("models-with-blanks", "spec.gpuModels[0]", '" Tesla-T4 "', gpuModels=[" Tesla-T4 "]),
    dljob("models-as-text", "spec.gpuModels", "must be of type array", gpuModels="NVIDIA-H200"),
    dljob("models-with-an-empty-one", "spec.gpuModels[0]", "at least 1 chars", gpuModels=[""]),
    dljob("models-twice", "spec.gpuModels[1]", "Duplicate value", gpuModels=["NVIDIA-L4", "NVIDIA-L4"]),
    dljob("unknown-field", 'unknown field "spec.gpuMemroy"', gpuMemroy="10Gi"),
    dljob("unknown-field-of-metadata", 'unknown field "spec.template.metadata.lables"', metadata={"lables": {}}),
    dljob("workload-type-in-lower-case", "spec.workloadType", '"training"', '"Training"', workloadType="training"),
    dljob("replicas-below-zero", "spec.replicas", "-1", "use suspend to stop it", replicas=-1),
    dljob("replicas-of-zero", "spec.replicas", "use suspend to stop it", replicas=0),
    dljob("replicas-beyond-bounds", "spec.replicas", "5000", "less than or equal to 1024", replicas=5000),
    dljob("replicas-beyond-the-policy", "spec.replicas", "300", "set at most 256", replicas=300),
    dljob("replicas-as-word", "spec.replicas", "must be of type integer", replicas="two"),
    dljob("no-gpu", "spec.gpusPerReplica", "0", "greater than or equal to 1", gpusPerReplica=0),
    dljob("too-many-processes", "spec.processesPerGPU", "17", "less than or equal to 16", processesPerGPU=17),
    Object(
        name="container-that-is-not-there",
        kind="DLJob",
        spec={"container": "other"},
        said=("spec.container", "must name a container of template.spec.containers"),
    ),
    dljob("onnx-without-batch-size", "spec.batchSize", "write the samples", model={"onnx": {"path": "/m.onnx"}}),
    dljob("batch-size-of-a-graph", "spec.batchSize", "remove it", batchSize=8, model=MODEL),
    dljob("precision-of-a-graph", "spec.precision", "remove it", precision="bf16", model=MODEL),
    dljob(
        "callable-without-module",
        "spec.model.entrypoint.callable",
        '"build"',
        batchSize=1,
        model={"entrypoint": {"callable": "build"}},
    ),
    dljob("two-graphs", "spec.model", "at most one of", model={"features": {}, **MODEL}),
    dljob("graph-as-list", "spec.model.features", "must be of type object", model={"features": [1]}),
    dljob(
        "config-map-of-no-name",
        "spec.model.configMapRef.name",
        "lower case letters, digits",
        model={"configMapRef": {"name": "Bad Name"}},
    ),
    dljob(
        "config-map-key-that-is-none",
        "spec.model.configMapRef.key",
        "letters, digits, '-', '_' and '.'",
        model={"configMapRef": {"name": "graph", "key": "a/b"}},
    ),
    dljob(
        "claim-of-no-name",
        "spec.model.onnx.claimName",
        "that of a PersistentVolumeClaim",
        batchSize=1,
        model={"onnx": {"path": "/m.onnx", "claimName": "My Claim"}},
    ),
    dljob(
        "shape-of-zero",
        "spec.inputShapes[0].dims[0]",
        "greater than or equal to 1",
        batchSize=1,
        model={"onnx": {"path": "/m.onnx"}},
        inputShapes=[{"name": "x", "dims": [0]}],
    ),
    dljob("slo-of-training", "spec.slo", "set workloadType: Inference", slo={"latencyMilliseconds": 5}),
    Object(
        name="deadline-of-inference",
        kind="DLJob",
        spec={"workloadType": "Inference", "activeDeadlineSeconds": 5},
        said=("spec.activeDeadlineSeconds", "an inference job has no end; remove it"),
    ),
    dljob("deadline-of-zero", "spec.activeDeadlineSeconds", "0", "equal to 1", activeDeadlineSeconds=0),
    dljob("growth-below-100", "spec.oomPolicy.growthPercent", "50", "equal to 101", oomPolicy={"growthPercent": 50}),
    dljob("run-time-beyond-the-policy", "spec.minimumRunSeconds", "set at most 3600", minimumRunSeconds=99999),
    dljob("restarts-on-failure", "restartPolicy", "must be Never", template={"restartPolicy": "OnFailure"}),
    dljob("node-by-name", "spec.template.spec.nodeName", "remove nodeName", template={"nodeName": "n1"}),
    dljob("another-scheduler", "schedulerName", "must be cotenant", template={"schedulerName": "default-scheduler"}),
    dljob("processes-of-the-host", "spec.template.spec.hostPID", "remove hostPID", template={"hostPID": True}),
    dljob(
        "whole-gpus-in-the-template",
        "spec.template.spec.containers[0].resources.limits",
        "remove nvidia.com/gpu",
        container={"resources": {"limits": {"nvidia.com/gpu": "1"}}},
    ),
    dljob(
        "a-share-in-the-template",
        "spec.template.spec.containers[0].resources.limits",
        f"remove {names.GPU_SHARE}",
        container={"resources": {"limits": {names.GPU_SHARE: "50"}}},
    ),
    dljob(
        "privileged",
        "securityContext.privileged",
        "remove privileged",
        container={"securityContext": {"privileged": True}},
    ),
    dljob("cpu-as-word", "resources.limits.cpu", '"lots"', container={"resources": {"limits": {"cpu": "lots"}}}),
    dljob("annotation-of-a-pod", "gpuMemory", "for plain pods", metadata={"annotations": {names.GPU_MEMORY: "5Gi"}}),
    dljob("label-of-the-operators", "labels of cotenant.dev", "remove", metadata={"labels": {names.DLJOB_LABEL: "x"}}),
    dljob(
        "onnx-outside-of-its-volume",
        "spec.model.onnx.path",
        "must not lead through '..'",
        batchSize=1,
        model={"onnx": {"path": "../m.onnx", "claimName": "models"}},
    ),
    dljob(
        "prediction-of-ones-own", "remove it", "the operator alone", metadata={"annotations": {names.PREDICTION: "{}"}}
    ),
    dljob("command-as-text", "containers[0].command", "of type array", container={"command": "python train.py"}),
    dljob("gates-as-text", "spec.template.spec.schedulingGates", "of type array", template={"schedulingGates": "x"}),
    dljob("affinity-as-text", "spec.template.spec.affinity", "of type object", template={"affinity": "x"}),
    dljob("overhead-as-list", "spec.template.spec.overhead", "of type object", template={"overhead": ["cpu"]}),
    dljob("mount-without-a-name", "volumeMounts[0].name", "Required value", container={"volumeMounts": [{}]}),
    dljob("gate-without-a-name", "schedulingGates[0].name", "Required value", template={"schedulingGates": [{}]}),
    dljob(
        "account-of-a-path", "serviceAccountName", "that of a ServiceAccount", template={"serviceAccountName": "a/../b"}
    ),
    dljob("overhead-of-no-class", "spec.template.spec.overhead", "RuntimeClass", template={"overhead": {"cpu": "1"}}),
    dljob("image-with-a-blank", "containers[0].image", "must not begin or end with a blank", container={"image": " i"}),
    dljob(
        "mig-beside-a-share",
        "spec.template.spec.containers[0].resources.limits",
        "remove nvidia.com/mig-*",
        container={"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}},
    ),
    dljob(
        "annotations-without-end",
        "spec.template.metadata.annotations",
        "at most 49000 characters together",
        metadata={"annotations": {f"a{number}": "x" * 8000 for number in range(7)}},
    ),
    dljob(
        "failure-of-no-container",
        "spec.podFailurePolicy.rules",
        "must name a container of template.spec.containers",
        podFailurePolicy={
            "rules": [{"action": "FailJob", "onExitCodes": {"containerName": "nope", "operator": "In", "values": [2]}}]
        },
    ),
    dljob(
        "callable-of-dots",
        "spec.model.entrypoint.callable",
        "names of Python",
        batchSize=1,
        model={"entrypoint": {"callable": "a..b:c"}},
    ),
    dljob("config-map-of-dots", "configMapRef.name", "ConfigMap", model={"configMapRef": {"name": "a..b"}}),
    dljob("config-map-key-of-dots", ".key", "begin with '..'", model={"configMapRef": {"name": "a", "key": "..x"}}),
    dljob("dot.in-name", "metadata.name", "use '-'"),
    dljob("n" * 53, "metadata.name", "at most 52 characters"),
    # Taken by the API server, and told in a condition: no workload is made, or its pods wait.
    dljob(
        "typo-in-a-container",
        'unknown field "spec.template.spec.containers[0].comand"',
        "correct the DLJob",
        reason="InvalidTemplate",
        container={"comand": ["true"]},
    ),
    dljob(
        "typo-in-the-pod",
        'unknown field "spec.template.spec.tolerationz"',
        reason="InvalidTemplate",
        template={"tolerationz": []},
    ),
    Object(
        name="typo-in-inference",
        kind="DLJob",
        spec={"workloadType": "Inference"},
        template={"replicass": 1},
        reason="InvalidTemplate",
        said=('unknown field "spec.template.spec.replicass"',),
    ),
    dljob(
        "typo-in-a-security-context",
        'unknown field "spec.template.spec.securityContext.fsgroup"',
        reason="InvalidTemplate",
        template={"securityContext": {"fsgroup": 5}},
    ),
    dljob("no-image", "containers[0].image", "Required value", reason="InvalidTemplate", container={"image": ""}),
    dljob(
        "request-above-limit",
        "containers[0].resources.requests",
        "less than or equal to cpu limit",
        reason="InvalidTemplate",
        container={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
    ),
    dljob(
        "volume-that-is-not-there",
        "volumeMounts[0].name",
        '"nope"',
        reason="InvalidTemplate",
        container={"volumeMounts": [{"name": "nope", "mountPath": "/x"}]},
    ),
    dljob(
        "container-in-capitals", "containers[0].name", '"Main"', reason="InvalidTemplate", container={"name": "Main"}
    ),
    dljob("label-with-a-blank", '"bad label"', reason="InvalidTemplate", metadata={"labels": {"bad label": "x"}}),
    dljob("managed-by-a-word", "spec.managedBy", '"me"', "kueue.x-k8s.io/multikueue", managedBy="me"),
    dljob(
        "priority-that-is-not-there",
        "no PriorityClass with name nope",
        reason="PodCreationFailed",
        template={"priorityClassName": "nope"},
    ),
    dljob(
        "graph-that-is-none",
        "spec.model.features",
        "cotenant extract",
        reason="GraphUnreadable",
        model={"features": {"a": 1}},
    ),
    dljob(
        "config-map-that-is-not-there",
        "ConfigMap graph does not exist",
        "create it with key graph.json",
        reason="ConfigMapNotFound",
        model=MODEL,
    ),
    dljob(
        "a-model-in-short",
        "no node has a GPU of model T4",
        "did you mean Tesla-T4?",
        reason="GPUModelMismatch",
        gpuModels=["T4"],
    ),
    dljob(
        "a-model-in-lower-case",
        "no node has a GPU of model nvidia-h200",
        "did you mean NVIDIA-H200?",
        reason="GPUModelMismatch",
        gpuModels=["nvidia-h200"],
    ),
    dljob(
        "a-model-that-no-node-has",
        "no node has a GPU of model MI300X",
        "nodes have NVIDIA-A100-80GB-PCIe",
        reason="GPUModelMismatch",
        gpuModels=["MI300X"],
    ),
    dljob("memory-of-no-gpu", "asks for 900.0 GiB", "ask for less", reason="NeverFits", gpuMemory="900Gi"),
    dljob("memory-as-large-integer", "asks for 900.0 GiB", "ask for less", reason="NeverFits", gpuMemory=900 * 2**30),
    dljob(
        "gpus-of-no-node",
        "asks for 16 GPUs",
        "no node has more than 4",
        "ask for fewer",
        reason="NeverFits",
        gpusPerReplica=16,
    ),
)

PODS: Final = (
    pod("share-of-zero", "gpu-share", "0", "1 to 100 hundredths", share="0"),
    pod("share-of-150", "gpu-share", "150", "n x 100 for n whole GPUs", share="150"),
    pod("share-of-a-half", "gpu-share", "500m", "must be an integer", share="0.5"),
    pod("share-below-zero", "gpu-share", "-5", "greater than or equal to 0", share="-5"),
    pod("share-and-whole-gpus", "nvidia.com/gpu", "not both; remove one", limits={"nvidia.com/gpu": "1"}),
    pod("share-and-mig", "nvidia.com/mig-1g.10gb", "not both; remove one", limits={"nvidia.com/mig-1g.10gb": "1"}),
    pod("pod-memory-without-unit", "gpu-memory", "10", LEAST, BYTES, notes={"gpu-memory": "10"}),
    pod("pod-memory-of-zero", "gpu-memory", "0", LEAST, notes={"gpu-memory": "0"}),
    pod("pod-memory-as-word", "gpu-memory", "lots", '"8Gi"', notes={"gpu-memory": "lots"}),
    pod("pod-models-of-none", "gpu-models", "must name GPU models", notes={"gpu-models": " , "}),
    pod(
        "type-in-lower-case",
        "workload-type",
        "training",
        "must be Training or Inference",
        notes={"workload-type": "training"},
    ),
    pod("no-process", "processes-per-gpu", "0", "from 1 to 16", notes={"processes-per-gpu": "0"}),
    pod("many-processes", "processes-per-gpu", "9999999", "from 1 to 16", notes={"processes-per-gpu": "9999999"}),
    pod(
        "run-time-below-zero",
        "minimum-run-seconds",
        "-1",
        "a whole number of seconds",
        notes={"minimum-run-seconds": "-1"},
    ),
    pod(
        "run-time-of-a-day", "minimum-run-seconds", "99999", "set at most 3600", notes={"minimum-run-seconds": "99999"}
    ),
    pod("gang-of-nobody", "gang", '"size":0', "a plain number above 0", notes={"gang": '{"v":1,"name":"g","size":0}'}),
    pod("gang-of-a-thousand", "gang", "1000", "set at most 256", notes={"gang": '{"v":1,"name":"g","size":1000}'}),
    pod("gang-that-is-no-json", "gang", "me", 'write {"v":1', notes={"gang": "me"}),
    pod("slip-in-an-annotation", "gpu-memroy", "10Gi", "correct its name", notes={"gpu-memroy": "10Gi"}),
    pod("placement-of-ones-own", "placement", "remove it", notes={"placement": "{}"}),
    pod("earmark-of-ones-own", "earmark", "remove it", notes={"earmark": "{}"}),
    pod("node-of-ones-own", "spec.nodeName", "remove it", nodeName="t4-0"),
    pod("scheduler-of-ones-own", "spec.schedulerName", "must be cotenant", schedulerName="mine"),
    pod(
        "as-root",
        "containers[main].securityContext",
        "set runAsUser to another user than 0",
        container={"securityContext": {"runAsUser": 0}},
    ),
    pod(
        "pod-memory-of-no-gpu", "asks for 900.0 GiB", "ask for less", reason="NeverFits", notes={"gpu-memory": "900Gi"}
    ),
    pod("gang-without-a-name", "gang", "name", reason="InvalidRequest", notes={"gang": '{"v":1,"size":2}'}),
    pod("sixteen-gpus", "asks for 16 GPUs", "no node has more than 4", reason="NeverFits", share="1600"),
    pod(
        "pod-of-a-model-in-short",
        "no node has a GPU of model A100",
        "did you mean NVIDIA-A100-80GB-PCIe?",
        reason="GPUModelMismatch",
        notes={"gpu-models": "A100"},
    ),
)

POLICIES: Final = (
    policy("placement-with-a-slip", "spec.placement", '"BestFitt"', '"BestFit"', placement="BestFitt"),
    policy("no-tenant", "spec.maxTenantsPerGPU", "0", "greater than or equal to 1", maxTenantsPerGPU=0),
    policy("many-tenants", "spec.maxTenantsPerGPU", "99", "less than or equal to 16", maxTenantsPerGPU=99),
    policy("field-with-a-slip", 'unknown field "spec.maxTenants"', maxTenants=3),
    policy("all-is-headroom", "spec.memoryHeadroomPercent", "95", "equal to 90", memoryHeadroomPercent=95),
    policy("label-without-a-key", "spec.tenancyLabel", "must be set with tenancy Label", tenancy="Label"),
    policy("label-that-is-none", "spec.tenancyLabel", "the key of a label", tenancy="Label", tenancyLabel="bad label!"),
    policy("no-wait", "spec.queue.maxWaitSeconds", "0", "equal to 1", queue={"maxWaitSeconds": 0}),
    policy("order-that-is-none", "spec.queue.order", '"LIFO"', '"FIFO"', queue={"order": "LIFO"}),
    policy("mode-in-lower-case", "spec.mode", '"pack"', '"Pack"', mode="pack"),
    policy("paused-as-word", "spec.paused", "must be of type boolean", paused="yes"),
    policy("override-of-nothing", "spec.overrides[0].gpuModels", "at least 1 items", overrides=[{"gpuModels": []}]),
    policy("override-twice", "spec.overrides", "name each GPU model once", overrides=[{"gpuModels": ["A"]}] * 2),
    policy(
        "override-of-a-placement", "overrides[0].placement", overrides=[{"gpuModels": ["A"], "placement": "Spread"}]
    ),
    policy("no-gpu-for-anybody", "spec.maxGPUsPerNamespace", "0", "equal to 1", maxGPUsPerNamespace=0),
    policy("second-policy", "metadata.name must be default"),
)

OBJECTS: Final = (*DLJOBS, *PODS, *POLICIES)
