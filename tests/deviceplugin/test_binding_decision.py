"""A grant is what the pod's placement says, or a refusal that says why."""

from typing import Any

import pytest

from cotenant_api import errors
from cotenant_api.names import NodeName, PodUID
from cotenant_api.packingpolicy import TenantUser
from cotenant_deviceplugin.binding import decision
from cotenant_deviceplugin.binding.grants import Numbers, ServedGPU
from cotenant_deviceplugin.pods import BoundPod
from node_kit.bookings import NODE, NOW, A, B, booked, grant, owner, pod


def decide(bound: BoundPod | None, count: int = 2) -> Any:
    return decision.grant(owner(), bound, tokens=count, node=NODE, known={A, B})


def test_a_valid_placement_is_granted_as_it_stands() -> None:
    assert decide(pod()) == grant()


def test_a_placement_may_have_more_than_the_tokens_but_not_less() -> None:
    assert decide(pod(), 30) == grant()
    with pytest.raises(errors.PermanentError, match="ShareBelowRequest: 30 hundredths are booked, kubelet gave 31"):
        decide(pod(), 31)


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (None, "knows no pod team/p-u1"),
        (pod("u2"), "kubelet starts the pod with UID u1, the API server has u2 of that name"),
        (pod(finished=True), "has ended or is being deleted"),
        (pod(ends_at=NOW), "has ended or is being deleted"),
    ],
)
def test_a_pod_that_is_not_the_owner_any_more_gets_nothing_now(bound: BoundPod | None, message: str) -> None:
    with pytest.raises(errors.TemporaryError, match=message):
        decide(bound)


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (pod(booked=None, fault="PlacementMissing: none"), "^PlacementMissing"),
        (pod(booked=None), "^PlacementMissing"),
        (pod(placed=booked("u2")), "^PlacementForAnotherPod"),
        (pod(placed=booked(node=NodeName("n2"))), "^PlacementForAnotherNode"),
        (pod(placed=booked(container="side")), "^PlacementForAnotherContainer"),
        (
            pod(placed=booked(container="side"), container="side"),
            "^PlacementForAnotherContainer.*'main' has the tokens",
        ),
        (pod(requested_share=31), "^ShareBelowRequest"),
        (pod(placed=booked("u1", (A, 50), (B, 50))), "^UnusableBackend: MPS with 2 GPUs"),
        (pod(placed=booked("u1", (A, 99), backend="Whole")), "^UnusableBackend: Whole with less than a whole GPU"),
        (pod(placed=booked("u1", ("GPU-z", 30))), "^UnknownGPU"),  # type: ignore[arg-type]
    ],
)
def test_a_placement_that_gives_nothing_is_refused_for_good(bound: BoundPod, message: str) -> None:
    with pytest.raises(errors.PermanentError, match=message):
        decide(bound)


ROOT = pod(may_be_root="spec.containers[main].securityContext: may run as root")


def test_who_may_be_root_gets_no_share_unless_the_policy_lets_anybody_in() -> None:
    with pytest.raises(
        errors.PermanentError, match=r"^MayBeRoot: spec\.containers\[main\]\.securityContext: may run as"
    ):
        decision.check_user(grant(), owner(), ROOT, TenantUser.NON_ROOT)
    with pytest.raises(errors.TemporaryError, match="the PackingPolicy has not been seen yet"):
        decision.check_user(grant(), owner(), ROOT, None)
    decision.check_user(grant(), owner(), ROOT, TenantUser.ANY)


@pytest.mark.parametrize("user", [TenantUser.NON_ROOT, None])
def test_who_cannot_be_root_may_have_a_share_under_any_policy(user: TenantUser | None) -> None:
    decision.check_user(grant(), owner(), pod(), user)


def test_who_may_be_root_gets_whole_gpus_as_they_are_used_without_mps() -> None:
    whole = grant("u1", (A, 100), backend="Whole")
    decision.check_user(whole, owner(), ROOT, TenantUser.NON_ROOT)


def test_a_grant_that_was_lost_is_learned_again_whoever_the_container_runs_as() -> None:
    assert decision.proven(owner(), ROOT, tokens=2, node=NODE, known=()) == grant()


def test_whole_gpus_are_granted_together() -> None:
    placed = booked("u1", (A, 100), (B, 100), backend="Whole")
    assert decide(pod(placed=placed, requested_share=200), 200).booked == placed


def test_a_gpu_has_a_hundred_hundredths() -> None:
    others = [grant("u2", (A, 40)), grant("u3", (A, 30)), grant("u4", (B, 100))]
    decision.check_room(grant("u1", (A, 30)), others)
    assert not decision.has_room(grant("u1", (A, 31)), others)
    with pytest.raises(errors.TemporaryError, match="GPU GPU-a has 30 hundredths left"):
        decision.check_room(grant("u1", (A, 31)), others)


def test_a_pods_own_grant_is_not_in_its_way() -> None:
    decision.check_room(grant("u1", (A, 100)), [grant("u1", (A, 100))])


@pytest.mark.parametrize(
    ("gpus", "message"),
    [({}, "GPU-a is not there"), ({A: ServedGPU(numbers=Numbers(0, 0), closed="in MIG mode")}, "in MIG mode")],
)
def test_a_closed_gpu_takes_no_new_tenant(gpus: Any, message: str) -> None:
    with pytest.raises(errors.TemporaryError, match=message):
        decision.check_open(grant(), gpus)


def test_only_the_gpus_of_the_grant_must_be_open() -> None:
    gpus = {A: ServedGPU(numbers=Numbers(3, 3)), B: ServedGPU(numbers=Numbers(4, 4), closed="lost")}
    decision.check_open(grant(), gpus)
    assert decision.numbers(grant(), gpus) == {A: Numbers(3, 3)}


def test_a_pod_that_changed_while_it_was_proven_is_not_granted() -> None:
    decision.check_unchanged(grant(), owner(), pod())
    with pytest.raises(errors.TemporaryError, match="placement has changed"):
        decision.check_unchanged(grant(), owner(), pod(placed=booked("u1", (A, 31))))
    with pytest.raises(errors.TemporaryError, match="being deleted"):
        decision.check_unchanged(grant(), owner(), pod(ends_at=NOW))


def test_every_reason_begins_with_a_refusal() -> None:
    assert decision.reason_of(errors.PermanentError("UnknownGPU: x")) == "UnknownGPU: x"
    assert decision.reason_of(errors.PermanentError("in MIG mode")) == "GPUNotServed: in MIG mode"


def test_the_owner_is_the_pod_of_the_checkpoint() -> None:
    assert decide(pod()).pod_uid == PodUID("u1")
