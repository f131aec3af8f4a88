"""What one GPU's MPS server and compute mode need next. Pure: from what is wanted and what is seen to actions.

Level-triggered: every step follows from what is seen now, and what is remembered only makes it more careful. So a
change that is interrupted anywhere goes on after a restart of the agent. Nothing changes under a process that uses the
GPU. Faults: https://docs.nvidia.com/deploy/mps/latest/when-to-use-mps.html, "memory protection and error containment":
after a fatal fault every client of the server gets an error, new ones are refused, and the server serves again once all
of them have ended. What the daemon's output says is a fault only with a proof: `proof`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cotenant_api import gpunode
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import proof, steps
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.mps.seen import Seen

_COMPUTE_MODE: Final[Mapping[gpunode.Mode, ComputeMode]] = {
    gpunode.Mode.SHARED: ComputeMode.EXCLUSIVE_PROCESS,
    gpunode.Mode.WHOLE: ComputeMode.DEFAULT,
}


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Bounds, in seconds unless they say otherwise.

    Attributes:
        manage_compute_mode: False: the compute mode is never set.
        terminate_seconds: after a fault, how long its clients may take to end before they are ended through the server.
        evict_seconds: after a fault, how long before they are named for eviction.
        starting_seconds: how long a server without clients may stay neither ACTIVE nor FAULT before it is replaced.
        settle_seconds: how long one that starts is waited for at once, for a container that waits.
        changes_seconds: after which no further look is begun for that container. One takes 10 s at most as a rule
            (`control.ANSWER_SECONDS`), and kubelet waits for 30 s.
        proving_observations: how often in a row a server must be seen ACTIVE after a fault.
        first_backoff_seconds, longest_backoff_seconds: between attempts to start a server.
    """

    manage_compute_mode: bool = True
    terminate_seconds: float = 10.0
    evict_seconds: float = 30.0
    starting_seconds: float = 60.0
    settle_seconds: float = 10.0
    changes_seconds: float = 17.0
    proving_observations: int = 3
    first_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fatal fault, told once by one life of the agent.

    Attributes:
        server: PID of the server that had it; None: unknown.
        affected: PIDs of all clients that it hit.
    """

    server: int | None
    affected: frozenset[int]
    reason: str


@dataclass(frozen=True, kw_only=True)
class State:
    """What is remembered of one GPU between observations; all of it may be lost.

    Attributes:
        server, clients: as they were known last.
        daemon: PID of the control daemon at that time.
        witnesses: those of the clients whose end tells of a fault.
        heard: what a fault was told by, and not proven yet.
        fault: the fault that is not over yet.
        since: when that began.
        proven: how often in a row the server was seen well since.
        starting_since: when it was first seen neither ACTIVE nor FAULT.
        attempts, not_before: starts since it was ACTIVE, and when the next may be.
    """

    server: int | None = None
    clients: frozenset[int] = frozenset()
    daemon: int | None = None
    witnesses: frozenset[int] = frozenset()
    heard: proof.Heard = proof.NOTHING
    fault: Fault | None = None
    since: float = 0.0
    proven: int = 0
    starting_since: float | None = None
    attempts: int = 0
    not_before: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What follows from one observation.

    Attributes:
        state: to remember.
        published: for the GPUNode.
        ready: whether a container of the wanted mode may start now.
        reason: why not.
        actions: to be done now; then the GPU is observed again.
        fault: one that began with this observation.
        unproven: lines of the daemon's output that told of a fault, and that nothing has proven in time.
        starts: whether its server starts, so that it may be ready soon.
        blocking: PIDs that hold the GPU without its server, and keep it from serving. Whose they are, and how long that
            may last, is for others to say.
        answered: False: the daemon does not answer, so a server that nobody knows may be among `blocking`, and the
            others its clients.
    """

    state: State
    published: gpunode.MPS
    ready: bool = False
    reason: str | None = None
    actions: tuple[steps.Action, ...] = ()
    fault: Fault | None = field(default=None)
    unproven: tuple[str, ...] = ()
    starts: bool = False
    blocking: frozenset[int] = frozenset()
    answered: bool = True


