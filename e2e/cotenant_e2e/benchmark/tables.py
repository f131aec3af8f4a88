"""Measurements as Markdown. Pure."""

from collections.abc import Mapping, Sequence

from cotenant_e2e.benchmark import blocking, inside, times
from cotenant_e2e.benchmark.results import Found, Measurement
from cotenant_e2e.benchmark.rounds import Contender


def lines(measurements: Sequence[Measurement]) -> list[str]:
    """Ratios first, then what they are made of, then the conditions."""
    found = [
        "| nodes | pods per second as a ratio to the same pods without Cotenant | median | least to most | bar | aim |",
        "|---:|---|---:|---|---:|---:|",
    ]
    found += [_ratio(measured, one) for measured in measurements for one in measured.found()]
    found += [
        "",
        "| nodes | pods go | pods/s | CPU ms per pod | kube-apiserver | etcd | kube-scheduler | extender | benchmark |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    found += [_contender(measured, one) for measured in measurements for one in measured.contenders]
    return [*found, "", *(conditions(one) for one in measurements)]


def of_extender(measured: Sequence[inside.Measurement], blocks: Mapping[int, blocking.Blocks]) -> list[str]:
    """Return the process at each size, then a row for each size and kind of request, then the conditions.

    `blocks`: by the number of nodes.
    """
    found = [
        "| nodes | placed pods | events/s | memory MiB | start s |",
        "|---:|---:|---:|---:|---:|",
    ]
    found += [
        f"| {one.size.nodes} | {one.size.pods} | {one.events_per_second:,.0f} | {one.memory_mib} | "
        f"{one.start_seconds:.1f} |"
        for one in measured
    ]
    found += [
        "",
        "| nodes | filter of a pod that | candidates | HTTP: median ms | p99 ms | handler: median ms | p99 ms |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for one in measured:
        over_http = {(asked.what, asked.candidates): asked for asked in one.filters}
        found += [
            f"| {one.size.nodes} | {asked.what} | {asked.candidates} | "
            f"{_milliseconds(over_http.get((asked.what, asked.candidates)))} | {_milliseconds(asked)} |"
            for asked in one.handlers
        ]
    note = f"Simulated GPUs, eight a node; HTTP on loopback; {inside.CORES} cores for everything."
    found += ["", note]
    for nodes, longest in blocks.items():
        found += ["", *_turns(nodes, longest)]
    return found


def _turns(nodes: int, found: blocking.Blocks) -> list[str]:
    rows = {
        "the lists are read": found.lists,
        "everything is looked at for the first time": found.first_passes,
        **{f"`placement: {name}` comes into force": value for name, value in found.placements.items()},
        "`queue.order: FIFO` comes into force": found.order,
    }
    lines = [f"| longest turn of the event loop at {nodes} nodes, while | ms |", "|---|---:|"]
    return [*lines, *(f"| {what} | {value:.0f} |" for what, value in rows.items()), "", blocking.CONDITIONS]


def _milliseconds(found: times.Times | None) -> str:
    return " | " if found is None else f"{found.median_milliseconds:.2f} | {found.p99_milliseconds:.2f}"


def conditions(measured: Measurement) -> str:
    """One sentence."""
    pods = measured.rounds[0].pods if measured.turns else 0
    named = "".join(f" ({key}: {count})" for key, count in measured.failures.items())
    return (
        f"{measured.nodes} nodes: median of {len(measured.turns)} turns of {pods} pods, interleaved, on "
        f"{measured.gpus} simulated GPUs; {measured.cores} cores for everything; {measured.timeouts} requests timed "
        f"out, {measured.turned_away} were turned away by the API server, "
        f"{sum(measured.failures.values())} ended otherwise than well{named}."
    )


def _ratio(measured: Measurement, one: Found) -> str:
    bar, aim = (_limit(limits.get(measured.nodes)) for limits in (one.ratio.bar, one.ratio.aim))
    spread = f"{one.least:.2f} to {one.most:.2f}"
    return f"| {measured.nodes} | {one.ratio.name} | **{one.median:.2f}** | {spread} | {bar} | {aim} |"


def _limit(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _contender(measured: Measurement, contender: Contender) -> str:
    spent = measured.cpu_milliseconds_per_pod(contender)
    scheduler = spent.get("cotenant-scheduler", 0.0) + spent.get("plain-scheduler", 0.0)
    each = (
        sum(spent.values()),
        spent.get("kube-apiserver", 0.0),
        spent.get("etcd", 0.0),
        scheduler,
        spent.get("cotenant-extender", 0.0),
        spent.get("benchmark", 0.0),
    )
    times = " | ".join(f"{one:.2f}" for one in each)
    return f"| {measured.nodes} | {contender} | {measured.pods_per_second(contender):.0f} | {times} |"
