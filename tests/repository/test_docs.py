"""Pages keep their word: every command is run by a test or says why not, and every object of ours is a valid one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant_api import dljob, documents, names, packingpolicy
from cotenant_e2e.documentation import blocks, links

ROOT = Path(__file__).parents[2]
SPECS: dict[str, type[documents.Model]] = {"DLJob": dljob.Spec, "PackingPolicy": packingpolicy.Spec}
ALL = list(blocks.of_pages(ROOT))
COMMANDS = [block for block in ALL if block.language in blocks.COMMANDS]
MANIFESTS = [
    block for block in ALL if block.language == "yaml" and not block.reason and "apiVersion: cotenant.dev" in block.text
]


def named(block: blocks.Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("block", COMMANDS, ids=named)
def test_a_command_is_run_by_a_test_or_says_why_not(block: blocks.Block) -> None:
    assert block.test or block.reason, "write above the block: <!-- run: PATH OF A TEST --> or <!-- not run: REASON -->"


@pytest.mark.parametrize("test", sorted({block.test for block in ALL if block.test}))
def test_a_test_that_pages_name_runs_their_blocks(test: str) -> None:
    assert f'blocks.run_by("{test}"' in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("block", MANIFESTS, ids=named)
def test_an_object_of_ours_is_what_the_api_takes(block: blocks.Block) -> None:
    for value in yaml.safe_load_all(block.text):
        if value["apiVersion"] == names.API_VERSION:
            checked(value)


def checked(value: dict[str, Any]) -> None:
    documents.validated(SPECS[value["kind"]], value["spec"], source=value["kind"])


@pytest.mark.parametrize("page", blocks.pages(ROOT))
def test_every_link_to_a_file_finds_one(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [target for target in links.targets(text, source=page) if not (ROOT / target).exists()] == []
