"""Somebody with the role `edit` in one namespace, as a person of a team has it."""

from dataclasses import dataclass
from typing import Final

from cluster.rights import may_as
from cluster.workloads import Workspace
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Client

RBAC: Final = "rbac.authorization.k8s.io"
NAME: Final = "tenant"
SECONDS: Final = 30


@dataclass(frozen=True)
class Tenant:
    """An account of a namespace, and a client that talks as that account."""

    workspace: Workspace
    client: Client

    @property
    def user(self) -> str:
        """The name that the API server knows the account by."""
        return f"system:serviceaccount:{self.workspace.namespace}:{NAME}"

    def bind(self, kind: str, role: str) -> None:
        """Give the account a role in the workspace's namespace."""
        namespace = self.workspace.namespace
        binding = {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        }
        self.workspace.client.create(clients.path_of("rolebindings", group=RBAC, namespace=namespace), binding)

    def grant(self, resource: str, verb: str) -> None:
        """Allow the account one verb more in the workspace's namespace; `resource` with its subresource."""
        name = f"{verb}-{resource.replace('/', '-')}"
        rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
        roles = clients.path_of("roles", group=RBAC, namespace=self.workspace.namespace)
        self.workspace.client.create(roles, {"metadata": {"name": name}, "rules": [rule]})
        self.bind("Role", name)
        waiting.wait_until(lambda: self.may(verb, resource), f"the right to {verb} {resource}", SECONDS)

    def may(self, verb: str, resource: str, *, name: str = "") -> bool:
        """Return whether RBAC allows the account something in the workspace's namespace."""
        cluster, namespace = self.workspace.installation.cluster, self.workspace.namespace
        return may_as(cluster, self.user, verb, resource, namespace=namespace, name=name)


def create(workspace: Workspace) -> Tenant:
    """Make an account that may edit the workspace's namespace, DLJobs included."""
    accounts = clients.path_of("serviceaccounts", namespace=workspace.namespace)
    workspace.client.create(accounts, {"metadata": {"name": NAME}})
    cluster = workspace.installation.cluster
    tenant = Tenant(workspace, cluster.client_for_token(cluster.token(workspace.namespace, NAME)))
    tenant.bind("ClusterRole", "edit")
    # The controller that adds DLJobs to the role comes by a moment later.
    waiting.wait_until(lambda: tenant.may("create", "dljobs.cotenant.dev"), "the tenant's rights", SECONDS)
    return tenant
