"""The PackingPolicy."""

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUModel
from cotenant_api.packingpolicy import Order, PackingPolicy, Placement, Tenancy, TenantUser

T4, H200 = GPUModel("Tesla-T4"), GPUModel("NVIDIA-H200")


def policy(**spec: object) -> PackingPolicy:
    return PackingPolicy.from_object({"metadata": {"name": "default", "generation": 7}, "spec": spec})


def test_the_default_is_decreasing_share_first_fit_three_tenants_of_one_namespace() -> None:
    spec = policy().spec
    assert (spec.queue.order, spec.placement) == (Order.DECREASING_SHARE, Placement.FIRST_FIT)
    assert (spec.max_tenants_per_gpu, spec.tenancy) == (3, Tenancy.SAME_NAMESPACE)


def test_an_override_changes_only_what_it_names_and_only_for_its_models() -> None:
    spec = policy(maxTenantsPerGPU=4, overrides=[{"gpuModels": ["Tesla-T4"], "maxTenantsPerGPU": 2}]).spec
    assert spec.packing(T4).max_tenants_per_gpu == 2
    assert spec.packing(T4).memory_headroom_percent == spec.packing(H200).memory_headroom_percent
    assert spec.packing(H200).max_tenants_per_gpu == 4


def test_the_generation_is_the_objects() -> None:
    assert policy().generation == 7


@pytest.mark.parametrize(
    ("field", "value"),
    [("maxTenantsPerGPU", 0), ("maxTenantsPerGPU", 17), ("placement", "Psychic"), ("maxUtilizationPercent", 9)],
)
def test_a_bad_policy_is_never_half_applied(field: str, value: object) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"PackingPolicy\.spec\.{field}"):
        policy(**{field: value})


def test_root_is_kept_from_shared_gpus_unless_the_policy_lets_anybody_in() -> None:
    assert policy().spec.tenant_user is TenantUser.NON_ROOT
    assert policy().spec.refuses_root(99)
    assert not policy(tenantUser="Any").spec.refuses_root(99)


@pytest.mark.parametrize(("share", "placement"), [(100, "FirstFit"), (300, "FirstFit"), (40, "Exclusive")])
def test_who_gets_whole_gpus_may_be_root(share: int, placement: str) -> None:
    assert not policy(placement=placement).spec.refuses_root(share)
