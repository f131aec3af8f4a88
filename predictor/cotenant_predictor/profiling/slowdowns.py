"""Slowdown against utilization: a row for each tenant of every run of several, each mechanism for itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def rows(lines: Iterable[Mapping[str, Any]], utilization: Mapping[str, float]) -> list[dict[str, Any]]:
    """Slowdown `(T_colo - T_solo) / T_solo` and the utilization of all tenants summed, in percent.

    Args:
        lines: measurement documents.
        utilization: predicted, in percent, by graph.
    """
    found = []
    for line in lines:
        speed, others = line["values"]["normalizedSpeed"], line["coTenants"]
        graphs = [line["graph"], *(other["graph"] for other in others)]
        if others and speed and all(graph in utilization for graph in graphs):
            found.append(
                {
                    "id": line["id"],
                    "mechanism": line["mechanism"],
                    "simulated": line["simulated"],
                    "tenants": len(graphs),
                    "limited": any(t["threadPercentage"] not in (None, 100) for t in [line, *others]),
                    "graph": line["graph"],
                    "summedUtilizationPercent": round(sum(utilization[graph] for graph in graphs), 3),
                    "slowdown": round(1 / speed - 1, 6),
                }
            )
    return found
