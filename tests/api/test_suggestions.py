"""Names that somebody may have meant."""

import pytest

from cotenant_api import suggestions

KNOWN = (
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-A100-PCIE-40GB",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H200",
    "NVIDIA-L4",
    "NVIDIA-L40S",
    "Tesla-T4",
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H100", ["NVIDIA-H100-80GB-HBM3"]),
        ("h100 80gb", ["NVIDIA-H100-80GB-HBM3"]),
        ("A100", ["NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-PCIE-40GB"]),
        ("A100-40GB", ["NVIDIA-A100-PCIE-40GB"]),
        ("L4", ["NVIDIA-L4"]),
        ("NVIDIA-H10O-80GB-HBM3", ["NVIDIA-H100-80GB-HBM3"]),
        ("tesla_t4", ["Tesla-T4"]),
        ("MI300X", []),
        ("", []),
        ("---", []),
    ],
)
def test_names_that_may_be_meant(name: str, found: list[str]) -> None:
    assert list(suggestions.meant(name, KNOWN)[: max(len(found), 1)]) == found


def test_where_nothing_is_alike_what_is_known_is_listed() -> None:
    assert suggestions.advice("MI300X", ["b", "a"]) == "known are a, b"
    assert suggestions.advice("MI300X", []) == ""


def test_a_long_list_is_cut() -> None:
    assert suggestions.advice("zzz", [f"a{number}" for number in range(20)]).endswith(" and 8 more")
