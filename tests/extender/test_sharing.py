"""Records that are alike hold the same values, so that many of them fit into memory."""

from cotenant_api import names, placement
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import booked, records, sharing
from extender import builders


def test_pods_that_are_alike_hold_the_same_labels_needs_and_constraints() -> None:
    one, other = (records.pod_record(builders.pod(name, 40, labels={"app": "train"})) for name in ("a", "b"))
    assert one.request is not None
    assert other.request is not None
    assert one.labels is other.labels
    assert one.host is other.host
    assert one.request.constraints is other.request.constraints
    assert one.request.fit_key is other.request.fit_key


def test_what_is_shared_equals_what_was_given() -> None:
    assert sharing.labels({"b": "1", "a": "2"}) == {"a": "2", "b": "1"}
    assert sharing.labels(None) == {}
    assert sharing.one(("a", 1)) == ("a", 1)
    assert sharing.text("x") == "x"


def test_what_cannot_be_compared_is_returned_as_it_is() -> None:
    odd = (["a"],)
    assert sharing.one(odd) is odd
    assert sharing.text(None) is None


def test_a_placement_as_kept_says_all_that_its_document_says() -> None:
    text = builders.placement("a", "n1", {"GPU-n1-0": 40})[names.PLACEMENT]
    found = booked.read(text, uid=PodUID("uid-a"), node=NodeName("n1"), share=40)
    assert found is not None
    assert found.to_object() == placement.Placement.from_json(text, source="test").to_object()


def test_a_placement_that_is_no_json_object_is_none() -> None:
    for text in ("", "[]", "{", '"\\ud800"', "\ud800"):
        assert booked.read(text, uid=PodUID("uid-a"), node=NodeName("n1"), share=40) is None
