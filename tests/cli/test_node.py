"""`cotenant node`: how a node stands, and what draining it would do; nothing is changed."""

from typing import Any

import pytest

from cli import kit
from cotenant_api import errors, names, tables
from cotenant_cli.reading import cluster
from cotenant_cli.views import node, node_lines


def seen(name: str = "n1", **objects: Any) -> cluster.Seen:
    return cluster.of_node(kit.lists(**objects), name=name)


def show(**objects: Any) -> str:
    found = node.shown(seen(**objects), name="n1", now=kit.NOW)
    return "\n".join(node_lines.shown(found, tables.Look()))


def drain(*pods: kit.Object) -> node.Drain:
    return node.drain(seen(pods=pods, nodes=[kit.node()], gpunodes=[kit.gpunode(kit.gpu())]), name="n1", now=kit.NOW)


FAULT = {"id": "1", "time": kit.BEFORE, "xid": 31, "culpritPodUID": "uid-bad", "victimPodUIDs": ["uid-a", "uid-b"]}

SHOWN = """\
Name:       n1
Agent:      AgentReady: told
Shares:     55 of 200 hundredths of a GPU are booked
Cordoned:   yes: it takes no pods
Taints:     gpu=yes:NoSchedule
Versions:   agent 0.1.0, driver 570.1

NODE   GPU   MODEL        TENANTS   PREDICTED%   BOOKED%    UTIL%   MIB-BOOKED   MIB-USED     MIB   HEALTH
n1       0   NVIDIA-A10         1           40        55   <none>         4000     <none>   23028   Healthy

NODE   GPU   NAMESPACE   POD   PREDICTED%   UPPER%   BOOKED%   ALONE%   MIB-PREDICTED   MIB-BOOKED   MIB-USED
n1       0   team        a             40       55        55   <none>            4000         4000     <none>

REFUSED-POD-UID   REASON
uid-x             no MPS

GPU   LAST-FAULT             XID   CULPRIT-POD-UID   VICTIMS
  0   2026-01-31T10:56:00Z    31   uid-bad                 2"""


def test_a_node_shows_its_agent_gpus_tenants_refusals_and_faults() -> None:
    told = kit.gpunode(
        kit.gpu(lastFault=FAULT),
        agentVersion="0.1.0",
        driverVersion="570.1",
        refused=[{"podUID": "uid-x", "reason": "no MPS"}],
    )
    other = kit.gpunode(kit.gpu("GPU-9"), name="n2")
    host = kit.node(unschedulable=True, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    assert show(pods=[kit.pod("a", on="GPU-0")], nodes=[host, kit.node("n2")], gpunodes=[told, other]) == SHOWN


def test_a_node_without_an_agent_says_so() -> None:
    assert "Agent:      NoAgent: no node agent tells of it" in show(nodes=[kit.node()])


def test_a_gpunode_whose_node_has_gone_is_shown_still() -> None:
    assert "0 of 0 hundredths" in show(gpunodes=[kit.gpunode(kit.gpu())])


def test_a_node_that_is_not_there_is_refused_with_the_remedy() -> None:
    with pytest.raises(errors.NotFoundError, match=r"NODE: 'n9'.*kubectl get nodes,gpunodes"):
        node.shown(seen("n9", nodes=[kit.node()]), name="n9", now=kit.NOW)


GANG = {names.GANG: '{"v":1,"name":"g","size":2}'}


@pytest.mark.parametrize(
    ("pod", "after"),
    [
        (kit.pod("a", on="GPU-0", owner="Job"), node.After.QUEUED_AGAIN),
        (kit.pod("a", on="GPU-0", owner="Job", notes=GANG), node.After.GANG_STARTS_AGAIN),
        (kit.pod("a", on="GPU-0", owner="DaemonSet"), node.After.STAYS),
        (kit.pod("a", on="GPU-0"), node.After.GONE),
    ],
)
def test_what_becomes_of_an_evicted_pod_is_said(pod: kit.Object, after: node.After) -> None:
    (leaving,) = drain(pod).pods
    assert (leaving.after, leaving.gpus, leaving.share) == (after, (0,), 55)


def test_only_a_pod_that_nobody_makes_again_needs_force() -> None:
    _, command, _ = drain(kit.pod("a", on="GPU-0", owner="Job")).commands
    assert command == "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data"
    _, forced, _ = drain(kit.pod("a", on="GPU-0")).commands
    assert forced == f"{command} --force"


def test_pods_that_wait_or_have_ended_do_not_have_to_go() -> None:
    found = drain(kit.pod("waits"), kit.pod("over", on="GPU-0", status={"phase": "Succeeded"}))
    assert found.pods == ()
    assert next(iter(node_lines.drain(found, tables.Look()))) == "No pod on n1 has a share of a GPU."


def test_no_word_of_others_reaches_a_terminal_as_more_than_text() -> None:
    told = kit.gpunode(driverVersion=kit.HOSTILE, refused=[{"podUID": "x", "reason": kit.HOSTILE}])
    said = show(nodes=[kit.node(taints=[{"key": kit.HOSTILE, "effect": "NoExecute"}])], gpunodes=[told])
    assert said.count("owned") == 3
    assert all(line.isprintable() for line in said.splitlines())


def test_the_documents_keep_their_keys() -> None:
    shown = node.shown(seen(nodes=[kit.node()]), name="n1", now=kit.NOW).to_object()
    assert " ".join(sorted(shown)) == (
        "agentVersion bookedShares containerRuntime cordoned cudaVersion driverVersion faults gpus message name notes "
        "ready reason refused shares taints taken v"
    )
    drained = drain(kit.pod("a", on="GPU-0")).to_object()
    assert " ".join(sorted(drained)) == "commands name notes pods taken v"
    assert " ".join(sorted(drained["pods"][0])) == "after dljob gpus namespace pod share"
