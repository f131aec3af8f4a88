"""A cluster as one file: what is in it, and above all what is not."""

import json
from typing import Any

import pytest

from cotenant_api import errors, names
from cotenant_simulator.live import reading, redaction, snapshot, taking
from simulator import objects_kit as kit

SECRET = "hunter2"


def poisoned(value: kit.Object) -> kit.Object:
    """The same object with a secret wherever a user or another component may write one."""
    metadata = value["metadata"]
    metadata["annotations"] = metadata.get("annotations") or {}
    metadata["annotations"] |= {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "vault/token": SECRET}
    metadata["labels"] = (metadata.get("labels") or {}) | {"password": SECRET, SECRET: "x"}
    metadata["managedFields"] = [{"manager": SECRET}]
    return value


def container(**resources: Any) -> kit.Object:
    return {
        "name": "main",
        "image": f"registry/{SECRET}",
        "command": [SECRET],
        "args": ["--token", SECRET],
        "env": [{"name": "TOKEN", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "volumeMounts": [{"name": SECRET, "mountPath": f"/{SECRET}"}],
        "resources": resources,
    }


def secretive() -> taking.Lists:
    """A cluster with secrets everywhere."""
    spec = {
        "imagePullSecrets": [{"name": SECRET}],
        "volumes": [{"name": SECRET, "secret": {"secretName": SECRET}}],
        "serviceAccountName": SECRET,
        "nodeSelector": {"disk": SECRET, reading.PRODUCT: SECRET},
        "tolerations": [{"key": SECRET, "operator": "Exists"}],
        "containers": [container(limits={names.GPU_SHARE: "40"})],
        "initContainers": [container()],
    }
    document = json.loads(kit.believed())
    document |= {"model": SECRET, "graph": SECRET, "note": SECRET}
    document["byGPU"][SECRET] = document["byGPU"][kit.MODEL]
    notes = {
        names.PREDICTION: json.dumps(document),
        names.GANG: json.dumps({"v": 1, "name": SECRET, "size": 2}),
        names.GPU_MODELS: f"{kit.MODEL},{SECRET}",
        names.EARMARK: SECRET,
    }
    pod = kit.pod("a", started=5, annotations=notes)
    pod["spec"] |= spec
    pod["status"] |= {"message": SECRET, "reason": SECRET, "conditions": [{"type": "x", "message": SECRET}]}
    bad = kit.pod("bad", share=40, annotations={names.GPU_MEMORY: SECRET, names.PREDICTION: SECRET})
    job = kit.dljob(
        "j",
        gpuModels=[SECRET],
        model={"entrypoint": {"callable": f"m:{SECRET}", "args": {"token": SECRET}}},
        template={"spec": {"containers": [container()]}},
        status={
            "phase": "Pending",
            "conditions": [{"type": "Predicted", "status": "False", "reason": "X", "message": SECRET}],
            "prediction": {"gpuModel": SECRET, "model": SECRET, "reason": SECRET, "upperPercent": 40},
        },
    )
    agent = kit.gpunode()
    agent["status"] |= {"agentVersion": SECRET, "refused": [{"podUID": "u", "reason": SECRET}]}
    agent["status"]["gpus"][0]["reason"] = SECRET
    return kit.lists(
        nodes=[poisoned(kit.node(providerID=SECRET))],
        gpunodes=[poisoned(agent)],
        pods=[poisoned(pod), poisoned(bad)],
        dljobs=[poisoned(job)],
        policies=[poisoned(kit.policy())],
    )


def test_secrets_that_stand_everywhere_are_nowhere_in_a_snapshot() -> None:
    found = taking.taken(secretive(), now=kit.NOW)
    assert [pod.name for pod in found.pods] == ["a"]
    assert [job.name for job in found.dljobs] == ["j"]
    assert SECRET not in found.to_json()


def test_what_is_taken_of_a_pod_is_what_packing_depends_on() -> None:
    pod = kit.predicted("a", 30, upper=40, created=20, started=10, finished=5)
    pod["metadata"]["annotations"][names.GPU_MEMORY] = "8Gi"
    (found,) = kit.packing([pod]).pods
    assert (found.share, found.gpu_memory_mib, found.phase) == (40, 8192, "Succeeded")
    assert found.finished is not None
    assert found.started is not None
    assert (found.finished - found.started).total_seconds() == 300
    assert found.believed is not None
    assert found.believed.by_gpu[names.GPUModel(kit.MODEL)].utilization.upper == 40


def test_pods_without_gpu_are_left_out() -> None:
    assert kit.packing([kit.pod("web")]).pods == ()


def test_a_pod_that_cannot_be_read_is_named_with_its_field() -> None:
    bad = kit.pod("bad", share=40, annotations={names.GPU_MEMORY: "much"})
    found = kit.packing([bad, kit.predicted("good")])
    assert [pod.name for pod in found.pods] == ["good"]
    assert [(one.name, one.field) for one in found.unread] == [("bad", f"metadata.annotations[{names.GPU_MEMORY}]")]


def test_gpus_of_a_node_without_agent_are_those_of_its_labels() -> None:
    (found,) = kit.plain([], gpus=3).nodes
    assert not found.served
    assert [(gpu.model, gpu.memory_mib) for gpu in found.gpus] == [(kit.MODEL, kit.GPU_MIB)] * 3


def test_a_time_sliced_node_has_as_many_gpus_as_it_has_and_not_as_it_advertises() -> None:
    raw = kit.node(gpus=2, share=False, product=f"{kit.MODEL}{reading.SHARED_SUFFIX}")
    raw["status"]["allocatable"][reading.WHOLE_GPU] = "8"
    found = reading.node(raw, None)
    assert found is not None
    assert [gpu.model for gpu in found.gpus] == [kit.MODEL] * 2


def test_slices_of_gpus_take_no_pods() -> None:
    found = reading.node(kit.node(share=False, product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"), None)
    assert found is not None
    assert not any(gpu.usable for gpu in found.gpus)


def test_a_node_with_gpus_of_no_model_is_refused_with_the_remedy() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"Node\[n1\].metadata.labels.*feature discovery"):
        reading.node(kit.node(share=False, product=None), None)


@pytest.mark.parametrize("health", ["Suspect", "Unhealthy", "Probation"])
def test_gpus_that_are_not_healthy_take_no_pods(health: str) -> None:
    found = reading.node(kit.node(), kit.gpunode(health=health))
    assert found is not None
    assert not any(gpu.usable for gpu in found.gpus)


def test_dljobs_are_listed_only_where_none_of_their_pods_is_there() -> None:
    pod = kit.predicted("a-0", labels={names.DLJOB_LABEL: "a"})
    found = kit.lists(nodes=[kit.node()], gpunodes=[kit.gpunode()], pods=[pod], dljobs=[kit.dljob("a"), kit.dljob("b")])
    assert [job.name for job in taking.taken(found, now=kit.NOW).dljobs] == ["b"]


def test_redaction_leaves_no_name_and_keeps_who_belongs_together() -> None:
    pods = [kit.predicted(f"secret-job-{number}", labels={names.DLJOB_LABEL: "secret-job"}) for number in range(2)]
    whole = kit.packing(pods)
    usage = snapshot.Usage(namespace=names.Namespace("team"), pod="secret-job-0", utilization_percent=10)
    hidden = redaction.redacted(whole.model_copy(update={"usage": (usage,)}), key=b"k")
    text = hidden.to_json()
    assert hidden.redacted
    assert not [name for name in ("secret-job", "team", "n1", "uid-s", kit.GRAPH) if name in text]
    assert hidden.pods[0].dljob == hidden.pods[1].dljob
    assert hidden.pods[0].name == hidden.usage[0].pod != hidden.pods[1].name


def test_names_cannot_be_told_from_two_redactions() -> None:
    whole = kit.packing([kit.predicted("a")])
    hidden = [redaction.redacted(whole, key=key).pods[0].name for key in (b"1", b"2")]
    assert hidden[0] != hidden[1]


def test_a_snapshot_is_read_as_it_was_written() -> None:
    whole = kit.packing([kit.predicted("a", started=5)], maxTenantsPerGPU=2)
    assert snapshot.Snapshot.from_json(whole.to_json(), source="s") == whole


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"v": 2}, r"s.json.v: 2: this release reads version 1"),
        ({"taken": None}, r"s.json.taken"),
        (
            {"nodes": [{"name": "n", "ready": True, "served": True, "gpus": [{"uuid": "u", "index": 0}]}]},
            r"gpus\[0\].model",
        ),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_refused_with_file_and_path(change: kit.Object, path: str) -> None:
    text = json.dumps(json.loads(kit.packing([]).to_json()) | change)
    with pytest.raises(errors.InvalidInputError, match=path):
        snapshot.Snapshot.from_json(text, source="s.json")


def test_a_gpu_of_a_model_without_data_sheet_needs_a_memory() -> None:
    gpu = {"uuid": "u", "index": 0, "model": "NVIDIA-New"}
    text = json.dumps(
        json.loads(kit.packing([]).to_json()) | {"nodes": [{"name": "n", "ready": True, "served": True, "gpus": [gpu]}]}
    )
    found = snapshot.Snapshot.from_json(text, source="s.json")
    with pytest.raises(errors.InvalidInputError, match=r"s.json.nodes\[0\].gpus\[0\].memoryMiB"):
        snapshot.require_whole(found, source="s.json")
