"""A run with everything in it, as a process of its own: prints the digest of its history."""

import dataclasses
import hashlib
import random

from cotenant_simulator.engine import conditions, faults, history, interference, jobs, ways, world
from cotenant_simulator.twin import sites
from simulator import jobs_kit

JOBS = 40


def drawn(seed: int) -> list[jobs.Job]:
    """Jobs alone and in gangs, of two priorities, some of them unknown and some of them larger than predicted."""
    chance = random.Random(seed)  # noqa: S311 -- the same draw everywhere
    kinds = [
        jobs_kit.job(
            f"k{index}",
            chance.randint(5, 100),
            real=jobs_kit.needs(chance.randint(5, 100), memory_mib=chance.randint(500, 3000)),
        ).kind
        for index in range(8)
    ]
    kinds += [dataclasses.replace(kind, predicted=None) for kind in kinds[:3]]
    return [
        jobs.Job(
            name=f"j{number}",
            kind=chance.choice(kinds),
            arrives=chance.uniform(0, 2000),
            seconds={jobs_kit.MODEL: chance.uniform(200, 2000)},
            replicas=chance.choice((1, 1, 1, 2, 3)),
            priority=chance.choice((0, 0, 3)),
            checkpoint_seconds=chance.choice((None, 300.0)),
        )
        for number in range(JOBS)
    ]


def ran(seed: int) -> history.History:
    """The same in every process."""
    nodes = sites.alike(2, gpus=4, model=jobs_kit.MODEL, memory_mib=jobs_kit.GPU_MIB)
    rates = [faults.Rate(what=what, mean_seconds_between=30_000.0, repair_seconds=600.0) for what in faults.What]
    broken = faults.drawn(nodes, rates, until_seconds=10_000.0, seed=seed)
    made = world.World(
        nodes,
        drawn(seed),
        way=ways.Hybrid(),
        policy=jobs_kit.policy(max_utilization_percent=150, queue={"onMissingPrediction": "Profile"}),
        speeds=interference.Interference(jobs_kit.PRIOR, interference.MPS),
    )
    under = conditions.Conditions(faults=broken, bind_seconds=3.0, start_seconds=10.0, spans=True)
    return made.run(under=under)


if __name__ == "__main__":
    print(hashlib.sha256(repr(ran(1)).encode()).hexdigest())
