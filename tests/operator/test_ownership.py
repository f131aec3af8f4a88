"""What an object was created with becomes what is applied to it, so that a later apply removes what it lacks."""

from typing import Any

from cotenant_operator.kube import ownership


def entry(operation: str, fields: dict[str, Any], *, manager: str = "ours", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


SPEC: dict[str, Any] = {"f:spec": {"f:replicas": {}}}


def test_what_was_created_is_applied_from_now_on() -> None:
    theirs = entry("Update", SPEC, manager="kubectl")
    assert ownership.applied([entry("Update", SPEC), theirs], manager="ours") == [theirs, entry("Apply", SPEC)]


def test_what_was_applied_and_patched_is_one_entry() -> None:
    fence = {"f:metadata": {"f:annotations": {"f:fence": {}}}, "f:spec": {"f:paused": {}}}
    found = ownership.applied([entry("Apply", SPEC), entry("Update", fence)], manager="ours")
    assert found == [entry("Apply", {**fence, "f:spec": {"f:replicas": {}, "f:paused": {}}})]


def test_an_object_that_was_only_applied_stays_as_it_is() -> None:
    fence = entry("Update", {"f:metadata": {"f:annotations": {"f:fence": {}}}})
    assert ownership.applied([entry("Apply", SPEC), fence], manager="ours") is None


def test_the_status_of_a_controller_and_the_spec_of_another_manager_change_nothing() -> None:
    others = [entry("Update", SPEC, subresource="status"), entry("Update", SPEC, manager="kubectl")]
    assert ownership.applied(others, manager="ours") is None
