"""What was measured of jobs is kept by namespace and graph, and the next job of a graph gets what it teaches."""

import base64
import gzip
import json
from typing import Any

import pytest

from cotenant_api import names, prediction
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_operator import labels
from cotenant_operator.kube import api
from cotenant_operator.learning import collecting, ledger
from cotenant_operator.loop import keeper
from cotenant_operator.state import measured
from cotenant_predictor.datasets import measurements
from cotenant_predictor.jobs import coefficients
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.measuring import line
from operator_kit.server import Crashed, Fault

Json = dict[str, Any]

RELEASE = names.RELEASE_NAMESPACE
NAME = ledger.name_of("team")
LIFE = ("create_pods", "place", "run_pods")
DIGEST = objects.toy_graph().digest


def tell(cluster: Cluster, *, seconds: int = 75, percent: int = 33, peak_mib: int = 9000, **status: Any) -> None:
    """What the node agent publishes of all pods that were placed."""
    ended = [
        {
            "podUID": pod["metadata"]["uid"],
            "memoryPeakMiB": peak_mib,
            "aloneSeconds": seconds,
            "aloneUtilizationPercent": percent,
            "time": cluster.time.text(),
        }
        for pod in cluster.server.all("pods")
    ]

    def edit(value: Json) -> None:
        value["status"] |= status
        value["status"]["gpus"][0]["ended"] = ended

    cluster.server.change("gpunodes", "n1", edit, namespace="")


async def keep(cluster: Cluster, seconds: float = 31) -> None:
    """Let so much time pass that measurements are written; a crash starts another process."""
    await cluster.advance(seconds)
    try:
        await cluster.work.keeper.write_due()
    except Crashed:
        cluster.restart()
        await cluster.work.keeper.read_all()
        await cluster.start()
    await cluster.settle()


def writes(request: api.Request) -> bool:
    """Whether a request writes measurements."""
    named = NAME in request.path or (request.body or {}).get("metadata", {}).get("name") == NAME
    return request.method != "GET" and named


def found_in(cluster: Cluster) -> Json | None:
    """The ConfigMap of the namespace's measurements."""
    return cluster.server.find("configmaps", NAME, namespace=RELEASE)


async def life(cluster: Cluster, name: str = "train", *, end: str = "succeed", **spec: Any) -> None:
    cluster.apply(objects.dljob(name, **spec))
    await cluster.run(*LIFE)
    tell(cluster)
    await cluster.run(end)


def kept(cluster: Cluster) -> ledger.Ledger:
    return ledger.read(found_in(cluster))


def booked(cluster: Cluster, name: str) -> str | None:
    job = cluster.server.find("jobs", name) or {}
    found: str | None = job["spec"]["template"]["metadata"]["annotations"].get(names.GPU_MEMORY)
    return found


async def test_a_finished_job_leaves_a_measurement_and_its_graph(cluster: Cluster) -> None:
    await life(cluster)
    await keep(cluster)
    (found,) = kept(cluster).lines
    assert (found.graph, found.gpu_model, found.outcome) == (DIGEST, objects.MODEL, "Ok")
    assert (found.values.utilization, found.values.memory_peak_mib, found.duration_seconds) == (33, 9000, 75)
    assert (found.mechanism, found.thread_percentage, found.memory_limit_mib) == ("MPS", 25, 2085)
    config_map = found_in(cluster) or {}
    assert list(ledger.graphs(config_map)) == [DIGEST]
    assert "ownerReferences" not in config_map["metadata"]


async def test_every_null_has_its_reason_and_simulated_is_taken_over(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*LIFE)
    tell(cluster, seconds=59, simulated=True, driverVersion="570.1", cudaVersion="12.8")
    await cluster.run("succeed")
    await keep(cluster)
    (found,) = kept(cluster).lines
    assert found.simulated
    assert (found.values.utilization, found.reasons["utilization"]) == (None, "not 60 s alone on the GPU")
    assert found.reasons["smActivity"] == "no agent sees it"
    assert (found.environment.driver, found.environment.cuda) == ("570.1", "12.8")


