"""A webhook of a namespace that is down for ever: no pod there can be changed, and nobody else may wait for that."""

from typing import TYPE_CHECKING

from api_server import pods
from cotenant_api.names import Namespace
from cotenant_extender.kube import pods as paths
from extender import builders

if TYPE_CHECKING:
    from simulation.world import World

CHANCE = 0.25
"""In how many worlds."""
NAMESPACE, NAME = "hooked", "hooked"


class Webhook:
    """A pod without a gate, of another scheduler, that can be read and not changed."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._there = world.rng("webhook").random() < CHANCE

    def start(self) -> None:
        """The pod comes."""
        if self._there:
            self._world.network.failing.add(paths.pod_path(Namespace(NAMESPACE), NAME))
            pod = builders.pod(NAME, 10, gates=(), namespace=NAMESPACE, schedulerName="another")
            self._world.objects.put(pods.PODS, pod)

    def stop(self) -> None:
        """The user deletes the pod."""
        if (NAMESPACE, NAME) in self._world.objects.objects[pods.PODS]:
            self._world.objects.delete(pods.PODS, (NAMESPACE, NAME))
