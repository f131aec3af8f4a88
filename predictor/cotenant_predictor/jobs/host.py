"""What the GPU waits for in one step: launches, input, and gradients of other replicas. Pure arithmetic."""

import numpy as np

from cotenant_api.graph import Graph, Mode
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.roofline import Array, Devices, Operators


def launch_seconds(graph: Graph, operators: Operators, coefficients: Coefficients) -> float:
    """CPU time to launch one step: per operator, per further kernel, per parameter tensor of the optimizer.

    An operator costs more where Python runs it than where the autograd engine does; a view costs little.
    """
    first = np.where(operators.forward > 0, coefficients.forward_launch_seconds, coefficients.backward_launch_seconds)
    each = np.where(operators.kernels > 0, first, coefficients.view_launch_seconds)
    each = each + np.maximum(0, operators.kernels - 1) * coefficients.extra_kernel_seconds
    each = each + operators.optimizer_tensors * coefficients.optimizer_tensor_seconds
    total = float((operators.repeat * each).sum())
    return total * (coefficients.compiled_launch_factor if graph.compiled else 1.0)


def feed_seconds(graph: Graph, gpus: Devices, coefficients: Coefficients, *, cpu_cores: float | None) -> Array:
    """Time that the input of one step needs, shape (n_devices, 1); loading and copying overlap.

    The loader's speed is the declared `samplesPerSecond`, else for training what `loaderWorkers` make at an
    assumed rate. Workers beyond `cpu_cores` make nothing. Without either, loading is no limit.
    """
    if graph.host.data_on_gpu:
        return np.zeros_like(gpus.host_bandwidth)
    copy = graph.input_bytes_per_step / gpus.host_bandwidth
    return np.maximum(copy, _loader_seconds(graph, coefficients, cpu_cores=cpu_cores))


def exchange_seconds(graph: Graph, gpus: Devices, coefficients: Coefficients) -> Array:
    """Time that a ring all-reduce of the gradients needs, shape (n_devices, 1); it overlaps with the backward pass.

    Each of n replicas sends 2 (n - 1) / n of the gradients (Patarasuk, Yuan 2009), over the slower of the host's link
    and the network. Declared gradient bytes count, else those of the weights.
    """
    replicas = graph.distributed.replicas
    if replicas < 2 or graph.mode is not Mode.TRAINING:
        return np.zeros_like(gpus.host_bandwidth)
    sent = 2 * (replicas - 1) / replicas * (graph.distributed.gradient_bytes or graph.parameter_bytes)
    seconds: Array = sent / np.minimum(gpus.host_bandwidth, coefficients.network_bytes_per_second)
    return seconds


def requests_per_second(graph: Graph) -> float | None:
    """Return the steps per second that the declared requests ask for; None where nothing is declared."""
    if graph.inference is None:
        return None
    return graph.inference.requests_per_second * graph.inference.samples_per_request / graph.batch_size


def _loader_seconds(graph: Graph, coefficients: Coefficients, *, cpu_cores: float | None) -> float:
    workers = graph.host.loader_workers
    working = min(workers, cpu_cores) if cpu_cores else workers
    if graph.host.samples_per_second is not None:
        kept = working / workers if workers else 1.0
        return graph.batch_size / (graph.host.samples_per_second * kept)
    if graph.mode is not Mode.TRAINING or not workers:
        return 0.0
    return graph.input_bytes_per_step / (working * coefficients.loader_bytes_per_second)
