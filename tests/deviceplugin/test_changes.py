"""The log's lines."""

from cotenant_api import gpunode
from cotenant_api.names import GPUModel
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.publishing import changes, status
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes

DEVICES = simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=1)


def of(*specs: fakes.PodSpec, previous: gpunode.Status | None = None) -> gpunode.Status:
    read = (pods.read(fakes.pod(spec)) for spec in specs)
    observed = status.Observed(
        node=fakes.NODE,
        agent_version="1",
        machine=status.Machine(simulated=True, devices=DEVICES),
        pods=tuple(bound for bound in read if bound is not None),
    )
    return status.of(observed, previous=previous, now=fakes.START)


def test_the_first_status_tells_readiness_and_every_gpu() -> None:
    assert changes.between(None, of()) == (
        "Ready=True AgentReady: 1 simulated GPU",
        f"GPU 0 {DEVICES[0].uuid} Tesla-T4 is Healthy, mode Shared",
    )


def test_each_tenant_that_comes_or_goes_is_one_line() -> None:
    empty, held = of(), of(fakes.PodSpec())
    assert changes.between(empty, held) == ("GPU 0: team/train is a tenant (1 in all)",)
    assert changes.between(held, empty) == ("GPU 0: team/train ended, memory peak 0 MiB",)


def test_a_refusal_is_one_line() -> None:
    refused = of(fakes.PodSpec(annotations={}))
    assert changes.between(of(), refused) == (
        "pod with UID uid-train is refused: PlacementMissing: it was bound without the extender",
    )


def test_what_stays_is_not_told_again() -> None:
    held = of(fakes.PodSpec(), fakes.PodSpec(uid="bad", annotations={}))
    assert changes.between(held, held) == ()


def test_a_gpu_that_is_gone_is_told() -> None:
    assert changes.between(of(), of().model_copy(update={"gpus": ()})) == (f"GPU 0 {DEVICES[0].uuid} Tesla-T4 is gone",)