def decide(state: State, seen: Seen, wanted: gpunode.Mode | None, *, now: float, policy: Policy) -> Decision:
    """Return what to do now.

    Args:
        state: of the last decision; `State()` at first.
        seen: the observation.
        wanted: what the standing grants ask for; a mode other than Shared and Whole asks for nothing. None: that the
            GPU be as it was before.
        now: of a clock that never goes back.
        policy: bounds.
    """
    if wanted is None:
        return _given_back(seen)
    if wanted not in _COMPUTE_MODE:
        return Decision(state=State(), published=gpunode.MPS.NOT_USED, reason=f"the GPU is {wanted}")
    if wanted is gpunode.Mode.WHOLE:
        return _whole(seen, policy)
    weighed = _weighed(state, seen)
    begun = _begun(state, seen, weighed.proven)
    if begun is not None:
        state, weighed = replace(state, fault=begun, since=now, proven=0), proof.Weighed(heard=proof.FAULT)
    if state.fault is not None:
        decision = _recovering(state, state.fault, seen, now=now, policy=policy)
    else:
        decision = _shared(state, seen, now=now, policy=policy)
    remembered = replace(_remembered(decision.state, seen), heard=weighed.heard)
    return replace(decision, state=remembered, fault=begun, unproven=weighed.unproven)


def _given_back(seen: Seen) -> Decision:
    """No server and the compute mode of before, first one and then the other."""
    server, before = seen.server, seen.before
    if server.pid is None and before is None:
        return Decision(state=State(), published=gpunode.MPS.NOT_USED, reason="it is given back")
    if seen.users:
        return Decision(state=State(), published=server.state, reason=_in_the_way(seen))
    if server.pid is not None:
        return Decision(state=State(), published=server.state, reason="its server ends", actions=(steps.StopServer(),))
    actions = () if before is None else (steps.SetComputeMode(mode=before),)
    return Decision(state=State(), published=server.state, reason="its compute mode is set back", actions=actions)


def _whole(seen: Seen, policy: Policy) -> Decision:
    """No server and DEFAULT, first one and then the other."""
    server = seen.server
    if server.pid is not None:
        if seen.users:
            return Decision(state=State(), published=server.state, reason=_in_the_way(seen))
        return Decision(state=State(), published=server.state, reason="its server ends", actions=(steps.StopServer(),))
    blocked = _compute_mode(seen, gpunode.Mode.WHOLE, policy)
    return blocked or Decision(state=State(), published=gpunode.MPS.NOT_USED, ready=True)


def _shared(state: State, seen: Seen, *, now: float, policy: Policy) -> Decision:
    """EXCLUSIVE_PROCESS and an ACTIVE server, first one and then the other: so nothing slips in between."""
    blocked = _compute_mode(seen, gpunode.Mode.SHARED, policy)
    if blocked is not None:
        return replace(blocked, state=state)
    server = seen.server
    if server.pid is None:
        return _start(state, seen, now, policy)
    if server.outdated:
        return _replaced(state, seen, now, policy)
    if server.state is not gpunode.MPS.ACTIVE:
        return _waiting(state, seen, now, policy)
    calm = replace(state, starting_since=None, attempts=0, not_before=0.0)
    return Decision(state=calm, published=gpunode.MPS.ACTIVE, ready=True)


def _weighed(state: State, seen: Seen) -> proof.Weighed:
    """Weigh what was heard; while a fault is open, it belongs to that fault."""
    if state.fault is not None and state.proven == 0:
        return proof.Weighed(heard=proof.FAULT)
    line = seen.server.faults[-1] if seen.server.faults else None
    return proof.weigh(state.heard, line=line, event=seen.event, loss=_lost(state, seen))


def _lost(state: State, seen: Seen) -> bool:
    """Return whether a server that serves has none of the clients left that it had."""
    server, had = seen.server, state.witnesses - seen.own
    serves = server.state is gpunode.MPS.ACTIVE and server.pid == state.server
    return serves and bool(had) and not had & frozenset(server.clients)


