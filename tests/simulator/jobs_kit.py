"""Jobs, GPUs and runs by hand."""

from collections.abc import Sequence
from typing import Any

from cotenant_api import packingpolicy, prediction
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_extender.packing import policies
from cotenant_predictor.colocation import speeds
from cotenant_simulator.engine import conditions, faults, history, interference, jobs, ways, world
from cotenant_simulator.twin import sites

MODEL = GPUModel("NVIDIA-A")
GPU_MIB = 10_000
PRIOR = speeds.SpeedModel()
"""Co-location as nobody has measured it."""


def needs(percent: float, *, memory_mib: int = 1000, upper: float | None = None) -> prediction.GPUPrediction:
    """So much of the SMs and of the time, nothing of the memory's bandwidth, and every thread."""
    busy = prediction.PercentRange(q50=percent, upper=percent if upper is None else upper)
    return prediction.GPUPrediction(
        utilization=busy,
        sm_activity=busy,
        dram_activity=prediction.PercentRange(q50=0, upper=0),
        memory_mib=prediction.MemoryRange(q50=memory_mib, upper=memory_mib),
        step_milliseconds=100.0,
        thread_percentage=100,
        regime=prediction.Regime.COMPUTE,
    )


def believed(found: prediction.GPUPrediction, *, name: str = "a") -> prediction.Prediction:
    """A prediction document."""
    return prediction.Prediction(
        graph=GraphDigest(f"sha256:{name.encode().hex():0<64}"),
        source=prediction.Source.MODEL,
        model="by-hand",
        by_gpu={MODEL: found},
    )


def job(
    name: str,
    percent: float,
    *,
    seconds: float = 1000.0,
    arrives: float = 0.0,
    real: prediction.GPUPrediction | None = None,
    **changed: Any,
) -> jobs.Job:
    """A job that is what is believed of it, unless `real` says otherwise."""
    found = needs(percent)
    kind = jobs.Kind(name=name, predicted=believed(found, name=name), real={MODEL: real or found})
    return jobs.Job(name=name, kind=kind, arrives=arrives, seconds={MODEL: seconds}, **changed)


def broken(gpu: str, *, at: float, repair: float) -> faults.Fault:
    """A GPU that breaks."""
    return faults.Fault(seconds=at, what=faults.What.GPU, where=gpu, repair_seconds=repair)


def policy(**changed: Any) -> policies.InForce:
    """The policy that ships, with some fields changed."""
    spec = packingpolicy.Spec.model_validate({"memory_headroom_percent": 0, "thread_partition": "None", **changed})
    return policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec))


def ran(
    given: Sequence[jobs.Job],
    *,
    gpus: int = 1,
    nodes: int = 1,
    way: ways.Way | None = None,
    mechanism: str = interference.MPS,
    under: conditions.Conditions = conditions.NORMAL,
    **changed: Any,
) -> history.History:
    """A whole run on GPUs of one model, by the prior of co-location alone."""
    made = world.World(
        sites.alike(nodes, gpus=gpus, model=MODEL, memory_mib=GPU_MIB),
        given,
        way=way or ways.Predicted(),
        policy=policy(**changed),
        speeds=interference.Interference(PRIOR, mechanism),
    )
    return made.run(under=under)
