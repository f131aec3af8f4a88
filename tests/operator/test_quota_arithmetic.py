"""What quotas charge and leave: against a reference that counts container by container, and rule by rule."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_operator.life import quota
from cotenant_operator.state import defaults, demand, quotas

Json = dict[str, Any]

RESOURCES = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "cotenant.dev/gpu-share")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9).map(str), max_size=4)
CONTAINERS = st.fixed_dictionaries({"requests": AMOUNTS, "limits": AMOUNTS}).map(lambda found: {"resources": found})
INIT_CONTAINERS = st.tuples(CONTAINERS, st.booleans()).map(
    lambda found: found[0] | ({"restartPolicy": "Always"} if found[1] else {})
)
SPECS = st.fixed_dictionaries(
    {
        "containers": st.lists(CONTAINERS, min_size=1, max_size=3),
        "initContainers": st.lists(INIT_CONTAINERS, max_size=4),
        "overhead": AMOUNTS,
    }
)
SHARE = "requests.cotenant.dev/gpu-share"


def read(spec: Json, *, pods: int = 1) -> demand.Demand:
    return demand.read({"spec": spec}, pods=pods)


def of_one(container: Json, resource: str, *, limit: bool) -> int:
    """What one container asks for, or its limit."""
    resources = container["resources"]
    text = resources["limits"].get(resource, 0)
    return int(text if limit else resources["requests"].get(resource, text))


def most_at_a_time(spec: Json, resource: str, *, limit: bool) -> int:
    """The most that the containers hold in any phase of a pod's life: while each init container runs, and after."""
    sidecars = [one for one in spec["initContainers"] if one.get("restartPolicy") == "Always"]
    after = sum(of_one(one, resource, limit=limit) for one in [*spec["containers"], *sidecars])
    phases = [after]
    for position, one in enumerate(spec["initContainers"]):
        before = [other for other in spec["initContainers"][:position] if other.get("restartPolicy") == "Always"]
        phases.append(sum(of_one(other, resource, limit=limit) for other in [*before, one]))
    return max(phases)


@given(SPECS)
def test_a_pod_is_charged_for_the_most_that_it_holds_at_a_time(spec: Json) -> None:
    charged = read(spec).amounts
    for resource in RESOURCES:
        expected = most_at_a_time(spec, resource, limit=False) + int(spec["overhead"].get(resource, 0))
        assert charged.get(f"requests.{resource}", 0) == expected, resource
    for resource in RESOURCES[:3]:
        limit = most_at_a_time(spec, resource, limit=True)
        expected = limit + int(spec["overhead"].get(resource, 0)) if limit else 0
        assert charged.get(f"limits.{resource}", 0) == expected, resource


@given(SPECS)
def test_names_without_a_prefix_are_those_of_requests(spec: Json) -> None:
    charged = read(spec).amounts
    for resource in RESOURCES[:4]:
        assert charged.get(resource) == charged.get(f"requests.{resource}")
    assert "cotenant.dev/gpu-share" not in charged
    assert "limits.cotenant.dev/gpu-share" not in charged


def test_every_pod_counts_as_one() -> None:
    charged = read({"containers": []}).amounts
    assert charged == {"pods": 1, "count/pods": 1}


def test_resources_of_the_whole_pod_stand_before_those_of_its_containers() -> None:
    containers = [{"resources": {"requests": {"cpu": "3", "memory": "1Gi"}, "limits": {"cpu": "4"}}}]
    spec = {"containers": containers, "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}}
    charged = read(spec).amounts
    assert (charged["requests.cpu"], charged["limits.cpu"]) == (Decimal("0.5"), Decimal(2))
    assert charged["requests.memory"] == 2**30


def test_requests_that_the_api_server_derives_from_limits_of_the_whole_pod_are_left_to_it() -> None:
    spec = {"containers": [{"resources": {"requests": {"cpu": "3"}}}], "resources": {"limits": {"cpu": "2"}}}
    assert "requests.cpu" not in read(spec).amounts


def test_a_quantity_that_cannot_be_read_is_left_to_the_api_server() -> None:
    spec = {"containers": [{"resources": {"requests": {"cpu": "many", "memory": "1Gi"}}}]}
    assert read(spec).amounts.keys() == {"pods", "count/pods", "memory", "requests.memory"}


def a_quota(name: str = "q", *, hard: Json, used: Json | None = None, **spec: Any) -> quotas.Quota:
    metadata = {"namespace": "team", "name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    counted = dict.fromkeys(hard, "0") if used is None else used
    return quotas.read(
        {"metadata": metadata, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": counted}}
    )


def gpu_pods(pods: int = 4, share: int = 40, **spec: Any) -> demand.Demand:
    container = {"resources": {"limits": {"cotenant.dev/gpu-share": str(share)}}}
    return read({"containers": [container], **spec}, pods=pods)


def lack(asked: demand.Demand, *found: quotas.Quota) -> str:
    return str(quota.Room(found).lack(asked, asked.pods) or "")


@given(st.integers(1, 9), st.integers(1, 100), st.integers(0, 900), st.integers(0, 900))
def test_pods_fit_exactly_where_their_sum_is_left(pods: int, share: int, hard: int, used: int) -> None:
    limited = a_quota(hard={SHARE: str(hard)}, used={SHARE: str(used)})
    assert (lack(gpu_pods(pods, share), limited) == "") == (used + pods * share <= hard)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50)), max_size=5), st.integers(0, 400))
