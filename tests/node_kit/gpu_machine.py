"""A machine of stand-in GPUs: driver, NVIDIA's control program and CUDA programs, all as real processes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import layout
from cotenant_deviceplugin.mps.supervisor import Look
from cotenant_standin import building, driver, mps_control, state
from node_kit import quick

HOLD = ("--hold", "600")
"""Arguments of a CUDA program that outlives the test, however slow the machine is; it is killed at the end."""
_E2E = str(Path(driver.__file__).parent.parent)
_MODES = {
    ComputeMode.DEFAULT: state.ComputeMode.DEFAULT,
    ComputeMode.EXCLUSIVE_PROCESS: state.ComputeMode.EXCLUSIVE_PROCESS,
    ComputeMode.PROHIBITED: state.ComputeMode.PROHIBITED,
}


class CUDAProgram:
    """One run of the stand-in's CUDA program."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    @property
    def pid(self) -> int:
        """As the host counts."""
        return self.process.pid

    def report(self) -> Any:
        """What it says of itself once it has its GPU; None: it got none."""
        if self.process.stdout is None:
            raise ValueError("its output is read elsewhere")
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def end(self) -> str:
        """Wait for its end; its errors."""
        _, said = self.process.communicate(timeout=quick.PATIENCE_SECONDS)
        return said


class Machine:
    """The processes of one stand-in, in a folder of its own."""

    def __init__(self, folder: Path, cleanup: ExitStack, machine: state.State) -> None:
        self.folder, self.state = folder, machine
        self.program = (str(mps_control.install(folder)),)
        self.mps_root = folder / "mps"
        self._cleanup = cleanup
        built = building.cuda_client()
        self._cuda = Path(shutil.copy(built, folder))  # where other users can run it

    def uuid(self, index: int = 0) -> GPUUID:
        """Of one GPU."""
        return GPUUID(self.state.gpu(index).uuid)

    def environment(self, **more: str) -> dict[str, str]:
        """Of a process of this machine."""
        return {**os.environ, state.FOLDER_VARIABLE: str(self.state.root), **more}

    def pipe(self, index: int = 0) -> Path:
        """Of one GPU's control daemon."""
        return layout.pipe(self.mps_root, self.uuid(index))

    def log(self, index: int = 0) -> Path:
        """The log directory of one GPU's control daemon."""
        return layout.log(self.mps_root, self.uuid(index))

    def said(self, index: int = 0) -> str:
        """What one GPU's control daemon and its servers have said."""
        return layout.output(self.mps_root, self.uuid(index)).read_text()

    def control_daemon(self, index: int = 0, *, multiuser: bool = True) -> "subprocess.Popen[bytes]":
        """Start a GPU's control daemon; it answers when this returns."""
        for folder in (self.mps_root, self.pipe(index).parent, self.pipe(index), self.log(index)):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        environment = self.environment(
            CUDA_MPS_PIPE_DIRECTORY=str(self.pipe(index)),
            CUDA_MPS_LOG_DIRECTORY=str(self.log(index)),
            CUDA_VISIBLE_DEVICES=self.uuid(index),
        )
        users = ["-multiuser-server"] if multiuser else []
        with layout.output(self.mps_root, self.uuid(index)).open("ab") as output:
            process = subprocess.Popen([*self.program, "-f", *users], env=environment, stdout=output)
        self._cleanup.callback(_kill, process)
        while not mps_control.answers(self.pipe(index)):
            if process.poll() is not None:
                raise RuntimeError(f"the control daemon ended with {process.returncode}")
            self.control("get_server_list", index=index)
        return process

    def control(self, *commands: str, index: int = 0) -> str:
        """What NVIDIA's program prints for these commands."""
        ran = subprocess.run(
            self.program,
            input="".join(f"{command}\n" for command in commands),
            env=self.environment(CUDA_MPS_PIPE_DIRECTORY=str(self.pipe(index))),
            capture_output=True,
            text=True,
            check=False,
            timeout=quick.PATIENCE_SECONDS,
        )
        return ran.stdout

    def start_server(self, index: int = 0) -> int:
        """Start the server; it is ACTIVE when this returns: its PID."""
        self.control("start_server -uid 0", index=index)
        server = self.server(index)
        while self.control(f"get_server_status {server}", index=index) == "INITIALIZING\n":
            pass
        return server

    def server(self, index: int = 0) -> int:
        """PID of the one server."""
        return int(self.control("get_server_list", index=index))

    def cuda(
        self, *arguments: str, index: int = 0, mps: bool = True, user: int = 0, limits: Mapping[str, str] | None = None
    ) -> CUDAProgram:
        """Start a CUDA program on a GPU; `mps`: whether it can find the GPU's control daemon."""
        pipe = str(self.pipe(index)) if mps else str(self.folder / "no-mps")
        environment = self.environment(CUDA_MPS_PIPE_DIRECTORY=pipe, COTENANT_STANDIN_GPU=self.uuid(index))
        process = subprocess.Popen(
            [str(self._cuda), *arguments],
            env={**environment, **(limits or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # To change the user Python forks, and gRPC's handlers may break a child of a process with its threads.
            user=user or None,
        )
        self._cleanup.callback(_kill, process)
        return CUDAProgram(process)

    def tenant(self, *arguments: str, index: int = 0, limits: Mapping[str, str] | None = None) -> CUDAProgram:
        """A CUDA program that holds its GPU when this returns."""
        program = self.cuda(*HOLD, *arguments, index=index, limits=limits)
        if program.report() is None:
            raise RuntimeError(program.end())
        return program


class MachineDriver:
    """A machine's driver as the supervisor asks it (`mps.supervisor.Driver`)."""

    def __init__(self, machine: Machine) -> None:
        self._state = machine.state

    async def look(self, gpu: GPUUID) -> Look:
        """What the folder says."""
        found = self._state.by_uuid(gpu)
        return Look(
            compute_mode=next(mode for mode, number in _MODES.items() if number == found.compute_mode),
            processes=frozenset({*found.processes(), *found.mps_processes()}),
        )

    async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
        """As a driver would."""
        self._state.by_uuid(gpu).compute_mode = _MODES[mode]


@contextmanager
def started(models: Sequence[state.Model] = (state.H200,)) -> Iterator[Machine]:
    """A machine with these GPUs, whose driver runs."""
    with quick.folder() as folder, ExitStack() as cleanup:
        folder.chmod(0o755)
        machine = Machine(folder, cleanup, state.create(folder / "gpu", models))
        process = subprocess.Popen(
            [sys.executable, "-m", "cotenant_standin.driver"],
            env=machine.environment(PYTHONPATH=_E2E),
            stdout=subprocess.PIPE,
            text=True,
        )
        cleanup.callback(_kill, process)
        if process.stdout is None or process.stdout.readline().strip() != driver.READY:
            raise RuntimeError("the stand-in's driver does not start")
        yield machine


def _kill(process: "subprocess.Popen[Any]") -> None:
    with process:
        process.kill()