async def test_the_next_job_of_the_graph_books_what_the_former_one_used(cluster: Cluster) -> None:
    await life(cluster)
    await life(cluster, "again")
    assert booked(cluster, "train-1") is None
    assert booked(cluster, "again-1") == "9900Mi"


async def test_what_was_learned_is_booked_only_as_far_as_an_allowed_gpu_can_hold_it(cluster: Cluster) -> None:
    node = objects.gpu_node(gpus={"GPU-1": "NVIDIA-H200", "GPU-2": "NVIDIA-L4"})
    node["status"]["gpus"][1]["memoryMiB"] = 8000
    cluster.server.change("gpunodes", objects.NODE, lambda value: value.update(status=node["status"]), namespace="")
    await life(cluster)
    await life(cluster, "again", gpuModels=["NVIDIA-L4"])
    # 9900 MiB were learned, and of 8000 MiB 5 % are headroom.
    assert booked(cluster, "again-1") == "7600Mi"


async def test_a_job_of_another_graph_learns_nothing(cluster: Cluster) -> None:
    await life(cluster)
    other = objects.toy_graph(flops=2**27)
    cluster.apply(objects.config_map("other", data=other.packed()), plural="configmaps")
    model = {"configMapRef": {"name": "other", "key": "graph.json.gz"}}
    await life(cluster, "again", model=model)
    assert booked(cluster, "again-1") is None


async def test_less_than_what_is_predicted_is_not_booked(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*LIFE)
    tell(cluster, peak_mib=10)
    await cluster.run("succeed")
    await life(cluster, "again")
    assert booked(cluster, "again-1") is None


async def test_what_was_learned_outlives_the_process(cluster: Cluster) -> None:
    await life(cluster)
    await keep(cluster)
    cluster.server.delete("dljobs", "train")
    cluster.restart()
    await cluster.work.keeper.read_all()
    await cluster.start()
    await life(cluster, "again")
    assert booked(cluster, "again-1") == "9900Mi"


async def test_the_next_job_is_corrected_by_what_was_measured(cluster: Cluster) -> None:
    edit = {"correction": "Hybrid"}
    cluster.set_policy(**edit)
    await life(cluster)
    await life(cluster, "again")
    job = cluster.server.find("jobs", "again-1") or {}
    text = job["spec"]["template"]["metadata"]["annotations"][names.PREDICTION]
    row = prediction.Prediction.from_json(text, source="test").by_gpu[GPUModel(objects.MODEL)]
    assert (row.utilization.q50, row.utilization.upper) == (33, 43)


async def test_a_crashed_pod_is_told_apart_from_one_that_ran_out_of_memory(cluster: Cluster) -> None:
    await life(cluster, end="fail", backoffLimit=0)
    await keep(cluster)
    assert [found.outcome for found in kept(cluster).lines] == ["Crashed"]


async def test_measurements_are_written_once_in_thirty_seconds(cluster: Cluster) -> None:
    await life(cluster, "one")
    await life(cluster, "two")
    cluster.server.requests.clear()
    await keep(cluster, 29)
    assert kept(cluster).lines == ()
    await keep(cluster, 2)
    assert len(kept(cluster).lines) == 2
    await keep(cluster, 600)
    assert len([request for request in cluster.server.requests if writes(request)]) == 1


async def test_figures_that_come_after_the_end_are_taken(cluster: Cluster) -> None:
    await life(cluster)
    tell(cluster, peak_mib=9500)
    await keep(cluster)
    assert kept(cluster).lines[0].values.memory_peak_mib == 9500


