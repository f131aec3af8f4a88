"""Small clusters and arrivals by hand."""

from collections.abc import Sequence

from cotenant_simulator.openb import arrivals, trace


def node(name: str = "n", *, gpus: int = 2, cpu: int = 64_000, model: str = "A", memory: int = 65_536) -> trace.Node:
    return trace.Node(name=name, cpu_millis=cpu, memory_mib=memory, gpus=gpus, model=model)


def pod(milli: int = 500, *, gpus: int = 1, cpu: int = 1000, models: Sequence[str] = (), memory: int = 1) -> trace.Pod:
    return trace.Pod(
        name=f"{gpus}x{milli}",
        cpu_millis=cpu,
        memory_mib=memory,
        gpus=gpus,
        milli=milli if gpus else 0,
        models=frozenset(models),
    )


def arriving(nodes: Sequence[trace.Node], pods: Sequence[trace.Pod]) -> tuple[trace.Trace, arrivals.Order]:
    """A trace of these, and their arrival in this order."""
    made = trace.Trace(name="by-hand", nodes=tuple(nodes), pods=tuple(pods))
    return made, arrivals.Order(tuple(pods), tuple(nodes))
