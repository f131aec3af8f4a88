"""What is run of NVIDIA's toolkit, and what becomes of its answer. `tests/node/test_toolkit.py` runs the real one."""

import json
import os
import signal
import sys
import tracemalloc
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin import programs
from cotenant_deviceplugin.binding import toolkit
from cotenant_deviceplugin.binding.toolkit import Places, Toolkit

MADE = {
    "cdiVersion": "0.5.0",
    "kind": "cotenant.dev/gpu",
    "devices": [{"name": "GPU-a", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
}


class Node:
    """A driver below a folder, and a tool that does what a test says."""

    def __init__(self, root: Path) -> None:
        self.places = Places(root / "driver", toolkit=root / "toolkit")
        (root / "driver/usr/lib64").mkdir(parents=True)
        (root / "driver/usr/lib64/libnvidia-ml.so.1").touch()
        self.places.toolkit.mkdir()

    def tool(self, script: str, *, path: Path | None = None) -> Path:
        """Install a program of Python."""
        made = path or self.places.toolkit / "nvidia-ctk"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"#!{sys.executable} -IS\nimport os, sys, time\n{script}\n")
        made.chmod(0o755)
        return made


@pytest.fixture(name="node")
def below_a_folder(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_the_tool_is_told_where_the_driver_is_and_inherits_no_options(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVIDIA_CTK_CDI_GENERATE_DISABLED_HOOKS", "all")
    written = node.places.toolkit / "told"
    node.tool(
        f"open({str(written)!r}, 'w').write(repr((sys.argv[1:], sorted(os.environ)))); print({json.dumps(MADE)!r})"
    )
    assert await Toolkit(node.places).generate() == MADE
    words, variables = eval(written.read_text())  # noqa: S307 -- of this test's own program
    assert words[:2] == ["cdi", "generate"]
    wanted = {f"--driver-root={node.places.driver_root}", "--dev-root=/", "--device-name-strategy=uuid"}
    assert wanted <= set(words)
    assert not [name for name in variables if name.startswith("NVIDIA")]


async def test_the_tool_is_asked_for_one_gpu_by_its_uuid(node: Node) -> None:
    node.tool(f"print({json.dumps(MADE)!r} if '--device-id=GPU-a' in sys.argv else 3)")
    assert await Toolkit(node.places).generate(GPUUID("GPU-a")) == MADE


async def test_a_driver_container_has_its_devices_in_its_own_folder(node: Node) -> None:
    (node.places.here / "dev").mkdir()
    (node.places.here / "dev/nvidiactl").touch()
    node.tool(
        "root = [word for word in sys.argv if 'dev-root' in word][0]\n"
        'print(\'{"cdiVersion": "0.5.0", "kind": "\' + root + \'"}\')'
    )
    assert (await Toolkit(node.places).generate())["kind"] == f"--dev-root={node.places.here}/dev".removesuffix("/dev")


def test_the_operators_tool_goes_before_the_hosts_and_what_is_behind_its_script_before_that(node: Node) -> None:
    places = Places(Path("/"), node.places.driver_root, node.places.toolkit)
    host = node.tool("", path=places.here / "usr/bin/nvidia-ctk")
    assert toolkit.programs_of(places) == toolkit.Programs(host, Path("/usr/bin/nvidia-cdi-hook"))
    for name in ("nvidia-ctk", "nvidia-ctk.real"):
        made = node.tool("", path=places.toolkit / name)
        assert toolkit.programs_of(places) == toolkit.Programs(made, places.toolkit / "nvidia-cdi-hook")


def test_a_tool_that_is_seen_elsewhere_names_its_hook_as_the_host_does(node: Node) -> None:
    there = Path("/usr/local/nvidia/toolkit")
    tool = node.tool("")
    places = Places(node.places.driver_root, toolkit=there, toolkit_here=node.places.toolkit)
    assert toolkit.programs_of(places) == toolkit.Programs(tool, there / "nvidia-cdi-hook")


@pytest.mark.parametrize("link", ["../var/usrlocal", "/var/usrlocal"])
def test_a_folder_behind_a_link_that_cannot_be_followed_is_told_by_its_own_name(
    node: Node, tmp_path: Path, link: str
) -> None:
    usr = tmp_path / "host/usr"
    usr.mkdir(parents=True)
    (usr / "local").symlink_to(link)
    there = Path("/usr/local/nvidia/toolkit")
    places = Places(node.places.driver_root, toolkit=there, toolkit_here=usr / "local/nvidia/toolkit")
    told = "no nvidia-ctk in /usr/local/nvidia/toolkit: it is behind a link to /var/usrlocal/nvidia/toolkit: name that"
    with pytest.raises(errors.TemporaryError, match=told):
        toolkit.programs_of(places)


def test_a_folder_is_no_tool(node: Node) -> None:
    places = Places(Path("/"), node.places.driver_root, node.places.toolkit)
    host = node.tool("", path=places.here / "usr/bin/nvidia-ctk")
    (places.toolkit / "nvidia-ctk").mkdir()
    assert toolkit.programs_of(places).tool == host


def test_a_tool_inside_of_a_driver_container_is_none_of_the_hosts(node: Node) -> None:
    node.tool("", path=node.places.here / "usr/bin/nvidia-ctk")
    with pytest.raises(errors.TemporaryError, match=r"there is no nvidia-ctk in .*/toolkit: install"):
        toolkit.programs_of(node.places)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sys.exit('no NVML')", "nvidia-ctk ends with 1 and says: .no NVML"),
        ("sys.exit(3)", "nvidia-ctk ends with 3 and says: .nothing"),
        ("print('no')", "prints no JSON"),
        ("print([])", "prints no CDI specification"),
        ("print('{}')", "prints no CDI specification: cdiVersion"),
        ('print(\'{"cdiVersion": "0.5.0", "devices": [3]}\')', "prints no CDI specification: devices"),
        ("print('[' * 100000)", "prints no JSON"),
        ("time.sleep(600)", "has not ended after 1 s"),
        ("os.fork(); time.sleep(600)", "has not ended after 1 s"),
    ],
)
async def test_a_tool_that_fails_is_named_with_its_words(node: Node, script: str, said: str) -> None:
    node.tool(script)
    with pytest.raises(errors.TemporaryError, match=f"no CDI specification can be made: .*{said}"):
        await Toolkit(node.places, timeout_seconds=1.0 if "sleep" in script else 30.0).generate()


FLOOD = "word = ('x' * 65535 + chr(10)).encode()\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("[os.write(1, word) for _ in range(1600)]", "prints more than 1048576 bytes, which is no specification"),
        ("while True: os.write(1, word)", "prints more than 1048576 bytes, which is no specification"),
        ("[os.write(2, word) for _ in range(1600)]; sys.exit('no NVML')", "ends with 1 and says: .no NVML"),
        ("while True: os.write(2, word)", "has not ended after 1 s"),
        ("os.fork() and sys.exit(); os.setsid(); time.sleep(600)", "has not ended after 1 s"),
    ],
)
async def test_a_tool_that_prints_without_end_costs_little_memory_and_time(
    node: Node, script: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "END_SECONDS", 0.1)
    written = node.places.toolkit / "pid"
    node.tool(f"{FLOOD}{script.replace('time', f'open({str(written)!r}, chr(119)).write(str(os.getpid())); time')}")
    tracemalloc.start()
    try:
        with pytest.raises(errors.TemporaryError, match=f"no CDI specification can be made: .*{said}"):
            await Toolkit(node.places, timeout_seconds=1.0 if said.startswith("has") else 30.0).generate()
        assert tracemalloc.get_traced_memory()[1] < 8 * toolkit.MAX_BYTES
    finally:
        tracemalloc.stop()
        if written.exists():
            os.kill(int(written.read_text()), signal.SIGKILL)


def test_host_paths_are_the_hosts_and_paths_in_the_container_stay() -> None:
    here, there = Path("/driver-root"), Path("/")
    hook = {
        "hookName": "createRuntime",
        "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["x", "--driver-root", "/driver-root"],
    }
    inside = {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["x", "/driver-root/a"]}
    mount = {"hostPath": "/driver-root/usr/lib/libcuda.so.1", "containerPath": "/usr/lib/libcuda.so.1"}
    node = {"path": "/dev/nvidia0", "hostPath": "/driver-root/dev/nvidia0"}
    plain = {"path": "/dev/nvidiactl"}
    edits = {"mounts": [mount], "hooks": [hook, inside], "deviceNodes": [node, plain], "env": ["A=/driver-root/b"]}
    moved = toolkit.moved({"devices": [{"name": "0", "containerEdits": edits}]}, here, there)
    found = moved["devices"][0]["containerEdits"]
    assert found["mounts"] == [mount | {"hostPath": "/usr/lib/libcuda.so.1"}]
    assert found["hooks"] == [hook | {"args": ["x", "--driver-root", "/"]}, inside]
    assert found["deviceNodes"] == [node | {"hostPath": "/dev/nvidia0"}, plain]
    assert found["env"] == ["A=/driver-root/b"]
