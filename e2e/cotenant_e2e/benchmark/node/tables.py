"""The measurement as Markdown: ratios first, then what they are made of, then the conditions. Pure."""

from cotenant_e2e.benchmark.node import results
from cotenant_e2e.benchmark.node.crowd import Usage
from cotenant_e2e.benchmark.node.results import Measurement, Ratio, Row


def lines(measured: Measurement) -> list[str]:
    """All of it."""
    pods = measured.crowds[0].pods
    return [
        "| time with a share to the same pods without | median ratio | least to most | with, s | without, s | rounds |",
        "|---|---:|---|---:|---:|---:|",
        _ratio("one pod, from its binding to its container's first output", measured.one()),
        _ratio(
            f"{pods} pods on one node, from the first creation to the last container's first output", measured.many()
        ),
        "",
        "| kubelet's call | pods at once | answered | p50 ms | p99 ms | refused, made again |",
        "|---|---:|---:|---:|---:|---:|",
        *(_row(row) for row in measured.rows()),
        "",
        "| the agent | for s | CPU s | % of a core | MPS control programs, CPU s | memory MiB | peak MiB |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(_usage(name, usage) for name, usage in measured.usages()),
        "",
        conditions(measured),
    ]


def conditions(measured: Measurement) -> str:
    """Return a paragraph."""
    return (
        f"kubelet 1.36 and containerd 2.3 on {results.CORES} cores for everything, control plane and tenants too; "
        f"{measured.gpus} stand-in GPUs. Pods with a share and without in turns, in equal images, with the agent "
        "running; without one the default scheduler binds them. Singly each call was measured by itself; at once, "
        "figures lie between the bounds of a histogram (`cotenant_device_plugin_rpc_duration_seconds`). The first "
        "pods on a GPU wait for its MPS server. NVIDIA's driver and MPS are stand-ins: the CPU of their control "
        "program, a Python script here, stands by itself and is in no figure of the agent's; that of their NVML "
        "library, which reads files, is in the agent's; both, and the stand-in daemons', are in the times. "
        f"Bars: memory below {results.RSS_BAR_MIB} MiB, idle below {results.IDLE_BAR_PERCENT} % of a core."
    )


def _ratio(what: str, one: Ratio) -> str:
    spread = f"{one.least:.2f} to {one.most:.2f}"
    seconds = f"{one.shared_seconds:.2f} | {one.plain_seconds:.2f}"
    return f"| {what} | **{one.median:.2f}** | {spread} | {seconds} | {one.count} |"


def _row(row: Row) -> str:
    about = "" if row.exact else "about "
    figures = f"{about}{row.median_milliseconds:.1f} | {about}{row.p99_milliseconds:.1f}"
    return f"| {row.method} | {row.pods} | {row.count} | {figures} | {row.refused} |"


def _usage(name: str, usage: Usage) -> str:
    cpu = f"{usage.cpu_seconds:.2f} | {usage.cpu_percent:.2f} | {usage.programs_seconds:.2f}"
    return f"| {name} | {usage.seconds:.0f} | {cpu} | {usage.rss_mib:.0f} | {usage.peak_mib:.0f} |"