async def test_lines_of_another_writer_are_kept(cluster: Cluster) -> None:
    await life(cluster)
    await keep(cluster)
    other = kept(cluster).with_lines([line("other")])
    found = found_in(cluster) or {}
    data = ledger.manifest("team", other, ledger.graphs(found), release=RELEASE)["data"]
    cluster.server.change("configmaps", NAME, lambda value: value.update(data=data), namespace=RELEASE)
    await life(cluster, "again")
    await keep(cluster)
    assert len(kept(cluster).lines) == 3


async def test_what_a_tenant_writes_in_its_namespace_is_not_believed(cluster: Cluster) -> None:
    lines = ledger.EMPTY.with_lines([line("forged", graph=DIGEST, peak_mib=1, utilization=1)])
    for name in ("cotenant-measurements", NAME):
        forged = ledger.manifest("team", lines, {}, release="team")
        cluster.apply(forged | {"metadata": forged["metadata"] | {"name": name}}, plural="configmaps")
    cluster.restart()
    await cluster.work.keeper.read_all()
    assert cluster.work.keeper.learned("team", DIGEST) == measured.NOTHING


async def test_a_config_map_of_somebody_else_is_left_alone(cluster: Cluster) -> None:
    body = {"metadata": {"name": NAME, "namespace": RELEASE}, "data": {"mine": "1"}}
    cluster.apply(body, plural="configmaps")
    before = found_in(cluster)
    await life(cluster)
    await keep(cluster)
    assert found_in(cluster) == before


@pytest.mark.parametrize(
    "fault", [Fault(effect=True, status=-1), Fault(effect=False, status=-1), Fault(effect=True, status=0)]
)
@pytest.mark.parametrize("first", [True, False])
async def test_a_crash_or_a_lost_reply_at_the_write_loses_nothing_and_keeps_nothing_twice(
    cluster: Cluster, fault: Fault, first: bool
) -> None:
    if not first:
        await life(cluster, "before")
        await keep(cluster)
    await life(cluster)
    faults = [fault]
    cluster.server.fault = lambda request: faults.pop() if faults and writes(request) else None
    await keep(cluster)
    await keep(cluster)
    found = [each.id for each in kept(cluster).lines]
    assert not faults
    assert len(found) == len(set(found)) == (1 if first else 2)


async def test_a_conflict_is_written_again_over_what_is_there(cluster: Cluster) -> None:
    await life(cluster, "before")
    await keep(cluster)
    await life(cluster)
    faults = [Fault(effect=False, status=409)]
    cluster.server.fault = lambda request: faults.pop() if faults and writes(request) else None
    await keep(cluster)
    assert len(kept(cluster).lines) == 1
    await keep(cluster)
    assert len(kept(cluster).lines) == 2


async def test_a_line_that_the_bounds_left_out_is_not_written_again(cluster: Cluster) -> None:
    for number in range(ledger.MAX_OF_A_GRAPH + 2):
        await life(cluster, f"job-{number}")
    await keep(cluster)
    before = [each.id for each in kept(cluster).lines]
    assert len(before) == ledger.MAX_OF_A_GRAPH
    cluster.server.requests.clear()
    cluster.work.enqueue(cluster.store.keys())
    await keep(cluster)
    await keep(cluster)
    assert not [request for request in cluster.server.requests if writes(request)]


def test_the_oldest_lines_of_a_graph_go_first() -> None:
    found = ledger.EMPTY
    for number in range(20):
        found = found.with_lines([line(f"a{number}"), line(f"b{number}", graph="sha256:b")])
    assert [each.id for each in found.lines if each.graph == "sha256:a"] == [f"a{number}" for number in range(12, 20)]


def test_a_config_map_stays_within_its_bounds() -> None:
    lines = [line(f"{number:05}", graph=f"sha256:{number:064x}") for number in range(2000)]
    found = ledger.EMPTY.with_lines(lines)
    documents = {each.graph: base64.b64encode(bytes(9000)).decode() for each in lines}
    written = ledger.manifest("team", found, documents, release=RELEASE)
    assert len(written["data"][ledger.KEY]) <= ledger.MAX_LINES_BYTES
    assert sum(map(len, written["binaryData"].values())) <= ledger.MAX_GRAPHS_BYTES
    assert found.lines[-1].id == "01999"
    assert f"{1999:064x}{ledger.SUFFIX}" in written["binaryData"]


