"""The predictor's model of jobs together, as packing asks it; and that it is read only for policies that need it."""

from typing import Any

import numpy as np
import pytest

from cotenant_api import errors, packingpolicy
from cotenant_extender import feed
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import jobs, speeds, threads
from cotenant_predictor.colocation import profiles
from cotenant_predictor.colocation.speeds import SpeedModel
from extender import builders, sharing
from extender.sharing import figures, job


def test_speeds_are_those_of_the_model_for_mps_with_threads_and_priorities() -> None:
    group = [job(figures(70, 40, threads=60), 50), job(figures(80, 70), 80, priority=1)]
    rows = np.array([profiles.of_prediction(one.predicted, one.gpu_memory_mib) for one in group if one.predicted])
    tenants = profiles.with_settings(rows, threads=np.array([0.5, 0.8]), priority=np.array([0, 1]))[None]
    expected = SpeedModel().predict(tenants, "MPS").speed[0]
    assert sharing.together(*group) == pytest.approx(expected)


def test_groups_of_different_sizes_are_asked_for_at_once() -> None:
    one, other = job(figures(70), 50), job(figures(60))
    found = speeds.Predicted(SpeedModel()).together([(), (one,), (other, one), (one, other)])
    assert np.isnan(found).tolist() == [[True, True], [False, True], [False, False], [False, False]]
    assert found[2].tolist() == found[3, ::-1].tolist()
    assert found[1, 0] == sharing.together(one)[0]


def test_no_groups_and_empty_ones_have_no_speeds() -> None:
    model = speeds.Predicted(SpeedModel())
    assert model.together([]).shape == (0, 0)
    assert model.together([(), ()]).shape == (2, 0)


def test_a_job_without_prediction_needs_the_threads_that_it_may_use_and_as_much_bandwidth() -> None:
    assert sharing.together(job(None, 40)) == [1.0]
    assert sharing.together(job(figures(80)), job(None, 40)) == pytest.approx([0.6 / 0.8, 1.0])
    assert sharing.together(job(figures(0, 80)), job(None, 40), job(None, 10)) == pytest.approx([0.5 / 0.8, 1.0, 1.0])


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, False),
        ({"placement": "BestFit", "threadPartition": "Proportional"}, False),
        ({"placement": "Interference"}, True),
        ({"threadPartition": "Throughput"}, True),
        ({"overrides": [{"gpuModels": ["Tesla-T4"], "threadPartition": "Primary"}]}, True),
        ({"overrides": [{"gpuModels": ["Tesla-T4"], "maxTenantsPerGPU": 2}]}, False),
    ],
)
def test_what_was_learned_is_needed_for_interference_and_partitions_by_speed_alone(spec: Any, needed: bool) -> None:
    policy = packingpolicy.PackingPolicy.from_object(builders.policy(**spec))
    assert threads.needs_speeds(policy.spec) is needed


def test_what_was_learned_is_read_once_when_a_policy_needs_it_first() -> None:
    read: list[jobs.Speeds] = []

    def learned() -> jobs.Speeds:
        read.append(speeds.Predicted(SpeedModel()))
        return read[-1]

    source = ledger.Ledger()
    policies = feed.Policies(source, lambda: None, learned=learned)
    policies.changed(builders.policy(1))
    assert read == []
    policies.changed(builders.policy(2, placement="Interference"))
    policies.changed(builders.policy(3, threadPartition="MaxMin"))
    assert source.known.speeds is read[0]
    assert len(read) == 1


def test_a_policy_for_which_nothing_can_be_read_leaves_the_one_before_in_force() -> None:
    def learned() -> jobs.Speeds:
        raise errors.InvalidInputError("default.json", "", "is no whole model file")

    source = ledger.Ledger()
    policies = feed.Policies(source, lambda: None, learned=learned)
    policies.changed(builders.policy(1))
    policies.changed(builders.policy(2, placement="Interference"))
    assert source.policy is not None
    assert source.policy.generation == 1
    assert policies.error is not None
    assert policies.error.field == "default.json"


def test_what_ships_can_be_read() -> None:
    source = ledger.Ledger()
    feed.Policies(source, lambda: None).changed(builders.policy(1, placement="Interference"))
    assert source.known.speeds is not None
    assert source.known.speeds.together([(job(figures(70)),)])[0, 0] == 1.0
