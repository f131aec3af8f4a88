"""What a person sees: columns, descriptions, waiting for conditions, and that applying again never conflicts."""

import json
import re
from typing import Any

from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import names, places
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting

FAILS = {"metadata": {"annotations": {"demo.cotenant.dev/fail-after": "500ms"}}}
REASON = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")


def kubectl(workspace: Workspace, *arguments: str, stdin: Any = None) -> str:
    return workspace.installation.cluster.kubectl(*arguments, "--namespace", workspace.namespace, stdin=stdin)


def table(text: str) -> dict[str, dict[str, str]]:
    """What `kubectl get` prints: name -> column -> cell."""
    header, *lines = text.splitlines()
    starts = [(match.group(), match.start()) for match in re.finditer(r"\S+", header)]
    ends = [start for _, start in starts[1:]] + [10_000]
    rows = [
        {title: line[start:end].strip() for (title, start), end in zip(starts, ends, strict=True)} for line in lines
    ]
    return {row["NAME"]: row for row in rows}


def test_kubectl_get_shows_why_each_job_stands_where_it_does(workspace: Workspace) -> None:
    model = workspace.graph("graph")
    workspace.dljob("runs", model=model, template=template(run_for="60s"))
    workspace.dljob("waits", model=model, gpuModels=["Tesla-P4"])
    workspace.dljob("stands", suspend=True)
    workspace.dljob("succeeds", model=model)
    workspace.dljob("fails", backoffLimit=0, template=FAILS | {"spec": template()["spec"]})
    workspace.wait_for_phase("runs", Phase.RUNNING)
    workspace.wait_for_condition("waits", "Queued", "True", "GPUModelMismatch")
    for name, phase in (("stands", Phase.SUSPENDED), ("succeeds", Phase.SUCCEEDED), ("fails", Phase.FAILED)):
        workspace.wait_for_phase(name, phase)
    text = kubectl(workspace, "get", "dlj")
    assert text.split()[:8] == ["NAME", "PHASE", "REASON", "POSITION", "UTIL%", "MIB", "NODE", "AGE"]
    assert max(len(line) for line in text.splitlines()) <= 120
    rows = table(text)
    assert {name: (row["PHASE"], row["REASON"]) for name, row in rows.items()} == {
        "runs": ("Running", "Placed"),
        "waits": ("Queued", "GPUModelMismatch"),
        "stands": ("Suspended", "Suspended"),
        "succeeds": ("Succeeded", "Completed"),
        "fails": ("Failed", "BackoffLimitExceeded"),
    }
    assert int(rows["waits"]["POSITION"]) >= 1
    assert [rows[name]["POSITION"] for name in ("runs", "stands", "succeeds", "fails")] == [""] * 4
    assert rows["runs"]["NODE"] == workspace.status("runs")["replicas"][0]["node"]
    assert int(rows["runs"]["UTIL%"]) >= 1
    wide = table(kubectl(workspace, "get", "dlj", "-o", "wide"))
    assert wide["waits"]["MESSAGE"] == workspace.condition("waits", "Queued")["message"]
    assert wide["runs"]["GPU"] == workspace.status("runs")["prediction"]["gpuModel"]


def test_descriptions_of_a_dljob_and_of_its_pod_show_the_same_text(workspace: Workspace) -> None:
    workspace.dljob("waits", model=workspace.graph("graph"), gpuModels=["Tesla-P4"])
    workspace.wait_for_condition("waits", "Queued", "True", "GPUModelMismatch")
    pod = workspace.status("waits")["replicas"][0]["pod"]

    def same() -> bool:
        words = workspace.condition("waits", "Queued")["message"]
        described = [kubectl(workspace, "describe", kind, name) for kind, name in (("dlj", "waits"), ("pod", pod))]
        return places.position(words) is not None and all(words in text for text in described)

    waiting.wait_until(same, "one text in both", SECONDS)


def test_kubectl_waits_for_the_end(workspace: Workspace) -> None:
    workspace.dljob("succeeds")
    workspace.dljob("fails", backoffLimit=0, template=FAILS | {"spec": template()["spec"]})
    for name, condition in (("succeeds", "Complete"), ("fails", "Failed")):
        printed = kubectl(workspace, "wait", f"--for=condition={condition}", f"dlj/{name}", f"--timeout={SECONDS}s")
        assert printed == f"dljob.cotenant.dev/{name} condition met\n"


