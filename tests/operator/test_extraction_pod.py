"""The pod and the objects of an extraction: what they take from the user's template, and what they may do."""

from typing import Any

import pytest

from cotenant_operator.graphs import extraction
from cotenant_operator.state import extractions as states
from cotenant_operator.state import reading, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from operator_kit import extractions, objects

Json = dict[str, Any]

TEMPLATE: Json = {
    "metadata": {"annotations": {"a": "b"}},
    "spec": {
        "containers": [
            {"name": "side", "image": "side:1"},
            {
                "name": "main",
                "image": "train:7",
                "command": ["/opt/venv/bin/python3.12", "train.py"],
                "args": ["--epochs", "3"],
                "workingDir": "/workspace",
                "env": [{"name": "A", "value": "1"}, {"name": "CUDA_VISIBLE_DEVICES", "value": "0"}],
                "envFrom": [{"secretRef": {"name": "keys"}}],
                "ports": [{"containerPort": 80}],
                "livenessProbe": {"exec": {"command": ["true"]}},
                "securityContext": {"runAsNonRoot": True},
                "resources": {"limits": {"cpu": "32", "memory": "600Mi", "rdma/hca": "1"}},
                "volumeMounts": [{"name": "code", "mountPath": "/workspace"}],
            },
        ],
        "initContainers": [{"name": "init", "image": "init:1"}],
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "gpu"}],
        "runtimeClassName": "kata",
        "hostUsers": False,
        "securityContext": {"fsGroup": 7},
        "priorityClassName": "high",
        "schedulerName": "cotenant",
        "serviceAccountName": "theirs",
        "volumes": [{"name": "code", "configMap": {"name": "code"}}, {"name": "unused", "emptyDir": {}}],
    },
}


def owner(name: str = "train", **spec: Any) -> views.DLJob:
    value = extractions.dljob(name, **spec)
    value["metadata"] |= {"namespace": "team", "uid": "uid-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return reading.dl_job(value)


def wanted(**spec: Any) -> extraction.Wanted:
    found = extraction.wanted(owner(**spec))
    assert found is not None
    return found


def container(**spec: Any) -> Json:
    (found,) = wanted(**spec).pod["containers"]
    return dict(found)


def test_pod_has_what_the_users_code_needs_and_nothing_else() -> None:
    pod = wanted(template=TEMPLATE, container="main").pod
    assert {key: pod[key] for key in pod if key != "containers"} == {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "gpu"}],
        "runtimeClassName": "kata",
        "hostUsers": False,
        "securityContext": {"fsGroup": 7},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": True,
        "readinessGates": [{"conditionType": "cotenant.dev/extraction"}],
        "volumes": [{"name": "code", "configMap": {"name": "code"}}],
    }


def test_container_is_theirs_without_its_gpu() -> None:
    found = container(template=TEMPLATE, container="main")
    assert found["env"] == [
        {"name": "A", "value": "1"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
    ]
    assert found["resources"] == {
        "requests": {"cpu": "500m", "memory": "600Mi"},
        "limits": {"cpu": "2", "memory": "600Mi"},
    }
    assert {"image", "workingDir", "envFrom", "securityContext"} <= found.keys()
    assert not {"args", "ports", "livenessProbe"} & found.keys()
    assert found["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_their_interpreter_runs_our_program() -> None:
    assert container(template=TEMPLATE, container="main")["command"][:2] == [
        "/opt/venv/bin/python3.12",
        "/cotenant-extraction/in_pod.py",
    ]
    assert container()["command"][0] == "python3"


def test_command_says_what_to_extract_and_where_to_write() -> None:
    found = wanted(precision="bf16", inputShapes=[{"name": "x", "dims": [64, 3]}])
    assert found.pod["containers"][0]["command"][2:] == [
        *("--config-map", found.result.name, "--namespace", "team", "--key", "graph.json.gz", "--seconds", "300"),
        *("entrypoint", "models:build", "--batch-size", "64", "--mode", "Training", "--precision", "bf16"),
        *("--arg", "depth=50", "--arg", "input_shapes={'x': [64, 3]}"),
    ]


def test_onnx_file_of_the_image_is_stripped() -> None:
    found = wanted(model=extractions.ONNX)
    assert found.pod["containers"][0]["command"][-2:] == ["onnx", "/models/m.onnx"]
    assert found.result.key == "model.onnx.gz"
    assert set(found.files) == {"in_pod.py", "onnx_strip.py"}


def test_onnx_file_of_a_claim_is_mounted_read_only() -> None:
    found = wanted(model={"onnx": {"path": "/a/m.onnx", "claimName": "models"}})
    claim = {"claimName": "models", "readOnly": True}
    assert found.pod["volumes"] == [{"name": "cotenant-model", "persistentVolumeClaim": claim}]
    inner = found.pod["containers"][0]
    assert inner["volumeMounts"][-1] == {"name": "cotenant-model", "mountPath": "/cotenant-model", "readOnly": True}
    assert inner["command"][-1] == "/cotenant-model/a/m.onnx"


def test_job_has_limits_and_ignores_evictions() -> None:
    found = extraction.job(owner(), wanted(), number=1)["spec"]
    assert (found["backoffLimit"], found["suspend"], found["activeDeadlineSeconds"]) == (0, True, 900)
    assert found["podReplacementPolicy"] == "Failed"
    assert found["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    assert "schedulerName" not in found["template"]["spec"]
    assert "schedulingGates" not in found["template"]["spec"]


def test_account_may_patch_the_one_result_and_nothing_else() -> None:
    asked = wanted()
    made = states.job(
        {
            "metadata": {**extraction.job(owner(), asked, number=1)["metadata"], "uid": "uid-2"}
            | {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {},
        }
    )
    found = dict(extraction.companions(Observed(job=owner()), asked, made))
    assert found[Kind.ROLE]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [asked.result.name], "verbs": ["patch"]}
    ]
    assert {manifest["metadata"]["ownerReferences"][0]["uid"] for manifest in found.values()} == {"uid-2"}
    assert set(found[Kind.CONFIG_MAP]["data"]) == {"in_pod.py", "extractor.py"}


@pytest.mark.parametrize(
    "change",
    [
        {"batchSize": 32},
        {"precision": "bf16"},
        {"workloadType": "Inference"},
        {"model": {"entrypoint": {"callable": "models:other"}}},
        {"template": objects.template(image="busybox:2")},
    ],
)
def test_what_changes_the_graph_changes_the_digest(change: Json) -> None:
    assert wanted(**change).digest != wanted().digest


@pytest.mark.parametrize("change", [{"replicas": 4}, {"gpuMemory": "3Gi"}, {"suspend": True}, {"backoffLimit": 2}])
def test_what_does_not_change_the_graph_changes_nothing(change: Json) -> None:
    assert wanted(**change) == wanted()


@pytest.mark.parametrize("name", ["a", "a" * 52, "a" * 42 + "-" + "b" * 9, "a." * 21 + "b" * 10])
def test_names_fit_into_labels_and_differ(name: str) -> None:
    mine, other = owner(name), owner(f"{name[:-1]}x")
    names = [extraction.job_name(each, extraction.wanted(each) or wanted(), number=1) for each in (mine, other)]
    assert all(len(each) <= 63 and "-extract-" in each and "--" not in each and ".-" not in each for each in names)


def test_graph_from_elsewhere_needs_no_extraction() -> None:
    value = objects.dljob()
    value["metadata"] |= {"namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert extraction.wanted(reading.dl_job(value)) is None
