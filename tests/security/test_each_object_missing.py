"""Each object of the chart deleted alone: creating a pod that asks for no share never fails.

Where admission keeps what it knows of the object from its start on, the API server is started again. Of what it follows
while it runs, a rule made after the deletion tells when the deletion has been heard of.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
import yaml

from chart import rendering
from cluster import rights
from cluster.workloads import CONTAINER, SECONDS
from cotenant_e2e import charts, components, installation, startup, testing, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

TEAM: Final = "team"
RBAC: Final = "rbac.authorization.k8s.io"
ADMISSION: Final = "admissionregistration.k8s.io"
JUDGING: Final = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
ROLES: Final = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
MONITORING: Final = "monitoring.coreos.com/v1"
"""Objects of kinds that are not on this API server: a cluster has them from elsewhere, if at all."""
PLAIN: Final = {"metadata": {"name": "plain"}, "spec": {"containers": [CONTAINER]}}
Tried = dict[str, str]


def of_the_chart() -> list[Json]:
    """Every object that the chart makes with everything on, and its kinds."""
    kinds = [yaml.safe_load(path.read_text()) for path in sorted((charts.CHART / "crds").glob("*.yaml"))]
    made = {named(one): one for values in ("everything", "observe") for one in rendering.objects(values)}
    return [*kinds, *(one for one in made.values() if one["apiVersion"] != MONITORING)]


def named(item: Json) -> str:
    metadata = item["metadata"]
    return "/".join(filter(None, (item["kind"], metadata.get("namespace", ""), metadata["name"])))


def is_read_at_start(item: Json) -> bool:
    """Whether admission depends on it by way of a kind of ours, which a starting API server may find to be missing."""
    spec = item.get("spec", {})
    return item["kind"] in {"CustomResourceDefinition", "PackingPolicy"} or "paramKind" in spec or "paramRef" in spec


def is_judging(item: Json) -> bool:
    return item["kind"].removesuffix("Binding") in JUDGING and not is_read_at_start(item)


def is_a_right(item: Json) -> bool:
    return item["kind"] in ROLES


@dataclass
class Server:
    """A control plane with the chart's objects on it, and none of its programs."""

    cluster: Cluster
    _rounds: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def put(self, items: Iterable[Json]) -> None:
        """Make them, or make them again as they were."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(items)}
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", "-", stdin=listed)

    def put_again(self, item: Json) -> None:
        """One that was taken. What was of a kind is gone with it."""
        if item["kind"] == "CustomResourceDefinition":
            installation.apply_manifests(self.cluster)
        self.put([item])

    def take(self, item: Json) -> None:
        """Delete one; returns when it is gone."""
        self.cluster.kubectl("delete", "--filename", "-", stdin=item)

    def start_again(self) -> None:
        """The API server, as after an upgrade of the control plane; pods are tried as soon as it is ready."""
        # Told to stop, it would wait for those who watch.
        self.cluster.kill(components.API_SERVER)
        self.cluster.restart(components.API_SERVER)
        assert self.refusals() == []
        self.catch_up()

    def catch_up(self) -> None:
        """Return when admission has heard of all that was written so far: of what is written now, it has."""
        number = next(self._rounds)
        name, path = f"round-{number}", f"{clients.path_of('configmaps', namespace=TEAM)}?dryRun=All"
        rules = rule_for(name)
        self.put(rules)

        def heard() -> bool:
            try:
                made = self.cluster.client.create(path, {"metadata": {"name": name}})
            except clients.APIError as error:
                # Mutation comes first, and the rule that denies tells of it.
                return f"{name} was seen" in error.message
            assert made
            return False

        waiting.wait_until(heard, f"admission of {name}", SECONDS)
        for rule in rules:
            self.cluster.client.delete(path_of(rule))

    def catch_up_on_rights(self) -> None:
        """The same of rights: a new one of each kind is in force."""
        name = f"round-{next(self._rounds)}"
        roles = rights_for(name)
        self.put(roles)

        def may(verb: str, namespace: str) -> bool:
            return rights.may_as(self.cluster, name, verb, "configmaps", namespace=namespace)

        waiting.wait_until(lambda: may("get", "default") and may("list", TEAM), f"rights of {name}", SECONDS)
        for role in roles:
            self.cluster.client.delete(path_of(role))

    def refusals(self) -> list[str]:
        """What stops a plain pod of a tenant's namespace, or of kube-system."""
        found = []
        for namespace in (TEAM, "kube-system"):
            path = clients.path_of("pods", namespace=namespace)
            for asked in (f"{path}?dryRun=All", path):
                try:
                    self.cluster.client.create(asked, PLAIN)
                except clients.APIError as error:
                    found.append(f"{namespace}: {error.message}")
            self.cluster.client.delete(f"{path}/plain", gracePeriodSeconds="0")
        return found


