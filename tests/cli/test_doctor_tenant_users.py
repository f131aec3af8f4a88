"""`cotenant doctor` names who may be root to the MPS control daemon of a shared GPU."""

from typing import Any

import pytest

from cli import installed, kit
from cotenant_api import findings
from cotenant_cli import checks
from cotenant_cli.reading import installation, kinds

ROOT_TENANT = kit.pod("a", on="GPU-0") | {kinds.MAY_BE_ROOT: "spec.containers[main].securityContext: may run as root"}


def test_a_pod_that_shares_a_gpu_and_may_be_root_is_a_warning() -> None:
    one = installed.only("tenant-users", {kinds.PODS: [ROOT_TENANT]})
    assert (one.where, one.level) == ("Pod/team/a", findings.Level.WARNING)
    assert one.what == "shares a GPU, and spec.containers[main].securityContext: may run as root"


@pytest.mark.parametrize(
    "pod",
    [
        ROOT_TENANT | {"metadata": {**ROOT_TENANT["metadata"], "annotations": {}}},
        ROOT_TENANT | {"status": {"phase": "Succeeded"}},
        kit.pod("a", on="GPU-0"),
    ],
    ids=["waits", "has ended", "cannot be root"],
)
def test_who_is_no_root_of_a_shared_gpu_is_none(pod: Any) -> None:
    assert not installed.found("tenant-users", {kinds.PODS: [pod]})


def test_root_on_shared_gpus_is_well_where_the_policy_lets_anybody_in() -> None:
    changed: dict[installation.Source, list[installation.Object]] = {
        kinds.PODS: [ROOT_TENANT],
        kinds.POLICY: [installed.policy(tenantUser="Any")],
    }
    assert not installed.found("tenant-users", changed)
    told = [one for one in checks.examined(installed.seen(changed)) if one.check == "tenant-users"]
    assert [one.what for one in told] == [
        "tenantUser: Any: 1 of 1 pods that share a GPU may be root to its MPS daemon: team/a"
    ]
