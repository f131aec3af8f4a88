"""Pods that ask for a share on a real node, and what their containers say of themselves."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cotenant_api import names, placement
from cotenant_api.names import GPUUID
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.installation import Installation
from cotenant_e2e.node import agents, machine, parts
from cotenant_e2e.node.agents import GPUs
from cotenant_e2e.watching import Follower

SECONDS: Final = 120
GRACE_SECONDS: Final = 5
THREADS: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MEMORY: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"
CONTAINER_PIPE: Final = "/run/cotenant/mps"
CHECKPOINT: Final = parts.KUBELET_DIRECTORY / "device-plugins" / "kubelet_internal_checkpoint"
FAST_SECONDS: Final = 0.002

SHOW: Final = (
    "env | sed 's/^/env /'; ls /dev | sed 's/^/device /'; "
    f"sed -n 's|^[^ ]* [^ ]* [^ ]* \\([^ ]*\\) {CONTAINER_PIPE} .*|pipe \\1|p' /proc/self/mountinfo; echo shown; "
)
"""What a container prints first: its environment, its devices, and which folder its pipe is."""
GPU: Final = (
    "index=$(ls /dev | sed -n 's/^nvidia//p' | sed -n '/^[0-9]*$/p'); "
    "export COTENANT_STANDIN_GPU=$(cat /run/cotenant-standin/gpus/$index/uuid); "
)
"""A real driver sees of the GPUs those whose device it has; the stand-in is told which that is."""
HOLD: Final = "exec cuda-client --hold 100000"
RUN: Final = "exec cuda-client --memory 1"
_LOG_LINE: Final = re.compile(r"^\S+ stdout [FP] (.*)$")


@dataclass(frozen=True)
class Shown:
    """What one container has printed. `gpu`: whose pipe it has; `client`: what its CUDA program says it has."""

    environment: Mapping[str, str]
    devices: frozenset[str]
    gpu: GPUUID | None
    client: Json


@dataclass(frozen=True)
class Allocation:
    """One entry of the agent's ledger. `pod_uid`: of its grant; None: not granted yet."""

    nonce: str
    tokens: frozenset[str]
    pod_uid: str | None

    @property
    def specification(self) -> Path:
        """The file that makes the container start."""
        return machine.CDI / f"cotenant.dev-share_{self.nonce}.json"