def manifest(**spec: Any) -> dict[str, Any]:
    content = {"backoffLimit": 3, "template": template(run_for="60s")} | spec
    return {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": "train"}, "spec": content}


def managers(value: dict[str, Any]) -> set[tuple[str, str]]:
    """Who owns fields of an object, and of which subresource."""
    return {(entry["manager"], entry.get("subresource", "")) for entry in value["metadata"]["managedFields"]}


def test_applying_again_never_conflicts_with_the_operator(workspace: Workspace) -> None:
    apply = ("apply", "--server-side", "--filename", "-")
    kubectl(workspace, *apply, stdin=manifest())
    workspace.wait_for_phase("train", Phase.RUNNING)
    kubectl(workspace, *apply, stdin=manifest(backoffLimit=4, suspend=True))
    workspace.wait_for_phase("train", Phase.SUSPENDED)
    kubectl(workspace, *apply, stdin=manifest(backoffLimit=4))
    workspace.wait_for_phase("train", Phase.RUNNING)
    exported = json.loads(kubectl(workspace, "get", "dlj", "train", "-o", "json"))
    del exported["metadata"]["resourceVersion"]
    kubectl(workspace, *apply, stdin=exported)
    job = workspace.client.get(workspace.dljobs("train"))
    assert managers(job) == {("kubectl", ""), ("cotenant-operator", "status")}
    assert "finalizers" not in job["metadata"]
    assert "annotations" not in job["metadata"]


def test_what_the_operator_makes_is_its_own(workspace: Workspace) -> None:
    model = workspace.graph("graph")
    workspace.dljob("train", model=model, template=template(run_for="60s"))
    workspace.dljob("serve", workloadType="Inference", model=model, template=template(run_for=""))
    for name in ("train", "serve"):
        workspace.wait_for_phase(name, Phase.RUNNING)
    for path in (workspace.jobs(), workspace.deployments()):
        (made,) = workspace.client.items(path)
        assert {manager for manager, subresource in managers(made) if not subresource} == {"cotenant-operator"}


def test_every_condition_at_every_moment_keeps_the_rules(workspace: Workspace) -> None:
    path = f"{workspace.dljobs()}?watch=true&timeoutSeconds=1"
    before = workspace.client.get(workspace.dljobs())["metadata"]["resourceVersion"]
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for="1s"))
    workspace.wait_for_phase("train", Phase.SUCCEEDED)
    server = workspace.installation.cluster
    lines = server.kubectl("get", "--raw", f"{path}&resourceVersion={before}").splitlines()
    seen: dict[str, dict[str, Any]] = {}
    for value in [json.loads(line)["object"] for line in lines]:
        for condition in value.get("status", {}).get("conditions", []):
            check(condition, seen.get(condition["type"]), value["metadata"]["generation"])
            seen[condition["type"]] = condition
    assert set(seen) == {"Predicted", "Queued", "Placed", "Ready", "Complete"}


def check(now: dict[str, Any], before: dict[str, Any] | None, generation: int) -> None:
    """One condition by the rules of metav1.Condition, and beside the one before it."""
    assert set(now) == {"type", "status", "reason", "message", "observedGeneration", "lastTransitionTime"}
    assert now["status"] in ("True", "False", "Unknown")
    assert REASON.match(now["reason"])
    assert len(now["reason"]) <= 1024
    assert len(now["message"]) <= 32768
    assert 1 <= now["observedGeneration"] <= generation
    if before is not None:
        assert now["lastTransitionTime"] >= before["lastTransitionTime"]
        if now["status"] == before["status"]:
            assert now["lastTransitionTime"] == before["lastTransitionTime"]


def test_an_events_reason_and_message_are_those_of_the_condition(workspace: Workspace) -> None:
    workspace.dljob("fails", backoffLimit=0, template=FAILS | {"spec": template()["spec"]})
    workspace.wait_for_phase("fails", Phase.FAILED)
    failed = workspace.condition("fails", "Failed")

    def told() -> bool:
        path = clients.path_of("events", namespace=workspace.namespace)
        events = workspace.client.items(path, fieldSelector="involvedObject.kind=DLJob")
        return any((event["reason"], event["message"]) == (failed["reason"], failed["message"]) for event in events)

    waiting.wait_until(told, "the event", SECONDS)
