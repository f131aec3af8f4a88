"""GPU models are rows of data: read, checked, named as NVIDIA's feature discovery names them."""

from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUModel
from cotenant_predictor import devices

ROW = """
- {name: NVIDIA-X, computeCapability: "9.9", memoryMiB: 1024, memoryGigabytesPerSecond: 100, hostGigabytesPerSecond: 10,
   smCount: 10, clockMHz: 1000, l2MiB: 1, powerWatts: 9,
   peakTeraflops: {fp32: 10, bf16: 40}, source: nowhere}
"""


def test_known_models_bear_the_names_of_feature_discovery() -> None:
    expected = {
        "NVIDIA-B200",
        "NVIDIA-GB200",
        "NVIDIA-GeForce-RTX-5090",
        "NVIDIA-H20",
        "NVIDIA-H200",
        "NVIDIA-L20",
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
        "NVIDIA-A100-SXM4-40GB",
        "NVIDIA-A100-80GB-PCIe",
        "NVIDIA-H100-80GB-HBM3",
        "NVIDIA-L4",
        "Tesla-T4",
        "Tesla-V100-PCIE-32GB",
        "Tesla-P100-PCIE-16GB",
        "Tesla-P4",
    }
    assert expected <= set(devices.load())


def test_every_row_has_plausible_units() -> None:
    for device in devices.load().values():
        assert 4 <= device.peak_teraflops["fp32"] <= 200
        assert 100 <= device.memory_gigabytes_per_second <= 10_000
        assert 4_000 <= device.memory_mib <= 400_000
        assert device.source


def test_peaks_follow_from_multiprocessors_and_clock() -> None:
    cores = {"3.7": 192, "6.0": 64, "6.1": 128, "7.0": 64, "7.5": 64, "8.0": 64, "8.6": 128, "8.9": 128, "9.0": 128}
    cores |= {"10.0": 128, "12.0": 128}
    for device in devices.load().values():
        computed = 2e-6 * device.sm_count * cores[device.compute_capability] * device.clock_mhz
        assert device.peak_teraflops["fp32"] == pytest.approx(computed, rel=0.02), device.name


def test_type_without_rate_runs_at_that_of_fp32() -> None:
    t4 = devices.load()[GPUModel("Tesla-T4")]
    assert t4.peak_flops("bf16") == t4.peak_flops("fp32") == 8.141e12


def test_adding_a_row_adds_a_gpu() -> None:
    known = devices.parse(ROW, source="more.yaml")
    assert known[GPUModel("NVIDIA-X")].peak_flops("bf16") == 40e12


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("name: NVIDIA-X", "nome: NVIDIA-X"), r"more.yaml\[0\].name"),
        (("smCount: 10", "smCount: 0"), r"more.yaml\[0\].smCount"),
        (("fp32: 10", "fp33: 10"), r"more.yaml\[0\].peakTeraflops"),
        (("fp32: 10", "fp32: -1"), r"more.yaml\[0\].peakTeraflops.fp32"),
        (("fp32: 10", "fp32: .nan"), r"'more.yaml': must be YAML: line 4"),
        (('"9.9"', "nine"), r"more.yaml\[0\].computeCapability"),
    ],
)
def test_wrong_row_is_refused_by_its_field(change: tuple[str, str], field: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=field):
        devices.parse(ROW.replace(*change), source="more.yaml")


def test_row_that_is_there_twice_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="twice"):
        devices.parse(ROW + ROW, source="more.yaml")


def test_rows_of_a_file_come_beside_those_of_the_release_and_before_them(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text(ROW + ROW.replace("NVIDIA-X", "Tesla-T4"))
    known = devices.with_file(file)
    assert known.keys() == devices.load().keys() | {"NVIDIA-X"}
    assert list(known) == sorted(known)
    assert known[GPUModel("Tesla-T4")].sm_count == 10
    assert devices.load()[GPUModel("Tesla-T4")].sm_count == 40


def test_without_a_file_those_of_the_release_are_known() -> None:
    assert devices.with_file(None) is devices.load()


@pytest.mark.parametrize("content", [b"- {name: [", b"\xff\xfe\x00"])
def test_file_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "more.yaml"
    file.write_bytes(content)
    with pytest.raises(errors.InvalidInputError, match=r"more\.yaml"):
        devices.with_file(file)


def test_file_that_is_not_there_is_refused_by_the_option(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="--devices"):
        devices.with_file(tmp_path / "none.yaml")


def test_file_that_is_no_list_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="list"):
        devices.parse("name: NVIDIA-X", source="more.yaml")


def test_selecting_nothing_selects_every_model() -> None:
    assert len(devices.select([])) == len(devices.load())


def test_selecting_keeps_the_order_and_drops_repetitions() -> None:
    chosen = devices.select(["Tesla-T4", "NVIDIA-L4", "Tesla-T4"])
    assert [device.name for device in chosen] == ["Tesla-T4", "NVIDIA-L4"]


def test_unknown_model_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"NVIDIA-H300.*NVIDIA-H200"):
        devices.select(["NVIDIA-H300"])
