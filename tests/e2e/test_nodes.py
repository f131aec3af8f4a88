"""Simulated nodes."""

from cotenant_e2e import components, nodes

DEMO = nodes.demo()


def test_the_demo_has_six_nodes_with_twenty_gpus_of_four_models() -> None:
    shares = [int(node["status"]["allocatable"]["cotenant.dev/gpu-share"]) for node in DEMO]
    assert (len(DEMO), sum(shares)) == (6, 2000)
    assert len({node["metadata"]["labels"]["nvidia.com/gpu.product"] for node in DEMO}) == 4


def test_names_are_unique_and_are_the_host_names() -> None:
    names = [node["metadata"]["name"] for node in DEMO]
    assert len(set(names)) == len(names)
    assert names == [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in DEMO]


def test_every_node_is_kwoks_and_offers_gpus() -> None:
    for node in DEMO:
        assert node["metadata"]["annotations"] == components.SIMULATED_NODE
        assert node["metadata"]["labels"]["cotenant.dev/gpu"] == "true"
        assert node["status"]["capacity"] == node["status"]["allocatable"]


def test_whoever_lists_nodes_sees_that_they_are_simulated() -> None:
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in DEMO} == {"simulated"}


def test_equal_nodes_sort_by_number() -> None:
    names = [node["metadata"]["name"] for node in nodes.uniform(1000)]
    assert names == sorted(names)
    assert (names[0], names[-1]) == ("node-000", "node-999")


def test_equal_nodes_have_the_model_and_gpus_asked_for() -> None:
    (node,) = nodes.uniform(1, model=nodes.DEMO[2].model, gpus=8)
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-L4"
    assert node["status"]["allocatable"]["cotenant.dev/gpu-share"] == "800"
