"""Each way on the jobs of the Horus study, believed wrongly. Pure; the same arguments give the same figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import booking, packingpolicy, prediction
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.colocation import speeds
from cotenant_simulator.engine import interference, ways, world
from cotenant_simulator.horus import experiment as horus
from cotenant_simulator.horus import population, published
from cotenant_simulator.prediction_error import beliefs
from cotenant_simulator.twin import sites

PREDICTED: Final = "Predicted"
MEDIAN: Final = "Median"
HYBRID: Final = "Hybrid"
REACTIVE: Final = "Reactive"
SLOT: Final = "Slot"
WAYS: Final[Mapping[str, ways.Way]] = {
    PREDICTED: ways.Predicted(),
    MEDIAN: ways.Median(),
    HYBRID: ways.Hybrid(),
    REACTIVE: ways.Reactive(),
    SLOT: ways.Slot(),
}
"""See `engine.ways`."""
BELIEVING: Final = (PREDICTED, MEDIAN, HYBRID)
"""Those that look at predictions."""
OTHERS: Final = (REACTIVE, SLOT)
"""Those that do not: no error changes what they come to."""
SIGMAS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)

_NEVER: Final = 604800
"""The longest wait that a policy can state: nobody is aged, as in the study."""
_NO_AUTOSCALER: Final = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One run.

    Attributes:
        way: of `WAYS`.
        of: what is believed wrongly; None: nothing, for ways that believe nothing.
        sigma: by how much.
        seed: of jobs and errors.
    """

    way: str
    of: beliefs.Of | None
    sigma: float
    seed: int

    @property
    def title(self) -> str:
        """For progress."""
        wrong = "" if self.of is None else f", {self.of} by {self.sigma:g}"
        return f"{self.way}{wrong}, seed {self.seed}"


def keys(axes: Sequence[beliefs.Of], sigmas: Sequence[float], seeds: Sequence[int]) -> list[Key]:
    """Every run that is needed, each once."""
    blind = [Key(way=way, of=None, sigma=0.0, seed=seed) for way in OTHERS for seed in seeds]
    return blind + [
        Key(way=way, of=of, sigma=sigma, seed=seed)
        for of in axes
        for way in BELIEVING
        for sigma in sigmas
        for seed in seeds
    ]


def run(
    key: Key, mix: Mapping[str, prediction.Prediction], model: speeds.SpeedModel, *, mechanism: str = interference.MPS
) -> horus.Figures:
    """Return what one run comes to.

    Args:
        key: which one.
        mix: what is predicted of the models that jobs are drawn from, by name; it is what they need.
        model: of co-location.
        mechanism: how jobs share a GPU, of `colocation.prior.RESOURCES`; the same for every way.
    """
    (device,) = devices.select([published.GPU_MODEL])
    queue = {"maxWaitSeconds": _NEVER, "scaleUpAfterSeconds": _NO_AUTOSCALER}
    spec = packingpolicy.Spec.model_validate({"queue": queue})
    policy = policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec))
    given = population.drawn(mix, seed=key.seed, sigma=0.0)
    if key.of is not None:
        most = {published.GPU_MODEL: booking.bookable_mib(device.memory_mib, policy.packing(published.GPU_MODEL))}
        given = beliefs.believed(given, of=key.of, sigma=key.sigma, seed=key.seed, most_mib=most)
    made = world.World(
        sites.alike(published.GPUS, gpus=1, model=published.GPU_MODEL, memory_mib=device.memory_mib),
        given,
        way=WAYS[key.way],
        policy=policy,
        speeds=interference.Interference(model, mechanism),
    )
    return horus.figures(made.run())