def test_what_is_promised_to_some_is_not_left_for_others(promised: list[tuple[int, int]], hard: int) -> None:
    room, left = quota.Room([a_quota(hard={SHARE: str(hard)})]), hard
    for pods, share in promised:
        fits = room.lack(gpu_pods(pods, share), pods) is None
        assert fits == (pods * share <= left)
        room.promise(gpu_pods(pods, share), pods)
        left -= pods * share


def test_the_lack_is_said_in_words() -> None:
    limited = a_quota("team-gpus", hard={SHARE: "400"}, used={SHARE: "280"})
    assert lack(gpu_pods(), limited) == f"{SHARE}: 4 pods ask for 160, 120 of 400 are left in ResourceQuota team-gpus"


def test_bytes_are_said_in_their_units() -> None:
    container = {"resources": {"requests": {"memory": "8Gi"}}}
    limited = a_quota(hard={"requests.memory": "20Gi"}, used={"requests.memory": "7168Mi"})
    said = lack(read({"containers": [container]}, pods=2), limited)
    assert said == "requests.memory: 2 pods ask for 16Gi, 13Gi of 20Gi are left in ResourceQuota q"


def test_a_quota_that_was_lowered_below_its_use_leaves_nothing() -> None:
    assert "0 of 200 are left" in lack(gpu_pods(), a_quota(hard={SHARE: "200"}, used={SHARE: "300"}))


def test_a_limit_that_has_not_been_counted_yet_is_left_to_the_api_server() -> None:
    assert lack(gpu_pods(), a_quota(hard={SHARE: "1"}, used={})) == ""


@pytest.mark.parametrize(
    ("scope", "template", "holds"),
    [
        ({"scopes": ["BestEffort"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, False),
        ({"scopes": ["NotBestEffort"]}, {"initContainers": [{"resources": {"requests": {"cpu": "1"}}}]}, True),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 0}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["NotTerminating", "NotBestEffort"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
        ({"scopes": ["PriorityClass"]}, {}, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, False),
        ({"scopes": ["VolumeAttributesClass"]}, {}, False),
    ],
)
def test_a_quota_charges_only_pods_of_all_its_scopes(scope: Json, template: Json, holds: bool) -> None:
    assert (lack(gpu_pods(**template), a_quota(hard={SHARE: "1"}, **scope)) != "") == holds


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("term", "holds"),
    [({"namespaces": ["other"]}, True), ({"namespaceSelector": {}}, True), ({"topologyKey": "zone"}, False)],
)
@pytest.mark.parametrize("required", [True, False])
def test_affinity_to_pods_of_other_namespaces_is_a_scope(kind: str, term: Json, holds: bool, required: bool) -> None:
    weighted = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]} if required else weighted
    asked = gpu_pods(affinity={kind: affinity})
    assert (lack(asked, a_quota(hard={SHARE: "1"}, scopes=["CrossNamespacePodAffinity"])) != "") == holds


@pytest.mark.parametrize(
    ("operator", "values", "name", "holds"),
    [
        ("In", ["high", "low"], "low", True),
        ("In", ["high"], "", False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["high"], "high", False),
        ("NotIn", ["high"], "", True),
        ("Exists", [], "low", True),
        ("DoesNotExist", [], "low", False),
        ("DoesNotExist", [], "", True),
        ("Like", ["high"], "high", False),
    ],
)
def test_priority_classes_are_selected_as_labels_are(operator: str, values: list[str], name: str, holds: bool) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    limited = a_quota(hard={SHARE: "1"}, scopeSelector={"matchExpressions": [expression]})
    assert (lack(gpu_pods(priorityClassName=name), limited) != "") == holds


def test_defaults_of_limit_ranges_fill_in_what_containers_leave_open() -> None:
    found = defaults.read(
        [
            {"metadata": {"name": "b"}, "spec": {"limits": [item("Container", requests={"cpu": "9", "memory": "1"})]}},
            {"metadata": {"name": "a"}, "spec": {"limits": [item("Container", requests={"cpu": "1"}, cpu="2")]}},
            {"metadata": {"name": "c"}, "spec": {"limits": [item("Pod", requests={"cpu": "99"}), {"type": "Pod"}]}},
        ]
    )
    open_one: Json = {"containers": [{}, {"resources": {"limits": {"cpu": "5"}}}], "initContainers": [{}]}
    asked = read(open_one).with_defaults(found)
    named = ("requests.cpu", "limits.cpu", "requests.memory")
    assert [int(asked.amounts[name]) for name in named] == [6, 7, 2]
    assert read(open_one).amounts.get("requests.memory") is None
    assert not asked.best_effort


@given(SPECS)
def test_no_defaults_change_nothing(spec: Json) -> None:
    assert read(spec).with_defaults(defaults.NONE) == read(spec)
    assert read(spec).with_defaults(defaults.Defaults(requests={"cpu": "0"})).amounts == read(spec).amounts


def item(kind: str, *, requests: Json, **limits: str) -> Json:
    return {"type": kind, "defaultRequest": requests, "default": limits}