class Tenants:
    """One namespace of the cluster with a real node."""

    def __init__(self, installation: Installation, gpus: GPUs, namespace: str) -> None:
        self.installation, self.gpus, self.namespace = installation, gpus, namespace
        self.cluster, self.client = installation.cluster, installation.cluster.client
        self._follower = Follower(self.client, self.pods())
        self._seen: dict[str, Json] = {}

    def __enter__(self) -> Self:
        # A kube-scheduler that was without the API server for long has ended itself; kubelet would start it again.
        self.cluster.revive()
        # Some images hold nothing: their programs are in folders of the host.
        metadata = {"name": self.namespace, "labels": {f"{names.GROUP}/pod-security": "privileged"}}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self.client.create(clients.path_of("namespaces"), body)
        account = clients.path_of("serviceaccounts", namespace=self.namespace, name="default")
        waiting.wait_until(lambda: self.client.find(account), f"account of {self.namespace}", SECONDS)
        self._follower.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        violations = self.violations()
        self.client.delete(self.jobs(), propagationPolicy="Background")
        self.client.delete(self.pods())
        waiting.wait_until(lambda: not self.client.items(self.pods()), f"no pods in {self.namespace}", SECONDS)
        self._follower.__exit__(kind, error, trace)
        self.client.delete(clients.path_of("namespaces", name=self.namespace))
        if kind is None and violations:
            raise AssertionError("\n".join(violations))

    # --- submitting

    def create(self, name: str, share: int = 30, **more: Any) -> Json:
        """Create a pod. `more`: see `template`."""
        template = self.template(share, **more)
        template["metadata"]["name"] = name
        return self.client.create(self.pods(), {"apiVersion": "v1", "kind": "Pod"} | template)

    def create_job(self, name: str, share: int = 30, **more: Any) -> Json:
        """Create a Job of one pod. `more`: see `template`."""
        body = {"metadata": {"name": name}, "spec": {"backoffLimit": 3, "template": self.template(share, **more)}}
        return self.client.create(self.jobs(), {"apiVersion": "batch/v1", "kind": "Job"} | body)

    @staticmethod
    def template(
        share: int,
        *,
        script: str = HOLD,
        annotations: Mapping[str, str] | None = None,
        mounts: Sequence[Json] = (),
        **spec: Any,
    ) -> Json:
        """Metadata and spec of a pod whose own environment asks for more than any share."""
        container = {
            "name": "main",
            "image": agents.CLIENT_IMAGE,
            "securityContext": agents.CLIENT_USER,
            "command": ["sh", "-c", SHOW + GPU + script],
            "env": [{"name": THREADS, "value": "100"}, {"name": MEMORY, "value": "0=999999M"}],
            "resources": {"limits": {names.GPU_SHARE: str(share)}},
            "volumeMounts": list(mounts),
        }
        defaults = {
            "dnsPolicy": "Default",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "automountServiceAccountToken": False,
        }
        metadata = {"annotations": dict(annotations or {})}
        return {"metadata": metadata, "spec": defaults | {"containers": [container]} | spec}

    def delete(self, name: str) -> None:
        """Delete a pod; returns when it is gone."""
        self.client.delete(self.pods(name))
        waiting.wait_until(lambda: self.client.find(self.pods(name)) is None, f"{name} gone", SECONDS)

    # --- asking

    def pod(self, name: str) -> Json:
        """A pod as it is."""
        return self.client.get(self.pods(name))

    def wait(self, name: str, what: str, condition: Callable[[Json], Any], *, seconds: float = SECONDS) -> Json:
        """The pod when a condition of it holds; what its events say, when it never does."""
        try:
            waiting.wait_until(lambda: condition(self.pod(name)), f"{self.namespace}/{name} {what}", seconds)
        except waiting.NotReadyError as error:
            raise waiting.NotReadyError(f"{error}; {summary(self.pod(name))}; {self.events(name)}") from error
        return self.pod(name)

    def running(self, name: str) -> Json:
        """The pod once its container runs and has shown itself."""
        return self.wait(name, "running", lambda pod: _state(pod, "running") and self.shown(pod))

    def succeeded(self, name: str) -> Json:
        """The pod once it has succeeded."""

        def ended(pod: Json) -> bool:
            if pod["status"].get("phase") == "Failed":
                raise waiting.NotReadyError(f"{name} failed")
            return bool(pod["status"].get("phase") == "Succeeded")

        return self.wait(name, "succeeded", ended)

    def shown(self, pod: Json, *, restart: int | None = None) -> Shown | None:
        """What the pod's container says of itself; None: it has not said everything. `restart`: default the newest."""
        files = self.logs(pod)
        if restart is not None:
            files = [file for file in files if file.name == f"{restart}.log"]
        return parse(files[-1].read_text(errors="replace")) if files else None

    def lines(self, pod: Json) -> list[str]:
        """What the pod's newest container has printed."""
        return printed(self.logs(pod)[-1].read_text(errors="replace"))

    def logs(self, pod: Json) -> list[Path]:
        """The log files of the pod's container, the oldest first."""
        metadata = pod["metadata"]
        folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        logs = self.gpus.node.layout.folder / "pod-logs" / folder / "main"
        return sorted(logs.glob("*.log"), key=lambda file: int(file.stem))

    def events(self, name: str) -> list[str]:
        """Reasons and messages of a pod's events."""
        path = clients.path_of("events", namespace=self.namespace)
        events = self.client.items(path, fieldSelector=f"involvedObject.name={name}")
        return [f"{event['reason']}: {event['message']}" for event in events]

    def of_job(self, name: str) -> list[Json]:
        """The pods of a Job, the oldest first."""
        found = self.client.items(self.pods(), labelSelector=f"job-name={name}")
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def refusal(self, pod: Json) -> str:
        """Why the node refuses a pod; empty where it does not."""
        refused = self.gpus.status().get("refused") or []
        return next((str(each["reason"]) for each in refused if each["podUID"] == pod["metadata"]["uid"]), "")

    def ledger(self) -> list[Allocation]:
        """What the agent remembers on disk, the newest last."""
        try:
            document = json.loads((self.gpus.agent_state / "ledger.json").read_text())
        except FileNotFoundError:
            return []
        return [
            Allocation(each["nonce"], frozenset(each["tokens"]), (each.get("grant") or {}).get("podUID"))
            for each in document["allocations"]
        ]

    def recorded(self, allocation: Allocation) -> bool:
        """Whether kubelet has written down what it was answered: Allocate is over."""
        try:
            document = json.loads(CHECKPOINT.read_text())
        except (FileNotFoundError, ValueError):
            return False
        entries = document["Data"]["PodDeviceEntries"] or []
        held = [{token for tokens in each["DeviceIDs"].values() for token in tokens} for each in entries]
        return set(allocation.tokens) in held

    def next_allocation(self, known: list[Allocation], condition: Callable[[Allocation], bool]) -> Allocation:
        """A new entry of the ledger as soon as the condition holds of it."""
        before = {each.nonce for each in known}
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for each in self.ledger():
                if each.nonce not in before and condition(each):
                    return each
            time.sleep(FAST_SECONDS)
        raise waiting.NotReadyError("no new allocation in the agent's ledger")

    def violations(self) -> list[str]:
        """Every container of this namespace that has had other limits than those of its own pod."""
        for event in self._follower.events(seconds=0.5):
            self._seen[event.object["metadata"]["uid"]] = event.object
        return [broken for pod in self._seen.values() for broken in self._broken(pod)]

    def _broken(self, pod: Json) -> list[str]:
        booked = placement_of(pod)
        found = []
        for log in self.logs(pod):
            shown = parse(log.read_text(errors="replace"))
            if shown is None:
                continue
            if not matches(shown, booked):
                found.append(f"{pod['metadata']['name']}/{log.name}: {shown}, not {booked}")
        return found

    # --- paths

    def pods(self, name: str = "") -> str:
        """Path of the pods, or of one."""
        return clients.path_of("pods", namespace=self.namespace, name=name)

    def jobs(self) -> str:
        """Path of the Jobs."""
        return clients.path_of("jobs", group="batch", namespace=self.namespace)


