"""ResourceQuotas in a cluster in memory: what admission, the quota controller and the Job controller do with them.

Counts pods and what their containers ask for; no scopes, no init containers.
"""

import copy
import itertools
from decimal import Decimal
from functools import partial
from typing import Any, Final

from cotenant_api import quantity
from operator_kit.server import Server

Json = dict[str, Any]

_REVISION: Final = "deployment.kubernetes.io/revision"


def quota(name: str = "team-gpus", **hard: str) -> Json:
    """A ResourceQuota; `gpu_share` stands for `requests.cotenant.dev/gpu-share`."""
    limits = {key.replace("gpu_share", "requests.cotenant.dev/gpu-share"): text for key, text in hard.items()}
    return {
        "metadata": {"name": name},
        "spec": {"hard": limits},
        "status": {"hard": limits, "used": dict.fromkeys(limits, "0")},
    }


def resize(server: Server, name: str = "team-gpus", **hard: str) -> None:
    """What an administrator does, and the quota controller after it."""
    wanted = quota(name, **hard)["spec"]["hard"]

    def edit(value: Json) -> None:
        value["spec"] = {"hard": wanted}
        value["status"] = {**value["status"], "hard": wanted}

    server.change("resourcequotas", name, edit)


def limit_range(name: str = "team-defaults", *, requests: Json, limits: Json) -> Json:
    """A LimitRange, as the API server stores it."""
    item = {"type": "Container", "defaultRequest": requests, "default": limits}
    return {"metadata": {"name": name}, "spec": {"limits": [item]}}


def fill_in(server: Server, pod: Json) -> None:
    """What admission does: the defaults of the LimitRanges go into containers that leave them open."""
    items = [item for one in server.all("limitranges") for item in one["spec"]["limits"]]
    containers = copy.deepcopy(pod["spec"]["containers"])
    for container, item in itertools.product(containers, items):
        resources = container.setdefault("resources", {})
        given = resources.get("limits") or {}
        resources["requests"] = {**item["defaultRequest"], **given, **(resources.get("requests") or {})}
        resources["limits"] = {**item["default"], **given}
    pod["spec"]["containers"] = containers


def refuse(server: Server, pod: Json) -> str | None:
    """Charge every quota for a pod; the words of the one that refuses it, and then nothing is charged."""
    fill_in(server, pod)
    found = server.all("resourcequotas")
    for one in found:
        hard, used = one["status"]["hard"], one["status"]["used"]
        for resource, amount in _asked(pod).items():
            if resource in hard and _number(used[resource]) + amount > _number(hard[resource]):
                numbers = f"requested: {resource}={amount}, used: {resource}={used[resource]}"
                name = f"pods {pod['metadata']['name']!r}".replace("'", '"')
                words = f"exceeded quota: {one['metadata']['name']}, {numbers}, limited: {resource}={hard[resource]}"
                return f"Error creating: {name} is forbidden: {words}"
    for one in found:
        _charge(server, one, _asked(pod))
    return None


