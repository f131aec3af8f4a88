"""Which pods that share a GPU may be root to its MPS control daemon, which obeys root. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cotenant_api import errors, findings, names, packingpolicy, placement
from cotenant_cli.reading import kinds, objects
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]
READS: Final = (kinds.PODS, kinds.POLICY)
_REMEDY: Final = "mend the template of its controller; it runs on until it is replaced"
_MAX_NAMED: Final = 10
_FINISHED: Final = ("Succeeded", "Failed")


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each pod that runs on from before the policy.

    Where the policy lets root in, how many there are.
    """
    policies = seen.of(kinds.POLICY)
    shared = [one for one in seen.of(kinds.PODS) if _shares(one)]
    root = [one for one in shared if one.get(kinds.MAY_BE_ROOT)]
    if policies and _lets_anybody_in(policies[0]):
        text = f"tenantUser: Any: {len(root)} of {len(shared)} pods that share a GPU may be root to its MPS daemon"
        yield findings.ok("cluster", text + _listed(root))
        return
    for one in root:
        what = f"shares a GPU, and {one.get(kinds.MAY_BE_ROOT)}"
        yield findings.warning(f"Pod/{_name(one)}", what, _REMEDY)
    if shared and not root:
        yield findings.ok("cluster", f"{len(shared)} pods that share a GPU cannot be root to its MPS daemon")


def _listed(pods: Sequence[Object]) -> str:
    found = ", ".join(sorted(map(_name, pods))[:_MAX_NAMED])
    rest = f" and {len(pods) - _MAX_NAMED} more" if len(pods) > _MAX_NAMED else ""
    return f": {found}{rest}" if pods else ""


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _lets_anybody_in(policy: Object) -> bool:
    try:
        return objects.policy_of(policy).spec.tenant_user is packingpolicy.TenantUser.ANY
    except errors.InvalidInputError:
        # The check of the policy says so; the default counts.
        return False


def _shares(pod: Object) -> bool:
    """Return whether a pod has a part of a GPU now; whoever cannot be read has none."""
    text = (pod["metadata"].get("annotations") or {}).get(names.PLACEMENT)
    if text is None or pod["status"].get("phase") in _FINISHED:
        return False
    try:
        booked = placement.Placement.from_json(text, source=names.PLACEMENT)
    except errors.InvalidInputError:
        return False
    return booked.backend is placement.Backend.MPS
