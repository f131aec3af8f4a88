"""What goes wrong, when, by a seed: parts are killed, paused and cut off, the API server fails, people do things.

Each action says when it is over; `heal` ends all that still lasts.
"""

import functools
from collections.abc import Callable
from typing import Any, Protocol

import orjson

from api_server import pods
from cotenant_api import packingpolicy
from cotenant_api.names import GPUUID
from cotenant_extender.kube import transport
from simulation import hosts, jobs, kubelets, network, processes, sites
from simulation.world import World

EVERY_SECONDS = (0.7, 1.5, 3.0, 6.0)
ARRIVAL_SECONDS = 3.0
SERVED = 0.4
"""How many worlds have services, which only jobs of a higher priority move. Budgets guard them for a while."""
CLOCKS_SET = 0.4
"""In how many worlds the clocks of hosts are set, forth and back."""
CLOCK_SECONDS = 8.0
AHEAD_SECONDS = (-3600.0, -90.0, -12.0, -2.5, 0.0, 2.5, 12.0, 90.0, 3600.0)

Action = Callable[[], None]


class Of(Protocol):
    """Something that befalls one of a host's containers."""

    def __call__(self, host: hosts.Host, *, extender: bool) -> None:
        """Do it."""


class Chaos:
    """The source of everything bad in one world."""

    def __init__(self, world: World) -> None:
        self._world, self._rng = world, world.rng("chaos")
        self._over = False
        self._count = 0
        every: list[tuple[int, Action]] = [
            (6, functools.partial(self._of_any, self._kill, extender=True)),
            (4, functools.partial(self._of_any, self._pause, extender=True)),
            (2, functools.partial(self._of_any, self._terminate, extender=True)),
            (3, functools.partial(self._of_any, self._kill, extender=False)),
            (2, functools.partial(self._of_any, self._pause, extender=False)),
            (3, functools.partial(self._of_any, self._terminate, extender=False)),
            (6, self._wake_late),
            (4, self._kill_agent),
            (3, self._kill_kubelet),
            (4, self._partition),
            (2, self._outage),
            (2, self._compact),
            (2, world.network.cut_watches),
            (4, self._delete_pod),
            (2, self._delete_job),
            (2, self._break_gpu),
            (2, self._cordon),
            (1, self._lose_node),
            (4, self._change_policy),
            (1, self._bind_without_placement),
        ]
        # Each world knows some kinds of trouble only: where everything fails at once, little happens.
        self._actions = [action for action in every if self._rng.random() < 0.35] or every[:1]
        self._every_seconds = self._rng.choice(EVERY_SECONDS)
        self._users = world.rng("services")
        self._services = self._users.random() < SERVED
        self._clocks = world.rng("clocks")
        self._sets_clocks = self._clocks.random() < CLOCKS_SET

    def begin(self, *, trouble: float, late: float, jobs_first: int) -> None:
        """From now on."""
        self._world.network.weather.trouble, self._world.network.weather.late = trouble, late
        self._world.jobs.late.begin()
        for _ in range(jobs_first):
            self._submit()
        self._world.network.on_slow = self._at_a_slow_binding
        for host in self._world.hosts:
            host.on_call = functools.partial(self._at_a_call, host)
        self._next()
        self._arrive()
        if self._sets_clocks:
            self._set_clock()

    def heal(self) -> None:
        """It is over: whatever lasts ends, and everything that is down starts."""
        world = self._world
        self._over = True
        world.network.weather = network.Weather()
        for link in list(world.network.links):
            if link.partitioned:
                link.heal()
        for host in world.hosts:
            if self._sets_clocks:
                host.set_clock(ahead=0.0)
            for process in (host.extender_process, host.scheduler_process):
                if process is not None and process.paused:
                    process.resume()
        for site in world.sites:
            site.cordon(cordoned=False)
            for uuid in site.machine.gpus:
                site.sicken(uuid, sick=False)
        world.budgets.release()
        world.change_policy(**{"paused": False, **world.policy})
        world.say("chaos is over")

    def _set_clock(self) -> None:
        """Somebody sets a host's clock, for a while."""
        if self._over:
            return
        host = self._clocks.choice(self._world.hosts)
        host.set_clock(ahead=self._clocks.choice(AHEAD_SECONDS))
        self._world.later(self._clocks.expovariate(1.0 / CLOCK_SECONDS), self._set_clock)

    def _at_a_slow_binding(self, sender: network.Link, request: transport.Request) -> None:
        """The worst moment to lose a leader, or the GPU: a Binding is under way."""
        host = next((host for host in self._world.hosts if host.extender_link is sender), None)
        if host is None or self._over:
            return
        match self._rng.random():
            case chance if chance < 0.15:
                self._terminate(host, extender=False)
            case chance if chance < 0.25:
                self._kill(host, extender=False)
            case chance if chance < 0.40:
                self._kill(host, extender=True)
            case chance if chance < 0.50:
                self._pause(host, extender=True)
            case chance if chance < 0.65:
                node = orjson.loads(request.body or b"{}")["target"]["name"]
                self._break_all(next(site for site in self._world.sites if site.name == node))

    def _break_all(self, site: sites.Site) -> None:
        """What was promised on a node goes elsewhere."""
        self._world.say(f"all GPUs of {site.name} break")
        for uuid in site.machine.gpus:
            site.sicken(uuid, sick=True)
            self._world.later(self._rng.uniform(6.0, 15.0), functools.partial(site.sicken, uuid, sick=False))

    def _at_a_call(self, host: hosts.Host, verb: str) -> None:
        """The worst moment to be paused: there is a request to answer, which it does when it wakes."""
        if self._over or verb != "bind" or self._rng.random() > 0.05:
            return
        self._pause(host, extender=True)
        if self._rng.random() < 0.5:
            self._terminate(host, extender=False)

    def _next(self) -> None:
        if self._over:
            return
        weights = [weight for weight, _ in self._actions]
        _, action = self._rng.choices(self._actions, weights)[0]
        action()
        self._world.later(self._rng.expovariate(1.0 / self._every_seconds), self._next)

    def _arrive(self) -> None:
        """Users create jobs."""
        if not self._over:
            self._submit()
            self._world.later(self._rng.expovariate(1.0 / ARRIVAL_SECONDS), self._arrive)

    def _submit(self) -> None:
        world, rng = self._world, self._rng
        big = [len(site.machine.gpus) for site in world.sites if site.machine.model.endswith("H200")]
        self._count += 1
        job = jobs.random_job(rng, f"j{self._count}", big_gpus=max(big), all_gpus=sum(big))
        if self._services and self._users.random() < 0.3:
            job = jobs.as_service(job)
        world.say(f"user creates {job}")
        (world.budgets.guard_for_now if job.service else world.budgets.guard)(job)
        world.jobs.submit(job)

    def _of_any(self, do: "Of", *, extender: bool) -> None:
        do(self._rng.choice(self._world.hosts), extender=extender)

    def _kill(self, host: hosts.Host, *, extender: bool) -> None:
        process = _process(host, extender=extender)
        if process is None or not process.alive:
            return
        self._world.say(f"kill {process.name}")
        (host.kill_extender if extender else host.kill_scheduler)()

    def _terminate(self, host: hosts.Host, *, extender: bool) -> None:
        process = _process(host, extender=extender)
        if process is None or not process.alive:
            return
        self._world.say(f"terminate {process.name}")
        self._world.spawn(host.stop_extender() if extender else host.stop_scheduler())

    def _pause(self, host: hosts.Host, *, extender: bool) -> None:
        process = _process(host, extender=extender)
        if process is None or not process.alive or process.paused:
            return
        seconds = self._rng.choice([0.5, 3.0, 8.0, 14.0, 20.0, 40.0])
        self._world.say(f"pause {process.name} for {seconds} s")
        process.pause()
        link = host.extender_link if extender else host.scheduler_link
        self._world.later(max(seconds - 0.8, 0.0), self._submit_more)
        self._world.later(seconds, lambda: self._wake(process, link))

    def _wake_late(self) -> None:
        """A leader sleeps until another has taken over, and wakes to pods that wait to be bound."""
        holder = self._world.holder()
        leader = next((host for host in self._world.hosts if holder.startswith(f"{host.name}_")), None)
        other = next((host for host in self._world.hosts if host is not leader), None)
        sleeper = None if leader is None else leader.scheduler_process
        if leader is None or other is None or sleeper is None or not sleeper.alive or sleeper.paused:
            return
        seconds = self._rng.uniform(18.0, 24.0)
        self._world.say(f"{sleeper.name} sleeps for {seconds:.1f} s, and wakes late")
        sleeper.pause()
        self._world.later(seconds - 0.8, self._submit_more)
        self._world.later(seconds - 0.3, lambda: self._nap(other))
        self._world.later(seconds, lambda: self._wake(sleeper, leader.scheduler_link, cut_off=True))

    def _nap(self, host: hosts.Host) -> None:
        """A scheduler stands still for a moment."""
        process = host.scheduler_process
        if process is not None and process.alive and not process.paused and not self._over:
            process.pause()
            self._world.later(1.5, lambda: self._wake(process, None))

    def _submit_more(self) -> None:
        """There is work just when somebody wakes late."""
        if not self._over:
            self._submit()
            self._submit()

    def _wake(self, process: processes.Process, link: network.Link | None, *, cut_off: bool = False) -> None:
        """It goes on where it was; sometimes before it can hear of what happened meanwhile."""
        if not process.paused:
            return
        process.resume()
        if link is not None and not self._over and (cut_off or self._rng.random() < 0.5):
            link.partition()
            self._world.later(4.0, lambda: _mend(link))

    def _kill_agent(self) -> None:
        site = self._rng.choice(self._world.sites)
        self._world.say(f"kill the agent of {site.name}")
        site.kill_agent()

    def _kill_kubelet(self) -> None:
        site = self._rng.choice(self._world.sites)
        self._world.say(f"kill the kubelet of {site.name}")
        site.kill_kubelet()

    def _partition(self) -> None:
        links = [link for link in self._world.network.links if not link.cut and not link.partitioned]
        if not links:
            return
        link = self._rng.choice(links)
        seconds = self._rng.choice([1.0, 5.0, 12.0, 25.0])
        self._world.say(f"partition {link.name} for {seconds} s")
        link.partition()
        self._world.later(seconds, lambda: _mend(link))

    def _outage(self) -> None:
        seconds = self._rng.choice([0.5, 4.0, 15.0])
        self._world.say(f"the API server is down for {seconds} s")
        weather = self._world.network.weather
        weather.down = True
        self._world.network.cut_watches()
        self._world.later(seconds, lambda: setattr(weather, "down", False))

    def _compact(self) -> None:
        self._world.say("compaction")
        self._world.objects.compact()
        self._world.network.cut_watches()

    def _delete_pod(self) -> None:
        everybody = self._world.objects.objects[pods.PODS].values()
        found = [value for value in everybody if value["metadata"]["namespace"] != kubelets.SYSTEM]
        if found:
            value, force = self._rng.choice(found), self._rng.random() < 0.5
            self._world.say(f"user deletes {value['metadata']['name']}{' by force' if force else ''}")
            self._world.jobs.delete_pod(value, force=force)

    def _delete_job(self) -> None:
        names = [name for name, state in self._world.jobs.states.items() if not state.deleted]
        if names:
            name = self._rng.choice(names)
            self._world.say(f"user deletes job {name}")
            self._world.jobs.delete(name)

    def _break_gpu(self) -> None:
        site = self._rng.choice(self._world.sites)
        uuid: GPUUID = self._rng.choice(site.machine.gpus)
        self._world.say(f"{uuid} breaks")
        site.sicken(uuid, sick=True)
        self._world.later(self._rng.uniform(2.0, 20.0), lambda: site.sicken(uuid, sick=False))

    def _cordon(self) -> None:
        site = self._rng.choice(self._world.sites)
        self._world.say(f"cordon {site.name}")
        site.cordon(cordoned=True)
        self._world.later(self._rng.uniform(2.0, 20.0), lambda: site.cordon(cordoned=False))

    def _lose_node(self) -> None:
        site = self._rng.choice(self._world.sites)
        if not site.machine.on:
            return
        self._world.say(f"{site.name} is lost")
        site.lose()
        self._world.later(self._rng.uniform(8.0, 20.0), site.start)

    def _change_policy(self) -> None:
        rng = self._rng
        change: dict[str, Any] = rng.choice(
            [
                {"maxTenantsPerGPU": rng.choice([1, 2, 3])},
                {"tenancy": rng.choice(["SameNamespace", "Any"])},
                {"memoryHeadroomPercent": rng.choice([0, 5, 30])},
                {"placement": str(rng.choice(list(packingpolicy.Placement)))},
                {"paused": True},
                {"maxUtilizationPercent": rng.choice([80, 100, 150])},
            ]
        )
        self._world.say(f"policy: {change}")
        self._world.change_policy(**change)
        if "paused" in change:
            self._world.later(rng.uniform(1.0, 10.0), lambda: self._world.change_policy(paused=False))

    def _bind_without_placement(self) -> None:
        """A person binds a pod by hand, against the rules."""
        loose = [
            value
            for value in self._world.objects.objects[pods.PODS].values()
            if not value["spec"].get("schedulingGates") and not value["spec"].get("nodeName")
        ]
        if loose:
            value = self._rng.choice(loose)
            site = self._rng.choice(self._world.sites)
            self._world.say(f"{value['metadata']['name']} is bound to {site.name} by hand")
            self._world.bind_by_hand(value, site.name)


def _process(host: hosts.Host, *, extender: bool) -> processes.Process | None:
    return host.extender_process if extender else host.scheduler_process


def _mend(link: network.Link) -> None:
    if link.partitioned:
        link.heal()


def restart_what_is_down(world: World) -> None:
    """What a container runtime does: whatever died starts again."""
    for host in world.hosts:
        if not _alive(host.extender_process):
            host.start_extender()
        if not _alive(host.scheduler_process):
            host.start_scheduler()
    for site in world.sites:
        _restart(site)


def _restart(site: sites.Site) -> None:
    if site.machine.on and not _alive(site.agent_process):
        site.start_agent()
    if site.machine.on and not _alive(site.kubelet_process):
        site.start_kubelet()


def _alive(process: processes.Process | None) -> bool:
    return process is not None and process.alive