def recount(server: Server) -> None:
    """What the quota controller does: count the pods that have not ended."""
    living = [pod for pod in server.all("pods") if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    for one in server.all("resourcequotas"):
        empty = {**one, "status": {**one["status"], "used": dict.fromkeys(one["status"]["hard"], "0")}}
        total = {name: sum(_asked(pod).get(name, Decimal(0)) for pod in living) for name in one["status"]["hard"]}
        _charge(server, empty, {name: Decimal(amount) for name, amount in total.items()})


def tell(server: Server, owner: Json, message: str, *, time: str) -> None:
    """The event of a Job's or ReplicaSet's controller; told again, it is the same with a later time."""
    name = f"{owner['metadata']['name']}.failed-create"
    if server.find("events", name) is not None:
        server.change("events", name, lambda event: event.update(lastTimestamp=time, message=message))
        return
    about = {"uid": owner["metadata"]["uid"], "name": owner["metadata"]["name"]}
    event = {"metadata": {"name": name}, "involvedObject": about, "reason": "FailedCreate", "message": message}
    server.put("events", {**event, "firstTimestamp": time, "lastTimestamp": time})


def fail_replicas(
    server: Server, deployment: Json, message: str | None, *, time: str, rolled_out: bool = False
) -> None:
    """What the controllers of ReplicaSets and Deployments say; None: the present template's pods are there.

    Neither writes time or words anew while it says the same, and a Deployment says it for former ReplicaSets, too.

    Args:
        server: keeps the objects.
        deployment: as it is.
        message: why a pod of its present template is refused.
        time: now.
        rolled_out: whether no former template is to have pods any more.
    """
    if message is None and not (deployment.get("status") or {}).get("conditions"):
        return
    *former, present = _replica_sets(server, deployment)
    if message is not None:
        tell(server, present, message, time=time)
    ended = [*former, present] if rolled_out else [present]
    for each in [present] if message is not None else ended:
        server.change("replicasets", each["metadata"]["name"], partial(_say, message, time))
    sets = _replica_sets(server, deployment)
    failing = next((said for each in reversed(sets) if (said := _said(each)) is not None), None)

    def edit(value: Json) -> None:
        value.setdefault("status", {})["observedGeneration"] = value["metadata"]["generation"]
        _say(failing, time, value)

    server.change("deployments", deployment["metadata"]["name"], edit)


def _replica_sets(server: Server, deployment: Json) -> list[Json]:
    """A Deployment's, that of its present template last; it is made where there is none, and gets the next revision."""
    uid, template = deployment["metadata"]["uid"], deployment["spec"]["template"]
    found = [each for each in server.all("replicasets") if each["metadata"]["ownerReferences"][0]["uid"] == uid]
    found.sort(key=_revision)
    present = next((each for each in found if each["spec"]["template"] == template), None)
    if present is not None and present == found[-1]:
        return found
    revision = 1 + max((_revision(each) for each in found), default=0)
    if present is None:
        present = _make_set(server, deployment, name=f"{deployment['metadata']['name']}-{revision}")
    former = [each for each in found if each["metadata"]["uid"] != present["metadata"]["uid"]]
    annotations = {_REVISION: str(revision)}
    name = present["metadata"]["name"]
    return [
        *former,
        server.change("replicasets", name, lambda value: value["metadata"].update(annotations=annotations)),
    ]


def _make_set(server: Server, deployment: Json, *, name: str) -> Json:
    template, about = deployment["spec"]["template"], deployment["metadata"]
    owner = {"kind": "Deployment", "name": about["name"], "uid": about["uid"], "controller": True}
    metadata = {"name": name, "labels": template["metadata"]["labels"], "ownerReferences": [owner]}
    return server.put("replicasets", {"metadata": metadata, "spec": {"template": template}, "status": {}})


def _revision(replica_set: Json) -> int:
    return int(replica_set["metadata"]["annotations"][_REVISION])


def _said(value: Json) -> str | None:
    """The words of the condition; None: it does not stand."""
    return next((item["message"] for item in value["status"].get("conditions", ())), None)


def _say(message: str | None, time: str, value: Json) -> None:
    """Write the condition, or take it away; what stands stays as it is."""
    status = value["status"]
    if message is None:
        status["conditions"] = []
    elif not status.get("conditions"):
        said = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
        status["conditions"] = [{**said, "lastTransitionTime": time}]


def _charge(server: Server, one: Json, amounts: dict[str, Decimal]) -> None:
    used = one["status"]["used"]
    now = {name: str(_number(text) + amounts.get(name, Decimal(0))) for name, text in used.items()}
    server.change("resourcequotas", one["metadata"]["name"], lambda value: value["status"].update(used=now))


def _asked(pod: Json) -> dict[str, Decimal]:
    total = {"pods": Decimal(1)}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        for name, text in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[f"requests.{name}"] = total.get(f"requests.{name}", Decimal(0)) + _number(text)
    return total


def _number(text: Any) -> Decimal:
    return quantity.parse(text, field="quota")
