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
    found = booked.read(text, uid=PodUID("uid-a"), node=NodeName("n1"))
    assert found is not None
    assert found.to_object() == placement.Placement.from_json(text, source="test").to_object()


def test_a_placement_that_stands_is_not_read_again() -> None:
    text = builders.placement("a", "n1", {"GPU-n1-0": 40})[names.PLACEMENT]
    known = booked.read(text, uid=PodUID("uid-a"), node=NodeName("n1"))
    assert known is not None
    assert booked.read(text, uid=PodUID("uid-a"), node=NodeName("n1"), known=known) is known


def test_a_placement_that_changed_is_read_again() -> None:
    before, after = (builders.placement("a", "n1", {"GPU-n1-0": share})[names.PLACEMENT] for share in (40, 50))
    known = booked.read(before, uid=PodUID("uid-a"), node=NodeName("n1"))
    found = booked.read(after, uid=PodUID("uid-a"), node=NodeName("n1"), known=known)
    assert found is not None
    assert [gpu.share for gpu in found.gpus] == [50]


def test_a_known_placement_is_no_other_pods_and_on_no_other_node() -> None:
    text = builders.placement("a", "n1", {"GPU-n1-0": 40})[names.PLACEMENT]
    known = booked.read(text, uid=PodUID("uid-a"), node=NodeName("n1"))
    assert booked.read(text, uid=PodUID("uid-b"), node=NodeName("n1"), known=known) is None
    assert booked.read(text, uid=PodUID("uid-a"), node=NodeName("n2"), known=known) is None


def test_a_placement_that_is_no_json_object_is_none() -> None:
    for text in ("", "[]", "{", '"\\ud800"', "\ud800"):
        assert booked.read(text, uid=PodUID("uid-a"), node=NodeName("n1")) is None