def _begun(state: State, seen: Seen, proven: str | None) -> Fault | None:
    """Return a fault that this observation shows and that was not known yet; `proven`: what the output says of one."""
    server = seen.server
    if state.fault is not None and state.proven == 0:
        return None
    if server.state is gpunode.MPS.FAULT:
        reason, affected = server.reason or "the MPS server is at fault", state.clients | frozenset(server.clients)
    elif _ended_under_clients(state, server):
        reason, affected = f"server {state.server} ended under its clients", state.clients
    elif proven is not None:
        reason, affected = proven, state.clients
    else:
        return None
    hit = server.pid if server.state is gpunode.MPS.FAULT or state.server is None else state.server
    return Fault(server=hit, affected=affected, reason=reason)


def _ended_under_clients(state: State, server: Server) -> bool:
    """Return whether the server that was there has ended, and had clients; not where it was ended in good order.

    A fault of a client ends no control daemon. Where the daemon has gone, too, something else has ended both, as it
    does where the daemons' container is killed.
    """
    ended = state.server is not None and server.pid != state.server and state.server not in server.ended
    outlived = state.daemon is not None and server.daemon == state.daemon
    return ended and outlived and bool(state.clients) and state.fault is None


def _recovering(state: State, fault: Fault, seen: Seen, *, now: float, policy: Policy) -> Decision:
    """First all that the fault hit must end, then the server is replaced, then it must prove itself."""
    server = seen.server
    stayers = _stayers(fault, seen)
    if stayers:
        named = ", ".join(map(str, sorted(stayers)))
        reason = f"{fault.reason}; still there: {named}"
        actions = _against_stayers(stayers, seen, now - state.since, policy)
        kept = replace(state, proven=0, fault=replace(fault, affected=fault.affected | stayers))
        return Decision(state=kept, published=gpunode.MPS.FAULT, reason=reason, actions=actions)
    blocked = _compute_mode(seen, gpunode.Mode.SHARED, policy)
    if blocked is not None:
        return replace(blocked, state=state)
    if server.pid is None:
        return _start(replace(state, proven=0), seen, now, policy)
    if server.pid == fault.server and not seen.users:
        return _restart(state, fault.reason, now, policy)
    if server.state is not gpunode.MPS.ACTIVE:
        return _waiting(replace(state, proven=0), seen, now, policy)
    return _proving(state, fault, policy)


def _proving(state: State, fault: Fault, policy: Policy) -> Decision:
    proven = state.proven + 1
    if proven >= policy.proving_observations:
        return Decision(state=State(), published=gpunode.MPS.ACTIVE, ready=True)
    reason = f"{fault.reason}; seen well {proven} of {policy.proving_observations} times since"
    return Decision(state=replace(state, proven=proven), published=gpunode.MPS.STARTING, reason=reason)


def _stayers(fault: Fault, seen: Seen) -> frozenset[int]:
    """Whom the fault hit and who has not ended. A server that is ACTIVE again has seen all of them end."""
    if seen.server.state is gpunode.MPS.ACTIVE:
        return frozenset()
    if seen.server.state is gpunode.MPS.FAULT:
        return seen.users & (fault.affected | frozenset(seen.server.clients))
    return seen.users & fault.affected


def _against_stayers(stayers: frozenset[int], seen: Seen, seconds: float, policy: Policy) -> tuple[steps.Action, ...]:
    clients = stayers & frozenset(seen.server.clients)
    if seconds >= policy.evict_seconds:
        return (steps.EvictStayers(pids=stayers),)
    if seconds >= policy.terminate_seconds and clients:
        return (steps.TerminateClients(pids=clients),)
    return ()


