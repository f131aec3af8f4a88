"""Which tokens there are, and which of them nobody may be given now. Pure."""

import functools
from collections.abc import Mapping

from cotenant_api.names import GPUUID, HUNDREDTHS
from cotenant_deviceplugin.binding.grants import ServedGPU
from cotenant_deviceplugin.kubelet.plugin import Token, Tokens


@functools.cache
def all_of(gpus: int) -> tuple[Token, ...]:
    """Return the tokens of a node with so many GPUs: anonymous, and the same after each restart."""
    return tuple(Token(f"t{number:04d}") for number in range(HUNDREDTHS * gpus))


def withdrawn(
    gpus: Mapping[GPUUID, ServedGPU], shares: Mapping[GPUUID, int], *, held: Tokens, before: Tokens, suspended: bool
) -> Tokens:
    """Tokens that may not be handed out now. Never one that a pod holds.

    A closed GPU withdraws 100 less the shares of its live tenants, and the rest as these end.

    Args:
        gpus: of the node.
        shares: hundredths that are given away, per GPU.
        held: tokens that a pod may hold.
        before: what was withdrawn until now; as much of it as possible stays so, that no token flips needlessly.
        suspended: no GPU of the node may be shared now, so no free token may be handed out.
    """
    free = sorted(set(all_of(len(gpus))) - held, reverse=True)
    if suspended:
        return frozenset(free)
    wanted = sum(HUNDREDTHS - shares.get(uuid, 0) for uuid, gpu in gpus.items() if gpu.closed is not None)
    return frozenset(sorted(free, key=lambda token: token not in before)[: max(wanted, 0)])


def offer(gpus: int, *, held: Tokens, withdrawn: Tokens) -> Mapping[Token, bool]:
    """All tokens and whether each may be handed out. One that is held of a GPU that is gone stays listed, withdrawn."""
    known = all_of(gpus)
    strange = dict.fromkeys(sorted(held.difference(known)), False)
    return {token: token not in withdrawn for token in known} | strange
