"""Whether the device plugin answers on its own socket: kubelet's calls come the same way."""

from pathlib import Path

import grpc

from cotenant_deviceplugin.kubelet import paths, sockets
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as messages

PROBE_SECONDS = 3.0
_METHOD = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))


async def fault(kubelet_dir: Path, *, timeout_seconds: float = PROBE_SECONDS) -> str | None:
    """Why the plugin does not answer; None: it does, or there is no kubelet that could ask."""
    if sockets.identity(paths.registry(kubelet_dir)) is None:
        return None
    async with grpc.aio.insecure_channel(paths.target(paths.endpoint(kubelet_dir)), options=_OPTIONS) as channel:
        call = channel.unary_unary(_METHOD, messages.Empty.SerializeToString, messages.DevicePluginOptions.FromString)
        try:
            await call(messages.Empty(), timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            return f"the device plugin's socket does not answer: {error.code().name}: {error.details()}"
    return None
