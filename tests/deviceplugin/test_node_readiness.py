"""Whether a real node may offer shares, and the reason that it gives."""

import pytest

from cotenant_deviceplugin.publishing import readiness

Reason = readiness.Reason


def around(**changes: object) -> readiness.Surroundings:
    values = {"container_runtime": "containerd://2.3.7", **changes}
    return readiness.Surroundings(**values)  # type: ignore[arg-type]


def test_driver_that_is_too_old_closes_the_node_and_is_named() -> None:
    seen = around(driver_fault="driver 550.163.01 is older than 570")
    assert readiness.fault(seen) == readiness.Verdict(Reason.DRIVER_TOO_OLD, "driver 550.163.01 is older than 570")
    assert readiness.closed(seen) == "DriverTooOld: driver 550.163.01 is older than 570"


@pytest.mark.parametrize(
    "runtime", ["containerd://2.0.0", "containerd://2.3.7-k3s1", "containerd://v3.1", "cri-o://1.28.0", "cri-o://2.0.1"]
)
def test_runtimes_that_resolve_cdi_names_by_default_need_no_word(runtime: str) -> None:
    assert readiness.cdi_fault(runtime, said_to_have_it=False) is None


@pytest.mark.parametrize(
    "runtime",
    [
        "containerd://1.6.20~ds1",
        "cri-o://1.27.9",
        "docker://28.1.1",
        "containerd://",
        "containerd",
        "mystery://9.9",
    ],
)
def test_no_word_helps_a_runtime_that_is_not_known_to_have_cdi(runtime: str) -> None:
    fault = readiness.cdi_fault(runtime, said_to_have_it=True)
    assert fault is not None
    assert "use containerd 2.0 or later" in fault


def test_a_runtime_that_nobody_has_named_has_none() -> None:
    fault = readiness.cdi_fault(None, said_to_have_it=True)
    assert fault == "the Node has not named its container runtime yet"


def test_a_containerd_1_7_is_believed_to_have_cdi_when_the_admin_says_so() -> None:
    fault = readiness.cdi_fault("containerd://1.7.29", said_to_have_it=False)
    assert fault is not None
    assert "node.runtimeHasCDI=true" in fault
    assert readiness.cdi_fault("containerd://1.7.29", said_to_have_it=True) is None


@pytest.mark.parametrize(
    "changes", [{"offering": False}, {"foreign": ("nvidia.com/gpu",)}, {"lacking_labels": ("cotenant.dev/gpu=true",)}]
)
def test_a_node_whose_gpus_are_anothers_is_given_back_and_closed(changes: dict[str, object]) -> None:
    assert readiness.given_back(around(**changes))
    assert readiness.closed(around(**changes)) is not None


@pytest.mark.parametrize("changes", [{}, {"container_runtime": None}, {"specification_fault": "none"}])
def test_a_node_of_which_something_is_lacking_is_not_given_back(changes: dict[str, object]) -> None:
    assert not readiness.given_back(around(**changes))


def test_a_node_that_lacks_nothing_has_no_fault() -> None:
    assert (readiness.fault(around()), readiness.closed(around())) == (None, None)


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"foreign": ("nvidia.com/gpu",)}, Reason.FOREIGN_DEVICE_PLUGIN, "nvidia.com/gpu hands out these GPUs"),
        ({"container_runtime": "containerd://1.6.20"}, Reason.NO_CDI, "containerd://1.6.20"),
        ({"specification_fault": "there is none in /etc/cdi"}, Reason.NO_CDI, "there is none"),
    ],
)
def test_what_the_node_lacks_closes_all_its_shares(changes: dict[str, object], reason: Reason, words: str) -> None:
    found = readiness.fault(around(**changes))
    assert found is not None
    assert found.reason is reason
    assert words in found.message
    closed = readiness.closed(around(**changes))
    assert closed is not None
    assert closed.startswith(reason)


def test_a_kubelet_that_is_away_is_told_and_closes_nothing() -> None:
    away = around(kubelet_fault="no kubelet.sock")
    assert readiness.fault(away) == readiness.Verdict(Reason.KUBELET_UNREACHABLE, "no kubelet.sock")
    assert readiness.closed(away) is None


def test_what_an_admin_must_change_is_told_first() -> None:
    found = readiness.fault(around(foreign=("x",), container_runtime=None, kubelet_fault="away"))
    assert found is not None
    assert found.reason is Reason.FOREIGN_DEVICE_PLUGIN


def test_a_policy_that_shares_nothing_is_no_fault_and_closes_all_shares() -> None:
    observing = around(offering=False)
    assert (readiness.fault(observing), readiness.closed(observing)) == (None, "the PackingPolicy offers no shares")


@pytest.mark.parametrize(
    "changes",
    [{"foreign": ("nvidia.com/gpu",)}, {"driver_fault": "too old"}, {"container_runtime": "containerd://1.7.1"}],
)
def test_what_stands_in_the_way_of_sharing_is_no_fault_where_nothing_is_shared(changes: dict[str, object]) -> None:
    observing = around(offering=False, **changes)
    assert readiness.fault(observing) is None
    assert readiness.obstacle(observing) == readiness.fault(around(**changes))
    assert readiness.closed(observing) is not None
