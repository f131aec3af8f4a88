"""Command lines that a real API server does not answer: to who lacks rights or a token, or where Cotenant lacks."""

from dataclasses import dataclass
from typing import Final

from bad_input import Words

MAY: Final = "the ClusterRole cotenant-viewer may: ask an admin to bind it to you"


@dataclass(frozen=True, kw_only=True)
class Call(Words):
    """A line of somebody: `nobody` has no right, a `stranger` no valid token; of `bare` the cluster has no Cotenant."""

    who: str


def by(who: str, line: str, *said: str) -> Call:
    """A line that is answered with exit code 1."""
    return Call(name=f"{who}: {line}", who=who, line=line, said=said, code=1)


LINES: Final = (
    by("nobody", "top", "gpunodes", "403", MAY),
    by("nobody", "why x", "dljobs", "403", MAY),
    by("nobody", "node show t4-0", "nodes", "403", MAY),
    by("nobody", "node drain t4-0 --dry-run", "nodes", "403", MAY),
    by("nobody", "snapshot", "403", MAY),
    by("nobody", "submit {DIR}/graph.json --image i --name x", "dljobs", "403", "cotenant doctor"),
    by("nobody", "doctor", "could not be looked at", "run the doctor as an account that may read it"),
    by("stranger", "top", "401", "log in again"),
    by("stranger", "why x", "401", "log in again"),
    by("stranger", "doctor", "401", "log in again"),
    by("stranger", "submit {DIR}/graph.json --image i --name x", "401"),
    by("bare", "top", "cotenant.dev/v1alpha1 is not served", "install Cotenant", "another --context"),
    by("bare", "why x", "cotenant.dev/v1alpha1 is not served", "install Cotenant"),
    by("bare", "node show t4-0", "cotenant.dev/v1alpha1 is not served", "install Cotenant"),
    by("bare", "node drain t4-0", "cotenant.dev/v1alpha1 is not served", "install Cotenant"),
    by("bare", "submit {DIR}/graph.json --image i --name x", "404", "install Cotenant"),
    by(
        "admin",
        "submit {DIR}/graph.json --image i --name x --gpu-models Tesla-T4,Tesla-T4",
        "spec.gpuModels",
        "duplicate entries",
    ),
    by("admin", "why default/nobody", "JOB", "'default/nobody'", "kubectl get dljobs,pods -n default"),
    by("admin", "node show nobody", "NODE", "'nobody'", "kubectl get nodes,gpunodes"),
    by("admin", "submit {DIR}/graph.json --image i --name x -n nowhere", "404", "create the namespace"),
)
