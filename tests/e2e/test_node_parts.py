"""Command lines and configuration of the parts of a real node."""

import dataclasses
import json
import tomllib
from pathlib import Path

import pytest
import yaml

from cotenant_e2e import components, versions
from cotenant_e2e.components import Settings
from cotenant_e2e.node import parts

SETTINGS = Settings(
    directory=Path("/run/c"),
    host="127.0.0.1",
    ports={parts.KUBELET: 20_000, components.API_SERVER: 20_001, "etcd": 20_002},
    programs={program.name: Path("/bin") / program.name for program in (*versions.PROGRAMS, *versions.NODE_PROGRAMS)},
    node="gpu-0",
)
OURS = parts.Layout(SETTINGS, Path("/bin/containerd"), (2, 3, 7))
DEBIANS = parts.Layout(SETTINGS, Path("/debian/containerd"), (1, 6, 20))


def text_of(layout: parts.Layout, name: str) -> str:
    return next(text for path, text in layout.configuration.items() if path.name == name)


@pytest.mark.parametrize("layout", [OURS, DEBIANS], ids=["ours", "debians"])
def test_every_file_of_containerd_lies_in_the_folder_of_the_cluster(layout: parts.Layout) -> None:
    configured = tomllib.loads(text_of(layout, "containerd.toml"))
    assert configured["root"] == str(layout.runtime_root)
    assert layout.runtime_root.is_relative_to("/run/c/node")
    assert configured["state"] == "/run/c/node/run/containerd"
    assert configured["grpc"]["address"] == "/run/c/node/run/containerd.sock"


def test_two_versions_of_containerd_share_no_data() -> None:
    assert OURS.runtime_root != DEBIANS.runtime_root


def test_containerd_2_resolves_cdi_names() -> None:
    runtime = tomllib.loads(text_of(OURS, "containerd.toml"))["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["enable_cdi"] is True
    assert runtime["cdi_spec_dirs"] == ["/etc/cdi", "/var/run/cdi"]
    assert runtime["containerd"]["runtimes"]["runc"]["runtime_path"] == "/bin/containerd-shim-runc-v2"


def test_another_containerd_starts_its_own_shim_and_knows_no_cdi() -> None:
    runtime = tomllib.loads(text_of(DEBIANS, "containerd.toml"))["plugins"]["io.containerd.grpc.v1.cri"]
    assert "enable_cdi" not in runtime
    assert runtime["containerd"]["runtimes"]["runc"]["runtime_path"] == "/debian/containerd-shim-runc-v2"


def test_kubelet_answers_on_the_bridge_of_the_pods() -> None:
    configured = yaml.safe_load(text_of(OURS, "kubelet.yaml"))
    assert (configured["address"], configured["port"]) == (components.NODE_ADDRESS, 20_000)
    assert configured["containerRuntimeEndpoint"] == "unix:///run/c/node/run/containerd.sock"
    assert OURS.kubelet_component().ready == "http://127.0.0.1:20000/healthz"


def test_pods_get_addresses_of_the_bridge() -> None:
    (plugin,) = json.loads(text_of(OURS, "10-e2e.conflist"))["plugins"]
    assert plugin["bridge"] == parts.BRIDGE
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.244.0.0/24", "gateway": components.NODE_ADDRESS}]]


def test_the_api_server_reaches_kubelets_only_where_there_is_one() -> None:
    flag = f"--kubelet-client-key={SETTINGS.pki}/apiserver-kubelet.key"
    assert flag in components.api_server(SETTINGS).argv
    assert flag not in components.api_server(dataclasses.replace(SETTINGS, node="")).argv
