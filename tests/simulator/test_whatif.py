"""A cluster's jobs once more, under another policy or under one at all."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import cli, names
from cotenant_simulator.cluster import figures, needing
from cotenant_simulator.engine import history
from cotenant_simulator.live import dcgm, snapshot
from cotenant_simulator.twin import sites
from simulator import objects_kit as kit

Run = Callable[..., int]


def waiting(count: int, percent: float = 30, **changed: Any) -> list[kit.Object]:
    """So many jobs of one graph that came at once and wait."""
    return [kit.predicted(f"w{number}", percent, created=10, **changed) for number in range(count)]


def simulated(tmp_path: Path, whole: snapshot.Snapshot, *more: str, **policy: Any) -> dict[str, Any]:
    """The document of a what-if, of one seed."""
    (tmp_path / "snapshot.json").write_text(whole.to_json())
    arguments = ["--snapshot", str(tmp_path / "snapshot.json"), "--seeds", "0", "--processes", "1", *more]
    if policy:
        (tmp_path / "policy.yaml").write_text(json.dumps(kit.policy(**policy)))
        arguments += ["--policy", str(tmp_path / "policy.yaml")]
    assert cli.main(["simulate", "cluster", "--json", *arguments]) == 0
    return {}


@pytest.fixture
def what_if(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(whole: snapshot.Snapshot, *more: str, **policy: Any) -> dict[str, Any]:
        simulated(tmp_path, whole, *more, **policy)
        return dict(json.loads(capsys.readouterr().out))

    return run


WhatIf = Callable[..., dict[str, Any]]


def seeds(document: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The first seed under both plans."""
    return [plan["seeds"][0] for plan in document["plans"]]


def test_more_jobs_on_a_gpu_need_fewer_gpus_and_wait_less(what_if: WhatIf) -> None:
    found = what_if(kit.packing(waiting(6), maxTenantsPerGPU=1), maxTenantsPerGPU=3)
    before, after = seeds(found)
    assert (before["neededGPUs"], after["neededGPUs"]) == (6, 2)
    assert before["wait_mean_seconds"] > after["wait_mean_seconds"] == 0
    assert found["changes"] == [{"field": "spec.maxTenantsPerGPU", "before": "1", "after": "3"}]


def test_the_same_policy_changes_nothing(what_if: WhatIf) -> None:
    before, after = seeds(what_if(kit.packing(waiting(5, upper=50), maxTenantsPerGPU=2), maxTenantsPerGPU=2))
    assert before == after


def test_the_same_seed_gives_the_same_bytes(what_if: WhatIf) -> None:
    whole = kit.packing(waiting(5, upper=50))
    assert json.dumps(what_if(whole, maxTenantsPerGPU=2)) == json.dumps(what_if(whole, maxTenantsPerGPU=2))


def large(memory_mib: int) -> kit.Object:
    """A job that waits, and needs so much memory."""
    return kit.pod("large", share=30, annotations={names.PREDICTION: kit.believed(30, memory_mib=memory_mib)})


def test_a_job_that_no_gpu_takes_is_named_with_the_extenders_reason(what_if: WhatIf) -> None:
    whole = kit.packing([large(kit.GPU_MIB + 1), *waiting(1)])
    rejected = [plan["rejected"] for plan in what_if(whole, memoryHeadroomPercent=50)["plans"]]
    assert [[(one["name"], one["reason"]) for one in found] for found in rejected] == [
        [("team/large", "InsufficientMemory")]
    ] * 2


