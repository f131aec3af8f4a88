"""The numbers of the formula that are neither the graph's nor the GPU maker's, each with where it comes from.

Values only. A measured or learned set replaces `FORMULA_1` without a change of any formula.
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Final

from cotenant_api.graph import OperatorClass
from cotenant_predictor.jobs import rates
from cotenant_predictor.jobs.rates import Rates


@dataclasses.dataclass(frozen=True, kw_only=True)
class Coefficients:
    """What the formula assumes of kernels, launches, the host and memory."""

    name: str

    compute_efficiency: Mapping[OperatorClass, float]
    """Share of the peak rate that a full wave of tiles reaches."""
    rates: Rates
    """Shares of the peaks that operators of whole models reach."""
    memory_saturation: float
    """Share of the SMs that is enough to reach it."""
    kernel_seconds: float
    """What the shortest kernel takes."""
    tile_elements: int
    """Output elements that one thread block of a matrix kernel computes."""
    split_reduction: int
    """Length of a reduction from which matrix kernels split it over more blocks."""
    block_bytes: int
    """Bytes that one thread block of a streaming kernel moves."""

    forward_launch_seconds: float
    """CPU time of one operator that launches a kernel, eager, with the Python around it."""
    backward_launch_seconds: float
    """The same where the autograd engine runs it, without Python."""
    view_launch_seconds: float
    """CPU time of one operator that launches nothing."""
    extra_kernel_seconds: float
    """CPU time of each further kernel of one operator."""
    optimizer_tensor_seconds: float
    """CPU time of an optimizer's Python per parameter tensor."""
    compiled_launch_factor: float
    """What is left of the CPU time where the graph is compiled."""
    loader_bytes_per_second: float
    """Bytes of ready samples that one loader worker makes; decoding and augmentation included."""

    network_bytes_per_second: float
    """What one replica sends to another on another node."""

    idle_power_share: float
    """Power of an idle GPU as a share of its limit."""
    sm_power_share: float
    """Share of the rest that follows SM activity; what is left follows DRAM activity."""

    context_mib: float
    """CUDA context and libraries: constant part."""
    context_mib_per_sm: float
    library_widening_mib: float
    """Upper bound of what libraries take, over the median: it differs between releases of CUDA and PyTorch."""
    allocator_slack: float
    """Share by which the caching allocator's blocks are larger than what is alive in them."""
    idle_block_share: float
    """What lies idle in blocks that something smaller keeps, as a share of the largest output."""
    convolution_workspace: float
    """What convolutions in fp32 and TF32 hold beside their tensors, as a share of the bytes that the largest moves."""
    half_convolution_workspace: float
    """The same in fp16 and bf16."""
    workspace_widening: float
    """Upper bound of what fp32's convolutions and products hold, over the median."""
    matmul_workspace_mib: float

    speed_kept: float
    """Speed that the thread percentage must leave."""
    widening: float
    """Upper bound of a utilization over its median."""
    memory_widening: float
    """Upper bound of what is alive, over its median, where references were followed (`peakActivationBytes`)."""
    guessed_memory_widening: float
    """The same where it is only estimated from single operators."""
    exact_memory_widening: float
    """The same of what is counted exactly: weights, gradients, optimizer state."""
    max_unknown_share: float
    """Share of unknown operators or FLOPs above which a graph is out of domain."""


_EFFICIENCY: Final = {
    OperatorClass.CONV: 0.71,
    OperatorClass.MATMUL: 0.54,
    OperatorClass.ATTENTION: 0.46,  # assumption: that of products of activations
    OperatorClass.RNN: 0.50,  # assumption
}

FORMULA_1: Final = Coefficients(
    name="formula-1",
    # `python -m cotenant_predictor.training.coefficients` computes conv and matmul from the measured kernels that ship,
    # and the other two constants that name it. Used where no measured kernels are given, and for grouped convolutions.
    # Assumption: vector work seldom reaches half of the fp32 rate; it is bound by memory anyway.
    compute_efficiency=types.MappingProxyType({cls: _EFFICIENCY.get(cls, 0.5) for cls in OperatorClass}),
    rates=rates.FORMULA_1,
    memory_saturation=0.5,  # assumption: half of the SMs keep DRAM busy
    kernel_seconds=2.69e-6,  # training.coefficients: the shortest kernels in traces of a V100
    tile_elements=64 * 64,
    split_reduction=1024,
    block_bytes=4096,  # 256 threads, one 16-byte vector each
    # Assumption for a server core: eager ResNet-50 and BERT-base take 7 to 8 ms a forward on any recent GPU.
    forward_launch_seconds=25e-6,
    backward_launch_seconds=12e-6,
    view_launch_seconds=4e-6,
    extra_kernel_seconds=4e-6,
    optimizer_tensor_seconds=6e-6,
    compiled_launch_factor=0.3,
    loader_bytes_per_second=60e6,  # about 100 images of 224 x 224 decoded and augmented by one core, as fp32
    network_bytes_per_second=12.5e9,  # assumption: 100 Gbit/s Ethernet or InfiniBand
    idle_power_share=0.17,  # assumption: a GPU with a CUDA context takes 55 to 120 W of 300 to 700 W
    sm_power_share=0.7,  # assumption
    # `python -m cotenant_predictor.training.memory` fits context_mib, slack, idle share and both workspaces to the
    # memory of whole jobs that ships. Context per SM: measured (`context` in e2e/gpu/results), 72 MiB at 12 SMs of an
    # H200 and 514 at 132. Library widening: covers nine of the ten jobs measured there, with CUDA 13 and PyTorch 2.11.
    context_mib=125.0,
    context_mib_per_sm=3.7,
    library_widening_mib=200.0,
    allocator_slack=0.06,
    idle_block_share=0.7,
    convolution_workspace=1.0,
    half_convolution_workspace=0.15,
    workspace_widening=2.0,  # VGG-16's and Inception's convolutions in fp32 hold more than others'
    matmul_workspace_mib=32.0,  # cuBLAS' workspace on Hopper; 8 MiB before
    speed_kept=0.95,
    # Untuned physics against measured utilization of whole jobs had an RMSLE of 0.27 at best on public measurements:
    # exp(1.28 x 0.27) covers 90 % of a log-normal error.
    widening=1.41,
    memory_widening=1.1,  # what is added to a peak that was seen: else the second job of a kind would book more
    guessed_memory_widening=1.30,  # naive liveness missed the peak of unseen CNNs by 21 % in the median
    exact_memory_widening=1.03,  # the allocator rounds blocks to 2 MiB
    max_unknown_share=0.05,
)
