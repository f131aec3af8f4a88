"""The PackingPolicy in force, with its fields looked up once per GPU model."""

from cotenant_api import booking, packingpolicy
from cotenant_api.names import GPUModel
from cotenant_extender.packing import view


class InForce:
    """One generation of the policy. Immutable to its readers; what it has looked up, it remembers.

    Attributes:
        generation: names the version that a placement rests on.
    """

    __slots__ = ("_packings", "generation", "spec")

    def __init__(self, policy: packingpolicy.PackingPolicy) -> None:
        self.generation = policy.generation
        self.spec = policy.spec
        self._packings: dict[GPUModel, packingpolicy.Packing] = {}

    def packing(self, gpu_model: GPUModel) -> packingpolicy.Packing:
        """Return the packing fields in force for one GPU model."""
        found = self._packings.get(gpu_model)
        if found is None:
            found = self._packings[gpu_model] = self.spec.packing(gpu_model)
        return found

    def bookable_mib(self, gpu: view.GPU) -> int:
        """Memory of a GPU that may be booked, in MiB."""
        return booking.bookable_mib(gpu.memory_mib, self.packing(gpu.model))

    @property
    def places(self) -> bool:
        """Whether anything may be lifted or placed at all."""
        return self.spec.mode is packingpolicy.Mode.PACK and not self.spec.paused

    @property
    def standstill(self) -> str:
        """Why nothing is placed, where `places` is false."""
        if self.spec.mode is not packingpolicy.Mode.PACK:
            return f"PackingPolicy {packingpolicy.NAME} has mode {self.spec.mode}: nothing is placed"
        return f"PackingPolicy {packingpolicy.NAME} is paused: nothing is placed"