def path_of(item: Json) -> str:
    """Of a rule or a right."""
    plural = f"{item['kind'].lower()}s".replace("policys", "policies")
    metadata = item["metadata"]
    group = item["apiVersion"].partition("/")[0]
    return clients.path_of(plural, group=group, namespace=metadata.get("namespace", ""), name=metadata["name"])


def rule_for(name: str) -> list[Json]:
    """Policies of both kinds, and their bindings, which together deny a ConfigMap and say so."""
    made = f"object.metadata.name == '{name}'"
    matched = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    common: Json = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [matched]}}
    common["matchConditions"] = [{"name": "it", "expression": made}]
    seen = {"expression": "!has(object.data) || !('seen' in object.data)", "message": f"{name} was seen"}
    data = {"expression": 'Object{data: {"seen": "yes"}}'}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": data}
    bodies = {
        "ValidatingAdmissionPolicy": ({**common, "validations": [seen]}, {"validationActions": ["Deny"]}),
        "MutatingAdmissionPolicy": ({**common, "reinvocationPolicy": "Never", "mutations": [mutation]}, {}),
    }
    return [
        {"apiVersion": f"{ADMISSION}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for judging, (policy, binding) in bodies.items()
        for kind, spec in ((f"{judging}Binding", {"policyName": name, **binding}), (judging, policy))
    ]


def rights_for(name: str) -> list[Json]:
    """Somebody's rights by an object of each kind: to get everywhere, to list in one namespace."""
    found = []
    for prefix, verb, where in (("Cluster", "get", {}), ("", "list", {"namespace": TEAM})):
        metadata = {"name": name, **where}
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}
        found.append({"kind": f"{prefix}Role", "metadata": metadata, "rules": [rule]})
        reference = {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name}
        subject = {"apiGroup": RBAC, "kind": "User", "name": name}
        found.append(
            {"kind": f"{prefix}RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]}
        )
    return [{"apiVersion": f"{RBAC}/v1", **one} for one in found]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The chart's objects are there, and its rules in force."""
    with testing.control_plane(tmp_path_factory.mktemp("each"), startup.Options(nodes=())) as cluster:
        installation.apply_manifests(cluster)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
        cluster.client.create(clients.path_of("namespaces"), namespace)
        account = clients.path_of("serviceaccounts", namespace=TEAM, name="default")
        waiting.wait_until(lambda: cluster.client.find(account), "the team's account", SECONDS)
        found = Server(cluster)
        found.put(of_the_chart())
        found.catch_up()
        assert found.refusals() == []
        yield found


def stopped_by(server: Server, chosen: Callable[[Json], bool], noticed: Callable[[], None]) -> Tried:
    """Delete each of the chosen alone: what stopped a pod then, if anything did. All are there again afterwards."""
    found: Tried = {}
    for item in filter(chosen, of_the_chart()):
        server.take(item)
        refusals = server.refusals()
        noticed()
        refusals += server.refusals()
        if refusals:
            found[named(item)] = "; ".join(refusals)
        server.put_again(item)
    return found


def test_a_rule_that_denies_everything_is_noticed(server: Server) -> None:
    """The tests below would see what they look for."""
    (policy,) = (one for one in rule_for("wall") if one["kind"] == "ValidatingAdmissionPolicy")
    (binding,) = (one for one in rule_for("wall") if one["kind"] == "ValidatingAdmissionPolicyBinding")
    policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = ["pods"]
    policy["spec"]["matchConditions"] = []
    policy["spec"]["validations"] = [{"expression": "false", "message": "nobody"}]
    server.put([policy, binding])
    server.catch_up()
    denied = clients.path_of("pods", namespace=TEAM)
    with pytest.raises(clients.APIError, match="nobody"):
        server.cluster.client.create(f"{denied}?dryRun=All", PLAIN)
    for item in (binding, policy):
        server.take(item)
    server.catch_up()


def test_pods_are_created_without_any_one_policy_or_binding(server: Server) -> None:
    assert stopped_by(server, is_judging, server.catch_up) == {}


def test_pods_are_created_without_any_one_role_or_binding_of_rights(server: Server) -> None:
    assert stopped_by(server, is_a_right, server.catch_up_on_rights) == {}


def test_pods_are_created_without_any_one_of_the_other_objects(server: Server) -> None:
    def is_other(item: Json) -> bool:
        return not (is_read_at_start(item) or is_judging(item) or is_a_right(item))

    kinds = {one["kind"] for one in filter(is_other, of_the_chart())}
    assert {"ServiceAccount", "ConfigMap", "Service", "NetworkPolicy", "Deployment", "DaemonSet"} <= kinds
    assert stopped_by(server, is_other, lambda: None) == {}


def test_pods_are_created_without_any_one_kind_or_parameter_after_a_restart_of_the_api_server(server: Server) -> None:
    assert stopped_by(server, is_read_at_start, server.start_again) == {}
