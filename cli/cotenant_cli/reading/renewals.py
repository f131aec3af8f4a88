"""Whether a Lease is renewed, where its time says that it is not: its clock, or ours, may be wrong by any amount.

As kube-controller-manager judges kubelets, so is judged what was renewed: by a change that is seen, not by a clock. A
Lease whose time is of now needs no watching; any other is watched for longer than a living holder takes to renew it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from cotenant_cli.reading import cluster, kinds
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]

WATCH_SECONDS: Final = 15
"""A node agent renews its Lease every 10 s, kube-scheduler every 2 s."""
LOOK_SECONDS: Final = 1.0


def watched(lists: cluster.Lists, seen: Installation, *, pause: Callable[[float], None]) -> Installation:
    """Return what was read, with the Leases that were seen to be renewed. It takes no time where none seems expired.

    Raises:
        TemporaryError: the API server does not answer.
        PermanentError: it refuses.
    """
    first = {one["metadata"]["name"]: one for one in seen.of(kinds.LEASES)}
    left = {name for name, one in first.items() if kinds.held(one) and kinds.stale(one, seen.now) is not None}
    renewed: set[str] = set()
    for _ in range(WATCH_SECONDS if left else 0):
        pause(LOOK_SECONDS)
        for one in lists(kinds.LEASES.path.format(namespace=seen.namespace), kinds.LEASES.kept):
            name = one["metadata"]["name"]
            if name in left and kinds.renewal(one) != kinds.renewal(first[name]):
                renewed.add(name)
        left -= renewed
        if not left:
            break
    return replace(seen, renewed=frozenset(renewed))
