"""A folder in which one control program, NVIDIA's or the stand-in, serves one GPU as the product lays it out."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import control, daemon, layout, v2
from mps_kit import session
from mps_kit.programs import ServerProgram

GPU: Final = GPUUID(session.GPU)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """A folder in which a control program serves one GPU, as the product lays it out."""

    program: session.Programs
    folder: Path
    server: ServerProgram = ServerProgram.INITIALIZING

    @property
    def major(self) -> int:
        """Of the driver."""
        return int(self.program.version.partition(".")[0])

    @property
    def root(self) -> Path:
        """See `layout`."""
        return self.folder / "mps"

    @property
    def pipe(self) -> Path:
        """The daemon's."""
        return layout.pipe(self.root, GPU)

    def serving(self, server: ServerProgram) -> "Place":
        """The same with another program as server."""
        return dataclasses.replace(self, server=server)

    def environment(self) -> dict[str, str]:
        """Of the control program."""
        return self.program.serving(self.folder / self.server.name.lower(), self.server)

    def settings(self) -> daemon.Settings:
        """By which the product runs its daemons, only less patiently."""
        return daemon.Settings(
            root=self.root,
            program=self.program.command,
            environment=self.environment(),
            answer_seconds=2,
            quit_seconds=0.5,
            look_seconds=0.05,
            first_backoff_seconds=0.01,
        )

    def backend(self, *, timeout_seconds: float = control.ANSWER_SECONDS) -> v2.MPSv2:
        """The product's, which waits so long for an answer."""
        program = ("env", *self._words(), *self.program.command)
        return v2.MPSv2(self.root, cuda_version="13.0", program=program, timeout_seconds=timeout_seconds)

    @contextlib.contextmanager
    def daemon(self) -> Iterator[session.Daemon]:
        """A daemon that the test starts itself, so that it runs with older drivers, too."""
        for path in (self.pipe, layout.log(self.root, GPU)):
            path.mkdir(parents=True)
        environment = {
            **self.environment(),
            layout.PIPE_DIRECTORY: str(self.pipe),
            layout.LOG_DIRECTORY: str(layout.log(self.root, GPU)),
            "CUDA_VISIBLE_DEVICES": GPU,
        }
        output = layout.output(self.root, GPU)
        with session.daemon(self.program, environment, output) as running:
            yield running

    def said(self) -> str:
        """By the daemon and its servers."""
        output = layout.output(self.root, GPU)
        return output.read_text() if output.exists() else ""

    def _words(self) -> list[str]:
        """`NAME=value` of what the program's environment has beyond this process's."""
        return [f"{name}={value}" for name, value in self.environment().items() if os.environ.get(name) != value]