def test_a_line_that_cannot_be_read_is_left_out() -> None:
    text = f"{line('a').to_json()}\nnonsense\n"
    assert [each.id for each in ledger.read({"data": {ledger.KEY: text}}).lines] == ["a"]


async def test_operator_that_starts_skips_lines_that_somebody_else_wrote_and_says_how_many(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ledger.EMPTY.with_lines([line("a"), line("b", peak_mib=3000)])
    content = ledger.manifest("team", lines, {}, release=RELEASE)
    content["data"][ledger.KEY] += "nonsense\n" + '{"v":99}\n'
    cluster.apply(content, plural="configmaps")
    await cluster.work.keeper.read_all()
    assert cluster.work.keeper.learned("team", GraphDigest("sha256:a")).memory_mib == 3300
    assert f"ConfigMap {RELEASE}/{NAME}: 2 lines are skipped" in caplog.text


def test_of_too_many_lines_the_newest_whole_ones_are_read() -> None:
    text = "".join(f"{number:09}\n" for number in range(100_000))
    found = ledger.text({"data": {ledger.KEY: text}}).decode().splitlines()
    assert found[-1] == "000099999"
    assert all(len(each) == 9 for each in found)
    assert len(found) * 10 <= ledger.MAX_LINES_BYTES


def test_the_newest_measurement_alone_counts_and_the_largest_peak() -> None:
    lines = [line("a", utilization=50, peak_mib=2000), line("b", utilization=30, peak_mib=1000), line("c")]
    learned = ledger.EMPTY.with_lines(lines).learned(GraphDigest("sha256:a"))
    assert learned.memory_mib == 2200
    assert learned.measured is not None
    assert learned.measured.by_gpu[GPUModel("NVIDIA-H200")].utilization_percent == 30


async def test_what_is_exported_is_what_training_reads(cluster: Cluster, tmp_path: Any) -> None:
    await life(cluster)
    await keep(cluster)
    file = tmp_path / "all.jsonl"
    found = await collecting.collected([found_in(cluster) or {}], cluster.parser.ask)
    assert found.skipped == []
    file.write_text("\n".join(found.text()))
    read = measurements.load([file])
    assert (read.groups, read.gpu_models) == (("toy",), (objects.MODEL,))
    assert [record.namespace for record in read.records] == ["team"]
    assert json.loads(gzip.decompress(objects.toy_graph().packed()))["digest"] == read.records[0].graph


async def test_spoilt_graph_of_a_finished_job_leaves_its_measurement_and_the_operator(cluster: Cluster) -> None:
    await life(cluster)
    cluster.server.change("jobs", "train-1", lambda job: job["metadata"]["annotations"].update({labels.GRAPH: ""}))
    await cluster.settle()
    await keep(cluster)
    assert [found.graph for found in kept(cluster).lines] == [DIGEST]


@pytest.mark.parametrize("error", [ValueError("spoilt"), RecursionError("deep")])
async def test_fault_with_one_namespace_leaves_the_others_and_the_operator(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    await life(cluster)
    pending = cluster.work.keeper._pending
    pending["evil"], pending["team"] = keeper._Pending(since=0.0, specs=pending["team"].specs), pending.pop("team")
    name_of = ledger.name_of

    def named(namespace: str) -> str:
        if namespace == "evil":
            raise error
        return name_of(namespace)

    monkeypatch.setattr(ledger, "name_of", named)
    await keep(cluster)
    assert len(kept(cluster).lines) == 1


def test_a_job_whose_prediction_was_right_books_no_more_for_what_is_learned_of_it() -> None:
    assert 100 * coefficients.FORMULA_1.memory_widening >= ledger.LEARNED_PERCENT