def printed(text: str) -> list[str]:
    """The lines of a container; `text`: a log file of kubelet's."""
    return [found.group(1) for line in text.splitlines() if (found := _LOG_LINE.match(line))]


def parse(text: str) -> Shown | None:
    """What a container printed; `text`: a log file of kubelet's. None: not everything yet."""
    lines = printed(text)
    client = next((line for line in lines if line.startswith("{")), None)
    if client is None:
        return None
    words = [line.split(" ", 1) for line in lines[: lines.index("shown")] if " " in line]
    variables = (rest.split("=", 1) for kind, rest in words if kind == "env" and "=" in rest)
    pipes = [Path(rest).parent.name for kind, rest in words if kind == "pipe"]
    return Shown(
        environment=dict(variables),
        devices=frozenset(rest for kind, rest in words if kind == "device"),
        gpu=GPUUID(pipes[0]) if pipes else None,
        client=json.loads(client),
    )


def placement_of(pod: Json) -> placement.Placement | None:
    """A pod's placement; None before it is bound."""
    text = pod["metadata"].get("annotations", {}).get(names.PLACEMENT)
    return placement.Placement.model_validate_json(text) if text else None


def expected(booked: placement.Placement) -> dict[str, str]:
    """The environment that a container on one shared GPU must have."""
    (gpu,) = booked.gpus
    processes = booked.processes_per_gpu
    return {
        THREADS: str(max(1, gpu.active_thread_percentage // processes)),
        MEMORY: f"0={gpu.memory_mib // processes}M",
        PIPE: CONTAINER_PIPE,
        "CUDA_MPS_CLIENT_PRIORITY": str(gpu.client_priority),
        "NVIDIA_VISIBLE_DEVICES": "void",
    }


def matches(shown: Shown, booked: placement.Placement | None) -> bool:
    """Whether a container has exactly what its pod was booked for."""
    if booked is None:
        return False
    uuid = booked.gpus[0].uuid
    if booked.backend is placement.Backend.WHOLE:
        return shown.gpu is None and shown.client["gpu"] == uuid and not shown.client["mps"]
    wanted = expected(booked)
    says = shown.client
    enforced = says["mps"] and (says["gpu"], str(says["threadPercentage"])) == (uuid, wanted[THREADS])
    held = f"0={says['memoryLimitMiB']}M" == wanted[MEMORY]
    return bool(enforced and held and shown.gpu == uuid and wanted.items() <= shown.environment.items())


def summary(pod: Json) -> str:
    """What a pod's status says, in a few words."""
    states = [each["state"] for each in pod["status"].get("containerStatuses") or []]
    return f"{pod['status'].get('phase')} {pod['status'].get('message', '')} {states}"


def _state(pod: Json, wanted: str) -> bool:
    statuses = pod["status"].get("containerStatuses") or []
    return bool(statuses) and all(wanted in status["state"] for status in statuses)
