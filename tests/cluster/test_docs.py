"""The get-started pages, word by word, on a control plane of their own; and every manifest of the pages, as a dry run.

The chart's pods are simulated. What would run in them runs as processes beside, from the moment that the chart asks
for it; nothing else is done between the commands of a page.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart import rendering
from cluster.workloads import RUN_FOR
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import components, configuration, installation, nodes, startup, testing, waiting
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.documentation import blocks

ROOT = configuration.REPOSITORY
STEPS = blocks.run_by("tests/cluster/test_docs.py", ROOT)
INSTALLED = [f"docs/get-started/{name}.md" for name in ("observe", "pack", "first-dljob", "first-pod", "upgrade")]
REMOVED = "docs/get-started/uninstall.md"
SECONDS = 180
HOOK = "app.kubernetes.io/name=cotenant-uninstall"
RUNTIME_CLASS = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
APPLIED_ELSEWHERE = ("docs/dljob.md",)
"""`test_examples.py` applies what this page shows."""


def manifest(block: blocks.Block) -> str:
    """What a page shows to be applied, or what a command prints there; empty: this is none."""
    if block.reason or block.page in APPLIED_ELSEWHERE:
        return ""
    if block.language == "yaml":
        return block.text if block.text.startswith("apiVersion:") else ""
    _, found, rest = block.text.partition("\napiVersion:")
    return f"{found}{rest}" if block.language == "console" else ""


MANIFESTS = {f"{block.page}:{block.line}": text for block in blocks.of_pages(ROOT) if (text := manifest(block))}


@dataclass
class Reader:
    """Somebody who types what a page says, in a shell in a folder that looks like the repository."""

    cluster: Cluster
    folder: Path
    acting: set[str] = field(default_factory=set)

    def types(self, step: blocks.Step) -> None:
        """Run it, and look at what it prints."""
        with ThreadPoolExecutor(1) as pool:
            typed = pool.submit(self._run, step.script)
            waiting.wait_until(
                lambda: typed.done() or self._ends_hooks(), "the commands' end", SECONDS, every_seconds=0.2
            )
            done = typed.result()
        assert done.returncode == 0, f"{step.script}\n{done.stdout}\n{done.stderr}"
        assert blocks.missing(step, done.stdout) == [], done.stdout
        self.act()

    def _run(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-euo", "pipefail", "-c", script]
        environment = self.environment()
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )

    def _ends_hooks(self) -> bool:
        """Have simulated pods of the chart's hooks succeed, which helm waits for; False: it may go on waiting."""
        pods = clients.path_of("pods", namespace=names.RELEASE_NAMESPACE)
        for pod in self.cluster.client.items(pods, labelSelector=HOOK):
            if RUN_FOR not in pod["metadata"].get("annotations", {}):
                change = {"metadata": {"annotations": {RUN_FOR: "0s"}}}
                self.cluster.client.patch(f"{pods}/{pod['metadata']['name']}", change)
        return False

    def environment(self) -> dict[str, str]:
        """As a reader's shell has it."""
        homes = {
            f"HELM_{kind}_HOME": str(self.cluster.directory / "helm" / kind) for kind in ("CACHE", "CONFIG", "DATA")
        }
        programs = [self.folder / "bin", Path(sys.executable).parent]
        return {
            **os.environ,
            **homes,
            "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
            "KUBECONFIG": str(self.cluster.kubeconfig()),
            "KUBECACHEDIR": str(self.cluster.directory / "kubectl-cache"),
            "NODE": self.cluster.client.items(clients.path_of("nodes"))[0]["metadata"]["name"],
        }

    def act(self) -> None:
        """Start what the chart has asked for since."""
        if self._asked("cotenant-operator"):
            installation.start_operator(self.cluster)
            installation.start_agents(self.cluster)
        if self._asked("cotenant-scheduler"):
            port = self.cluster.free_port(installation.EXTENDER)
            installation._start_extender(self.cluster, port)
            self.cluster.start_scheduler(extender_port=port)
            ready = installation.Installation(self.cluster, port).extender_url("readyz")
            waiting.wait_until(lambda: clients.answers(ready), "ready extender", SECONDS)

    def _asked(self, name: str) -> bool:
        path = clients.path_of("deployments", group="apps", namespace=names.RELEASE_NAMESPACE, name=name)
        if name in self.acting or self.cluster.client.find(path) is None:
            return False
        self.acting.add(name)
        return True


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A control plane with GPU nodes on which nobody has installed anything, and the programs that pages use."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("charts", "manifests", "docs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin").mkdir()
    with testing.control_plane(tmp_path_factory.mktemp("docs"), startup.Options(nodes=nodes.demo())) as cluster:
        (folder / "bin" / "helm").symlink_to(rendering.helm())
        (folder / "bin" / "kubectl").symlink_to(cluster.settings.programs[components.KUBECTL])
        cluster.client.create(clients.path_of("runtimeclasses", group="node.k8s.io"), RUNTIME_CLASS)
        yield Reader(cluster, folder)


def test_the_pages_are_all_run() -> None:
    assert set(STEPS) == {*INSTALLED, REMOVED}


@pytest.mark.parametrize("page", INSTALLED)
def test_a_page_works_word_by_word(reader: Reader, page: str) -> None:
    for step in STEPS[page]:
        reader.types(step)


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_the_api_server_takes_a_manifest(reader: Reader, text: str) -> None:
    flags = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    reader.cluster.kubectl("apply", *flags, "--filename", "-", stdin=text)
    for value in yaml.safe_load_all(text):
        if names.GPU_SHARE in json.dumps(value.get("spec", {}).get("template", {})):
            assert admitted(reader.cluster, value["spec"])["schedulerName"] == names.SCHEDULER_NAME


def admitted(cluster: Cluster, spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod of a controller's template as admission leaves it; it is not kept."""
    template = spec["template"]
    claims = [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    metadata = {"generateName": "page-", **template.get("metadata", {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"], "volumes": volumes}}
    path = f"{clients.path_of('pods', namespace='default')}?dryRun=All"
    stored: dict[str, Any] = cluster.client.create(path, pod)["spec"]
    return stored


def test_nothing_is_left_when_it_is_taken_away(reader: Reader) -> None:
    for step in STEPS[REMOVED]:
        reader.types(step)
    path = clients.path_of("customresourcedefinitions", group="apiextensions.k8s.io")
    assert [one for one in reader.cluster.client.items(path) if one["spec"]["group"] == names.GROUP] == []