def _compute_mode(seen: Seen, mode: gpunode.Mode, policy: Policy) -> Decision | None:
    """Return what the compute mode asks for first; None: it is as it should be, or not ours to set."""
    needed = _COMPUTE_MODE[mode]
    if seen.compute_mode is needed:
        return None
    published = gpunode.MPS.NOT_USED if mode is gpunode.Mode.WHOLE else seen.server.state
    decision = Decision(state=State(), published=published, reason=f"its compute mode is {seen.compute_mode}")
    if not policy.manage_compute_mode:
        return decision if seen.compute_mode is ComputeMode.PROHIBITED else None
    if seen.users:
        blocking = seen.bypassing if mode is gpunode.Mode.SHARED else frozenset[int]()
        decision = replace(decision, blocking=blocking, answered=seen.answered)
        return replace(decision, reason=f"{decision.reason}, {_in_the_way(seen)}")
    return replace(decision, actions=(steps.SetComputeMode(mode=needed),))


def _start(state: State, seen: Seen, now: float, policy: Policy) -> Decision:
    reason = seen.server.reason
    if seen.users:
        return _blocked(state, seen)
    if now < state.not_before:
        return Decision(state=state, published=gpunode.MPS.STOPPED, reason=reason)
    tried = _tried(state, now, policy)
    return Decision(state=tried, published=gpunode.MPS.STARTING, reason=reason, actions=(steps.StartServer(),))


def _blocked(state: State, seen: Seen) -> Decision:
    """Return the wait for whoever holds the GPU without a server: a tenant that does so has no limit, and must go."""
    reason = _in_the_way(seen) if seen.answered else f"{seen.server.reason}; {_in_the_way(seen)}"
    decision = Decision(state=state, published=seen.server.state, reason=reason)
    return replace(decision, blocking=seen.bypassing, answered=seen.answered)


def _restart(state: State, reason: str | None, now: float, policy: Policy) -> Decision:
    """Return a server's end and the next one's start at once: whoever came in between would hold the GPU alone."""
    tried = _tried(state, now, policy)
    return Decision(
        state=tried, published=gpunode.MPS.STARTING, reason=reason, actions=(steps.StopServer(), steps.StartServer())
    )


def _tried(state: State, now: float, policy: Policy) -> State:
    backoff = min(policy.first_backoff_seconds * 2.0 ** min(state.attempts, 16), policy.longest_backoff_seconds)
    return replace(state, attempts=state.attempts + 1, not_before=now + backoff)


def _replaced(state: State, seen: Seen, now: float, policy: Policy) -> Decision:
    """Return a restart without a fault: nothing new starts, and once the clients have ended the server does."""
    reason = seen.server.reason or f"server {seen.server.pid} is to be replaced"
    if seen.users:
        return Decision(state=state, published=seen.server.state, reason=f"{reason}; {_in_the_way(seen)}")
    return _restart(state, reason, now, policy)


def _waiting(state: State, seen: Seen, now: float, policy: Policy) -> Decision:
    """Return a server that is neither ACTIVE nor FAULT: it starts, or its daemon does not answer.

    A server that initializes has no clients yet. Whoever holds the GPU meanwhile keeps it from getting ready.
    """
    if seen.bypassing:
        return _blocked(state, seen)
    since = now if state.starting_since is None else state.starting_since
    late = now - since >= policy.starting_seconds and not seen.users
    return Decision(
        state=replace(state, starting_since=None if late else since),
        published=seen.server.state,
        reason=seen.server.reason,
        actions=(steps.StopServer(),) if late else (),
        starts=seen.server.initializes and not late,
    )


def _remembered(state: State, seen: Seen) -> State:
    """Return the state.

    A server of which nobody can tell now has those of the clients that it had that still hold the GPU: it did not end
    under the others.
    """
    server = seen.server
    asked = server.state in {gpunode.MPS.ACTIVE, gpunode.MPS.FAULT} or server.pid is None or server.outdated
    clients = frozenset(server.clients) if asked else state.clients & seen.processes
    witnesses = (clients if asked else state.witnesses & seen.processes) - seen.own
    return replace(
        state,
        server=server.pid,
        clients=clients,
        daemon=server.daemon,
        witnesses=witnesses,
    )


def _in_the_way(seen: Seen) -> str:
    named = sorted(seen.users)
    more = f" and {len(named) - 8} more" if len(named) > 8 else ""
    return f"used by {', '.join(map(str, named[:8]))}{more}"
