"""The memory limits that the chart gives our programs, from its values."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from cotenant_api import quantity
from cotenant_e2e import components, configuration, installation

_VALUES: Final = configuration.REPOSITORY / "charts" / "cotenant" / "values.yaml"


def of_chart() -> Mapping[str, float]:
    """Return the memory limit of each process that the soak weighs and the chart deploys, in MiB."""
    values: Mapping[str, Any] = yaml.safe_load(_VALUES.read_text())
    scheduler = values["scheduler"]
    return {
        installation.OPERATOR: _limit_mib(values["operator"], "operator"),
        installation.EXTENDER: _limit_mib(scheduler, "scheduler"),
        components.COTENANT_SCHEDULER: _limit_mib(scheduler["kubeScheduler"], "scheduler.kubeScheduler"),
    }


def _limit_mib(values: Mapping[str, Any], field: str) -> float:
    found = quantity.parse(values["resources"]["limits"]["memory"], field=f"{field}.resources.limits.memory")
    return float(found) / quantity.BYTES_PER_MIB
