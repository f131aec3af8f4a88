"""Constants of the memory formula are what the memory of whole jobs says that others measured."""

import dataclasses

import numpy as np
import pytest

from cotenant_predictor.evaluation import peaks
from cotenant_predictor.jobs import coefficients
from cotenant_predictor.training import memory


@pytest.fixture(scope="module")
def known() -> memory.Rows:
    return memory.load()


@pytest.fixture(scope="module")
def said(known: memory.Rows) -> coefficients.Coefficients:
    return memory.fitted(known)


@pytest.mark.parametrize("name", sorted(memory.GRIDS))
def test_a_constant_is_what_the_data_say(said: coefficients.Coefficients, name: str) -> None:
    assert getattr(coefficients.FORMULA_1, name) == pytest.approx(getattr(said, name))


def test_constants_do_not_hang_on_one_family(known: memory.Rows) -> None:
    for family in dict.fromkeys(known.families.tolist()):
        without = peaks.constants_without([family])[family]
        assert without.allocator_slack == pytest.approx(coefficients.FORMULA_1.allocator_slack, abs=0.03)
        assert without.idle_block_share == pytest.approx(coefficients.FORMULA_1.idle_block_share, abs=0.3)


def test_nothing_is_learned_of_the_family_that_is_scored(known: memory.Rows, said: coefficients.Coefficients) -> None:
    mine = known.families == "resnet"
    spoilt = dataclasses.replace(known, most=np.where(mine, 1.0, known.most), least=np.where(mine, 1.0, known.least))
    assert memory.fitted(spoilt.where(~mine)) == memory.fitted(known.where(~mine))
    assert memory.fitted(spoilt) != said


def test_programs_and_tables_name_families_alike(known: memory.Rows) -> None:
    tables = set(known.families[known.kinds != "peaks"].tolist())
    programs = {
        memory.family_of(name) for name in ("efficientNet", "resnet18_cifar100", "resnet50_cifar100", "resnet50")
    }
    assert programs == {"efficientnet", "resnet"}
    assert programs <= tables
