"""Our socket in kubelet's folder: served, recognised and given up. It knows nothing of what is served."""

import os
from dataclasses import dataclass
from pathlib import Path

import grpc

from cotenant_api import errors
from cotenant_deviceplugin.kubelet import paths

GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Identity:
    """One file for as long as it exists. Inode numbers alone are used again for the next file."""

    device: int
    inode: int
    changed_nanoseconds: int


def identity(path: Path) -> Identity | None:
    """Return what stands at a path now; None: nothing."""
    try:
        found = os.stat(path)  # noqa: PTH116 -- asked every second, and a Path is made each time otherwise
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino, found.st_ctime_ns)


class Server:
    """A gRPC server on one Unix socket."""

    def __init__(self, path: Path, server: grpc.aio.Server, made: Identity | None) -> None:
        self._path = path
        self._server = server
        self._made = made

    @property
    def reachable(self) -> bool:
        """Whether the socket at the path is still ours: kubelet unlinks it when it starts."""
        return self._made is not None and identity(self._path) == self._made

    async def stop(self) -> None:
        """Take no more calls, and let those that are running end."""
        await self._server.stop(GRACE_SECONDS)


async def serve(path: Path, handler: grpc.GenericRpcHandler) -> Server:
    """Serve on a socket; one that is left of an earlier agent is replaced.

    Raises:
        TemporaryError: it cannot be made (the folder is not there).
    """
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    try:
        server.add_insecure_port(paths.target(path))
    except RuntimeError as error:
        raise errors.TemporaryError(f"{path} cannot be served: {error}", delay_seconds=1) from error
    await server.start()
    return Server(path, server, identity(path))
