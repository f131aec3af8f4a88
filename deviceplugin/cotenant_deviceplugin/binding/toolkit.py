"""Makes a CDI specification of this node's GPUs with NVIDIA's own tool, `nvidia-ctk cdi generate`. Decides nothing.

The tool is run where its files are: the GPU Operator installs it in /usr/local/nvidia/toolkit and the driver under
/run/nvidia/driver; a host's packages install both under /. An agent in a container sees the host's / and /usr
elsewhere, so paths of the specification are turned into the host's again.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin import programs
from cotenant_deviceplugin.binding import cdi

KIND: Final = "cotenant.dev/gpu"
"""Of what is made. The specification stays in the agent's memory, so that no runtime resolves its names."""
DRIVER_ROOT: Final = Path("/run/nvidia/driver")
TOOLKIT: Final = Path("/usr/local/nvidia/toolkit")
PROGRAM: Final = "nvidia-ctk"
BEHIND_SCRIPT: Final = "nvidia-ctk.real"
"""What the GPU Operator's nvidia-ctk, a shell script, runs: the agent's image has no shell."""
HOOK: Final = "nvidia-cdi-hook"
HOST: Final = Path("/")
DELAY_SECONDS = 10.0
TIMEOUT_SECONDS = 30.0
MAX_BYTES: Final = 1024 * 1024
"""Of what the tool prints: some 100 KiB for 16 GPUs, and reading that takes many times as much memory."""
_BIN: Final = ("usr/bin", "usr/local/bin")
_LIBRARY: Final = "libnvidia-ml.so.1"
_LIBRARY_FOLDERS: Final = ("usr/lib64", "usr/lib/*-linux-gnu", "usr/lib", "lib64", "lib/*-linux-gnu", "opt/*/lib*")
_OPEN: Final = ("PATH", "LANG", "HOME", "TMPDIR", "COTENANT_STANDIN")
"""Variables that the tool inherits; it takes its options from variables, too."""


@dataclass(frozen=True)
class Places:
    """Where driver and toolkit are.

    Attributes:
        driver_root: the folder under which the driver's files are, as the host names it.
        driver_root_here: the same folder as this process sees it; None: where the host has it.
        toolkit: the folder of the GPU Operator's toolkit, as the host names it.
        toolkit_here: the same folder as this process sees it; None: where the host has it.
    """

    driver_root: Path = DRIVER_ROOT
    driver_root_here: Path | None = None
    toolkit: Path = TOOLKIT
    toolkit_here: Path | None = None

    @property
    def here(self) -> Path:
        """The driver's root as this process sees it."""
        return self.driver_root_here or self.driver_root


@dataclass(frozen=True)
class Programs:
    """The tool, to be run here, and the program that its hooks name, as the host sees it."""

    tool: Path
    hook: Path


