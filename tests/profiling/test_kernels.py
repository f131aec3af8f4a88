"""What a trace of torch.profiler says of kernels."""

from typing import Any

import pytest

from cotenant_predictor.profiling import kernels

LIMITS = kernels.Limits.of_capability((9, 0), sm_count=132)


def event(name: str, duration: float, *, grid: list[int], block: list[int], registers: int = 32) -> dict[str, Any]:
    shape = {"grid": grid, "block": block, "registers per thread": registers, "shared memory": 0}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 0, "dur": duration, "args": shape}


def launch(*, grid: int, block: int = 256, registers: int = 32, shared_bytes: int = 0) -> kernels.Launch:
    return kernels.Launch("k", (grid, 1, 1), (block, 1, 1), registers, shared_bytes, 1, 10.0, 0.0)


def test_launches_of_one_kernel_and_shape_are_one_row() -> None:
    trace = {
        "traceEvents": [
            event("gemm", 900.0, grid=[8, 8, 1], block=[128, 1, 1]),
            event("gemm", 1100.0, grid=[8, 8, 1], block=[128, 1, 1]),
            event("gemm", 5.0, grid=[4, 4, 1], block=[128, 1, 1]),
            {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 0, "dur": 7.0, "args": {}},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 7.0},
        ]
    }
    first, second = kernels.launches(trace)
    assert (first.count, first.microseconds, first.long_microseconds) == (2, 2000.0, 1100.0)
    assert (second.count, second.grid) == (1, (4, 4, 1))
    assert first.to_object() == {
        "name": "gemm",
        "count": 2,
        "microseconds": 2000.0,
        "grid": [8, 8, 1],
        "block": [128, 1, 1],
        "registers": 32,
        "sharedBytes": 0,
    }


@pytest.mark.parametrize(
    ("row", "blocks"),
    [
        (launch(grid=1, block=256), 8),
        (launch(grid=1, block=1024), 2),
        (launch(grid=1, block=32), 32),
        (launch(grid=1, block=256, registers=255), 1),
        (launch(grid=1, block=256, registers=64), 4),
        (launch(grid=1, block=256, shared_bytes=227 * 1024), 1),
        (launch(grid=1, block=256, shared_bytes=100 * 1024), 2),
    ],
)
def test_threads_registers_and_shared_memory_bound_the_blocks_of_a_multiprocessor(
    row: kernels.Launch, blocks: int
) -> None:
    assert kernels.resident_blocks(row, LIMITS) == blocks


def test_a_kernel_is_large_once_its_blocks_do_not_all_fit() -> None:
    assert not kernels.is_large(launch(grid=132 * 8), LIMITS)
    assert kernels.is_large(launch(grid=132 * 8 + 1), LIMITS)


def test_older_gpus_hold_fewer_blocks() -> None:
    assert kernels.Limits.of_capability((7, 5), sm_count=40).blocks_per_sm == 16
    assert kernels.Limits.of_capability((8, 9), sm_count=142).blocks_per_sm == 24
    assert kernels.Limits.of_capability((8, 0), sm_count=108).blocks_per_sm == 32


def test_shares_are_of_the_time_of_all_kernels() -> None:
    trace = {
        "traceEvents": [
            event("long", 3000.0, grid=[1, 1, 1], block=[256, 1, 1]),
            event("large", 500.0, grid=[100_000, 1, 1], block=[256, 1, 1]),
            event("small", 500.0, grid=[1, 1, 1], block=[256, 1, 1]),
        ]
    }
    assert kernels.shares(kernels.launches(trace), LIMITS) == {"longKernelShare": 0.75, "largeKernelShare": 0.125}


def test_without_kernels_there_are_no_shares() -> None:
    assert kernels.shares([], LIMITS) == {"longKernelShare": None, "largeKernelShare": None}
