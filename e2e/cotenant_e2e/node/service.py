"""The API server's Service address on a real node, in kube-proxy's place: one process that passes connections on.

The API server of this kit listens on loopback, which is no endpoint that kube-proxy would take. Pods reach it as in any
cluster: by KUBERNETES_SERVICE_HOST and a certificate for that address. It passes bytes on and reads none of them.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from typing import Final

from cotenant_api import errors
from cotenant_e2e import components, configuration
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.node import parts

NAME: Final = "kubernetes-service"
PORT: Final = 443
_CHUNK: Final = 64 * 1024


def start(cluster: Cluster) -> None:
    """Give the node's bridge the Service's address, and serve it; both end with the cluster."""
    address = ("ip", "address", "replace", f"{components.SERVICE_IP}/32", "dev", parts.BRIDGE)
    done = subprocess.run(address, capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.PermanentError(f"{' '.join(address)}: {errors.shortened(done.stderr.strip())}")
    settings = cluster.settings
    target = f"{settings.host}:{settings.ports[components.API_SERVER]}"
    argv = (sys.executable, "-m", __name__, f"{components.SERVICE_IP}:{PORT}", target)
    cluster.start_process(NAME, argv, env={"PYTHONPATH": str(configuration.REPOSITORY / "e2e")})


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends; the other may still have something to say."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def serve(listen: str, target: str, stop: asyncio.Event) -> None:
    """Pass on every connection until told to stop. `listen`, `target`: HOST:PORT."""
    host, _, port = target.rpartition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        far_writer.close()
        writer.close()

    own_host, _, own_port = listen.rpartition(":")
    server = await asyncio.start_server(connected, own_host, int(own_port))
    async with server:
        await stop.wait()


async def _main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(sys.argv[1], sys.argv[2], stop)


if __name__ == "__main__":
    asyncio.run(_main())