class Toolkit:
    """NVIDIA's container toolkit, where it is installed."""

    def __init__(self, places: Places, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._places = places
        self._timeout_seconds = timeout_seconds

    async def generate(self, gpu: GPUUID | None = None) -> cdi.Object:
        """Return a specification in which GPUs are devices by their UUIDs.

        Args:
            gpu: the one GPU to be in it, which needs toolkit 1.19; None: all.

        Raises:
            TemporaryError: there is no tool or no driver, or the tool fails; the message has the remedy.
        """
        found = await asyncio.to_thread(programs_of, self._places)
        dev_root = await asyncio.to_thread(self._dev_root)
        only = [] if gpu is None else [f"--device-id={gpu}"]
        output = await self._run([*command(self._places, found, dev_root=dev_root), *only])
        try:
            made: Any = json.loads(output)
        except (ValueError, RecursionError) as error:
            raise _failed(f"{found.tool} prints no JSON: {error}") from error
        if not isinstance(made, dict):
            raise _failed(f"{found.tool} prints no CDI specification")
        try:
            cdi.check(made)
        except errors.InvalidInputError as error:
            raise _failed(f"{found.tool} prints no CDI specification: {error}") from error
        return moved(made, self._places.here, self._places.driver_root)

    def _dev_root(self) -> Path:
        """Return the driver's root where a driver container has device nodes there, as the GPU Operator decides it."""
        return self._places.here if (self._places.here / "dev/nvidiactl").exists() else HOST

    async def _run(self, arguments: list[str]) -> bytes:
        environment = {name: os.environ[name] for name in _OPEN if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,  # where it is a script, what that started ends with it
            )
        except OSError as error:
            raise _failed(f"{arguments[0]}: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._timeout_seconds):
                output, said = await programs.communicate(process, max_bytes=MAX_BYTES)
        except TimeoutError as error:
            raise _failed(f"{arguments[0]} has not ended after {self._timeout_seconds:g} s") from error
        except programs.TooMuchError as error:
            raise _failed(f"{arguments[0]} prints more than {MAX_BYTES} bytes, which is no specification") from error
        finally:
            await programs.end(process, group=True)
        if process.returncode:
            words = said.decode(errors="replace").strip().splitlines()
            last = words[-1] if words else "nothing"
            raise _failed(f"{arguments[0]} ends with {process.returncode} and says: {errors.shortened(last)}")
        return output


def programs_of(places: Places) -> Programs:
    """Return the first tool that is there: the GPU Operator's, then the host's own.

    Raises:
        TemporaryError: there is none, or no driver.
    """
    if not any(True for pattern in _LIBRARY_FOLDERS for _ in places.here.glob(f"{pattern}/{_LIBRARY}")):
        raise _failed(
            f"there is no {_LIBRARY} below {places.driver_root}: have NVIDIA's toolkit write /etc/cdi/nvidia.yaml "
            "(nvidia-ctk cdi generate), or name the driver's folder by node.driver.root of the chart (--driver-root), "
            "which is / for a driver that is installed on the host"
        )
    folder = places.toolkit_here or places.toolkit
    candidates = [(folder / name, places.toolkit / HOOK) for name in (BEHIND_SCRIPT, PROGRAM)]
    if places.driver_root == HOST:
        candidates += [(places.here / folder / PROGRAM, HOST / folder / HOOK) for folder in _BIN]
    for tool, hook in candidates:
        if tool.is_file() and os.access(tool, os.X_OK):
            return Programs(tool=tool, hook=hook)
    where = " or ".join(dict.fromkeys(str(hook.parent) for _, hook in candidates))
    elsewhere = behind_link(places.toolkit, folder)
    remedy = "install NVIDIA's container toolkit, or name its folder by node.driver.toolkit of the chart (--toolkit)"
    if elsewhere is not None:
        remedy = f"it is behind a link to {elsewhere}: name that by node.driver.toolkit of the chart (--toolkit)"
    raise _failed(f"there is no {PROGRAM} in {where}: {remedy}")


def behind_link(there: Path, here: Path) -> Path | None:
    """Return where a folder of the host is by a link that leads nowhere as this process sees it; None: there is none.

    On systems that are updated as a whole, by rpm-ostree for one, /usr/local is a link to /var/usrlocal.
    """
    for seen, folder in zip((here, *here.parents), (there, *there.parents), strict=False):
        if seen.is_symlink() and not seen.exists():
            target = Path(os.path.normpath(folder.parent / seen.readlink()))
            return target / there.relative_to(folder)
    return None


def command(places: Places, found: Programs, *, dev_root: Path) -> list[str]:
    """Return the command line; its options are those of toolkit 1.17 and later."""
    vendor, _, kind = KIND.partition("/")
    return [
        str(found.tool),
        "cdi",
        "generate",
        "--mode=nvml",
        "--format=json",
        "--device-name-strategy=uuid",
        f"--vendor={vendor}",
        f"--class={kind}",
        f"--driver-root={places.here}",
        f"--dev-root={dev_root}",
        f"--nvidia-cdi-hook-path={found.hook}",
    ]


def moved(value: Mapping[str, Any], here: Path, there: Path) -> cdi.Object:
    """Return a specification whose host paths below one folder are below another."""
    if here == there:
        return value
    return {
        **value,
        "containerEdits": _moved_edits(value.get("containerEdits") or {}, here, there),
        "devices": [
            {**device, "containerEdits": _moved_edits(device.get("containerEdits") or {}, here, there)}
            for device in value.get("devices") or ()
        ],
    }


def _moved_edits(edits: Mapping[str, Any], here: Path, there: Path) -> dict[str, Any]:
    """Paths in a container are no host paths, nor are those that a hook in the container's namespace is given."""

    def path(text: str) -> str:
        return str(there / Path(text).relative_to(here)) if Path(text).is_relative_to(here) else text

    result = dict(edits)
    for name in ("deviceNodes", "mounts"):
        if name in edits:
            result[name] = [
                {**each, **({"hostPath": path(each["hostPath"])} if "hostPath" in each else {})} for each in edits[name]
            ]
    if "hooks" in edits:
        result["hooks"] = [
            {**hook, "args": [path(text) for text in hook.get("args") or ()]}
            if hook.get("hookName") not in ("createContainer", "startContainer")
            else hook
            for hook in edits["hooks"]
        ]
    return result


def _failed(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(f"no CDI specification can be made: {why}", delay_seconds=DELAY_SECONDS)
