"""Bodies of the writes that may arrive late: each names the pod, and the state of it, that was decided on."""

from collections.abc import Callable
from typing import Any

import pytest

from cotenant_extender import records
from cotenant_extender.kube import pods
from cotenant_extender.ledger import earmarks
from extender import builders

Object = dict[str, Any]

RECORD = records.pod_record(builders.pod("a", version=7))
NOTE = earmarks.next_note(RECORD, leader="host@1")


def bound() -> Object:
    """A Binding's metadata."""
    source = builders.cluster()
    builders.put(source, builders.pod("a", version=7))
    found: Object = pods.binding(RECORD, builders.place(source, RECORD))["metadata"]
    return found


@pytest.mark.parametrize(
    "preconditions",
    [
        bound,
        lambda: pods.lift(RECORD, None)["metadata"],
        lambda: pods.fence(RECORD, NOTE)["metadata"],
        lambda: pods.eviction(RECORD)["deleteOptions"]["preconditions"],
        lambda: pods.deletion(RECORD)["preconditions"],
    ],
    ids=["binding", "lift", "fence", "eviction", "deletion"],
)
def test_what_may_arrive_late_names_the_uid_and_the_version_of_the_pod(preconditions: Callable[[], Object]) -> None:
    found = preconditions()
    assert (found["uid"], found["resourceVersion"]) == ("uid-a", "7")
