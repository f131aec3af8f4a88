"""The registry of placements, and each placement's own choice."""

from cotenant_api import packingpolicy
from cotenant_extender import records
from cotenant_extender.ledger import views
from cotenant_extender.packing import first_fit, registry, rules
from extender import builders


def test_every_placement_that_the_policy_names_is_registered_and_no_other() -> None:
    assert set(registry.PLACEMENTS) == set(packingpolicy.Placement)


def test_first_fit_takes_the_first_option_and_looks_no_further() -> None:
    source = builders.cluster(nodes=3)
    builders.put(source, builders.bound("a", 80, "n0", "GPU-n0-0"))
    request = records.pod_record(builders.pod("b", 30)).request
    assert request is not None
    assert source.policy is not None
    options = rules.options(views.View(source), request, source.policy, check_host=True)
    chosen = first_fit.first_fit(options)
    assert chosen is not None
    assert [gpu.uuid for gpu in chosen.gpus] == ["GPU-n0-1"]
    assert [gpu.uuid for option in options for gpu in option.gpus] == [
        "GPU-n1-0",
        "GPU-n1-1",
        "GPU-n2-0",
        "GPU-n2-1",
    ]
