"""Lines of measurements."""

from typing import Any

from cotenant_api import measurement
from cotenant_api.names import GPUModel, GraphDigest

Json = dict[str, Any]


def line(name: str, *, graph: str = "sha256:a", peak_mib: int | None = 1000, **fields: Any) -> measurement.Measurement:
    """What was measured of one pod."""
    values = measurement.Values(memory_peak_mib=peak_mib, utilization=fields.pop("utilization", None))
    missing = [key for key, value in values.model_dump(by_alias=True).items() if value is None]
    content: Json = {
        "id": name,
        "group": graph,
        "graph": GraphDigest(graph),
        "gpu_model": GPUModel("NVIDIA-H200"),
        "mechanism": measurement.Mechanism.ALONE,
        "duration_seconds": 60.0,
        "outcome": measurement.Outcome.OK,
        "simulated": False,
        "values": values,
        "reasons": dict.fromkeys(missing, "no agent sees it"),
        "environment": measurement.Environment(driver="d", cuda="c", torch="t", cpu="x", commit="y"),
    }
    return measurement.Measurement(**(content | fields))