def test_a_job_that_no_shared_gpu_can_hold_under_the_proposal_needs_one_to_itself(what_if: WhatIf) -> None:
    whole = kit.packing([large(kit.GPU_MIB * 3 // 5), *waiting(1)])
    found = what_if(whole, memoryHeadroomPercent=50)
    assert [plan["rejected"] for plan in found["plans"]] == [[], []]
    assert [seed["neededGPUs"] for seed in seeds(found)] == [1, 2]


def test_jobs_without_prediction_are_held_where_the_proposal_holds_them(what_if: WhatIf) -> None:
    listed = kit.lists(
        nodes=[kit.node()], gpunodes=[kit.gpunode()], dljobs=[kit.dljob("unknown")], policies=[kit.policy()]
    )
    whole = kit.taken(listed)
    before, after = what_if(whole, queue={"onMissingPrediction": "Hold"})["plans"]
    assert before["rejected"] == []
    assert [one["reason"] for one in after["rejected"]] == ["PredictionMissing"]


def test_predictions_that_are_too_low_show_as_jobs_out_of_memory(what_if: WhatIf) -> None:
    row = json.loads(kit.believed(30, memory_mib=4000))
    row["byGPU"][kit.MODEL]["memoryMiB"] = {"q50": 4000, "upper": 4400}
    pods = []
    for number in range(40):
        notes = {names.PREDICTION: json.dumps(row | {"graph": f"sha256:{number:064}"})}
        pods.append(kit.pod(f"a{number}", share=30, annotations=notes))
    (_, after) = seeds(what_if(kit.packing(pods, gpus=8), maxTenantsPerGPU=3))
    assert 0 < after["out_of_memory"] < 15


def test_a_cluster_without_cotenant_would_have_saved_what_monitoring_says(what_if: WhatIf, tmp_path: Path) -> None:
    pods = [kit.pod(f"a{number}", whole=1, created=30, started=29) for number in range(4)]
    series = [{"metric": {"namespace": "team", "pod": f"a{number}"}, "value": [0, "20"]} for number in range(4)]
    memory = [item | {"value": [0, "2000"]} for item in series]
    answers = {
        dcgm.UTILIZATION: {"status": "success", "data": {"result": series}},
        dcgm.MEMORY: {"status": "success", "data": {"result": memory}},
    }
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    found = what_if(kit.plain(pods, nodes=2), "--prometheus", str(tmp_path / "answers.json"))
    assert found["unknownJobs"] == 0
    assert found["levels"] == [{"assumedPercent": None, "neededGPUs": [[4], [2]]}]


def test_what_nothing_recorded_is_a_range_by_assumption(what_if: WhatIf) -> None:
    found = what_if(kit.plain([kit.pod(f"a{number}", whole=1, created=30) for number in range(6)], nodes=3))
    assert found["unknownJobs"] == 6
    needed = {level["assumedPercent"]: level["neededGPUs"] for level in found["levels"]}
    assert {now for (now,), _ in needed.values()} == {6}
    assert [needed[level][1] for level in sorted(needed)] == [[2], [3], [6], [6]]


def test_several_gpus_of_a_pod_stay_whole(what_if: WhatIf) -> None:
    found = what_if(kit.plain([kit.pod(f"a{number}", whole=2, created=30) for number in range(2)], nodes=2))
    assert [plan["seeds"][0]["neededGPUs"] for plan in found["plans"]] == [4, 4]


def test_the_page_shows_differences_first_then_what_was_seen_and_has_plots(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    simulated(tmp_path, kit.packing(waiting(5), maxTenantsPerGPU=1), "--html", str(file), maxTenantsPerGPU=3)
    text = file.read_text()
    places = [text.index(words) for words in ("What changes", "Fields that differ", "As it was")]
    assert places == sorted(places)
    assert text.count("<svg") >= 6
    assert "exceeded by 10 % of held-out jobs" in text


def test_where_nothing_was_recorded_the_page_says_so(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    simulated(tmp_path, kit.plain([kit.pod("a", whole=1)]), "--html", str(file))
    assert "Cannot be known: what 1 of 1 jobs do with their GPUs" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--policy: None: name the file"),
        (["--policy", "missing.yaml"], "--policy: 'missing.yaml': cannot be read"),
        (["--policy", "{}", "--context", "c"], "--context: 'c': leave it out with --snapshot"),
        (["--policy", "{}", "--hours", "0"], "--hours: 0: must be at least 1"),
        (["--policy", "{}", "--prometheus", "missing"], "--prometheus: 'missing': cannot be read"),
        (["--policy", "{}", "--hours", "99999999"], "--hours: 99999999: reaches back before the year 1"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "s.json").write_text(kit.packing(waiting(1)).to_json())
    (tmp_path / "p.yaml").write_text(json.dumps(kit.policy()))
    words = [str(tmp_path / "p.yaml") if word == "{}" else word for word in arguments]
    assert cli.main(["simulate", "cluster", "--snapshot", str(tmp_path / "s.json"), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_cluster_without_gpu_or_without_job_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = kit.taken(kit.lists(nodes=[kit.node(unschedulable=True)], gpunodes=[kit.gpunode()]))
    for whole, message in ((closed, "has no GPU that takes pods"), (kit.packing([]), "has no job of the last")):
        (tmp_path / "s.json").write_text(whole.to_json())
        (tmp_path / "p.yaml").write_text(json.dumps(kit.policy()))
        files = ["--snapshot", str(tmp_path / "s.json"), "--policy", str(tmp_path / "p.yaml")]
        assert cli.main(["simulate", "cluster", *files]) == 2
        assert message in capsys.readouterr().err


def test_a_part_of_a_cluster_has_so_many_gpus_of_each_model() -> None:
    nodes = [
        sites.Node(
            name=names.NodeName(f"{model}{number}"),
            gpus=tuple(
                sites.GPU(uuid=names.GPUUID(f"{model}{number}/{slot}"), model=names.GPUModel(model), memory_mib=1)
                for slot in range(2)
            ),
        )
        for model in "AB"
        for number in range(2)
    ]
    part = needing.first(needing.extended(nodes, 2), {names.GPUModel("A"): 5, names.GPUModel("B"): 0})
    assert [len(node.gpus) for node in part] == [2, 2, 1]
    assert len({gpu.uuid for node in part for gpu in node.gpus}) == 5


def test_time_after_the_last_start_and_the_snapshot_counts_for_no_mean() -> None:
    lives = [history.Life(name="a", arrived=0, alone=100, started=0, ended=100, ran=100)]
    moments = [
        history.Moment(seconds=0, utilization=0.5, occupied=1, running=1, waiting=0),
        history.Moment(seconds=100, utilization=0, occupied=0, running=0, waiting=0),
    ]
    ran = history.History(gpus=2, lives=lives, moments=moments)
    assert (figures.of(ran, {}, until=50).used_gpus, figures.of(ran, {}, until=50).busy_percent) == (1.0, 50.0)
    assert figures.of(ran, {}, until=200).used_gpus == 0.5


def test_a_slower_gpu_is_no_slowdown() -> None:
    lives = [history.Life(name="a", arrived=0, alone=100, started=0, ended=200, ran=200)]
    assert figures.slowdowns(history.History(gpus=1, lives=lives), {0: 160.0}) == [25.0]


@pytest.mark.parametrize(("part", "value"), [(0.5, 2), (0.9, 4), (0.75, 3), (1.0, 4)])
def test_a_quantile_is_a_value_that_was_there(part: float, value: float) -> None:
    assert figures.at([1, 2, 3, 4], part) == value
