"""The chart as helm renders it, for tests."""

import copy
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from cotenant_api import names
from cotenant_e2e import binaries, charts, progress, versions

Object = dict[str, Any]

FOLDER: Final = Path(__file__).parent
REGISTRY: Final = "registry.invalid"
"""That of the manifests; the chart has none by default."""
MONITORING: Final = "monitoring.coreos.com/v1"
NAMED: Final = ("--values", str(FOLDER / "named.yaml"))
"""Names that registry: every rendering needs one."""
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "default": (),
    "observe": ("--set", "mode=Observe"),
    "everything": ("--values", str(FOLDER / "everything.yaml"), "--api-versions", MONITORING),
}
"""Command-line arguments of each golden rendering."""


@functools.cache
def helm() -> Path:
    """The program; built where it is not there."""
    wanted = (versions.HELM,)
    found = binaries.find(environment=os.environ, progress=progress.PlainProgress(sys.stderr), programs=wanted)
    return found[versions.HELM.name]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Helm, whatever it says."""
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False, timeout=60)


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`helm template` of the chart in its usual namespace."""
    return run("template", "cotenant", str(charts.CHART), "--namespace", names.RELEASE_NAMESPACE, *NAMED, *arguments)


@functools.cache
def rendered(name: str) -> str:
    """One of `VALUES`, as text."""
    done = template(*VALUES[name])
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(name: str) -> list[Object]:
    """The objects of one of `VALUES`; they may be changed."""
    return copy.deepcopy(list(_parsed(name)))


@functools.cache
def _parsed(name: str) -> tuple[Object, ...]:
    return tuple(item for item in yaml.safe_load_all(rendered(name)) if item)


def one(name: str, kind: str, called: str) -> Object:
    """An object by kind and name."""
    (found,) = (item for item in objects(name) if (item["kind"], item["metadata"]["name"]) == (kind, called))
    return found


def pods(name: str) -> Iterator[tuple[str, Object]]:
    """Name and pod spec of every workload."""
    for item in objects(name):
        spec = item["spec"]["jobTemplate"]["spec"] if item["kind"] == "CronJob" else item.get("spec", {})
        if item["kind"] in {"Deployment", "DaemonSet", "Job", "CronJob"}:
            yield item["metadata"]["name"], spec["template"]["spec"]


def containers(name: str) -> Iterator[tuple[str, Object, Object]]:
    """Workload, pod spec and container, of every container."""
    for workload, pod in pods(name):
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            yield workload, pod, container
