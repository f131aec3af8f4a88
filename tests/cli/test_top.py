"""`cotenant top`: predicted beside booked beside observed, whatever of it is known."""

from typing import Any

import pytest

from cli import kit
from cotenant_api import errors, names, tables
from cotenant_cli.reading import cluster
from cotenant_cli.views import usage_tables


def text(*, look: tables.Look | None = None, **objects: Any) -> str:
    return "\n".join(usage_tables.lines(kit.top(**objects), look or tables.Look()))


def small() -> dict[str, Any]:
    alone = kit.tenant("a", aloneSeconds=80, aloneUtilizationPercent=43)
    busy = kit.gpu(tenants=[alone, kit.tenant("gone")], utilizationPercent=83, memoryUsedMiB=8000)
    sick = kit.gpu("GPU-1", index=1, health="Suspect", reason="Xid 79")
    return {
        "pods": [
            kit.pod("a", on="GPU-0", labels={names.DLJOB_LABEL: "a"}),
            kit.pod("b", on="GPU-0", namespace="other"),
        ],
        "gpunodes": [kit.gpunode(kit.gpu("GPU-2"), name="n2", ready="False"), kit.gpunode(sick, busy)],
    }


TABLE = """\
NODE   GPU   MODEL        TENANTS   PREDICTED%   BOOKED%    UTIL%   MIB-BOOKED   MIB-USED     MIB   HEALTH
n1       0   NVIDIA-A10         3          80+      110+       83        8000+       8000   23028   Healthy
n1       1   NVIDIA-A10         0            0         0   <none>            0     <none>   23028   Suspect
n2       0   NVIDIA-A10         0            0         0   <none>            0     <none>   23028   NotReady

NODE   GPU   NAMESPACE   POD    PREDICTED%   UPPER%   BOOKED%   ALONE%   MIB-PREDICTED   MIB-BOOKED   MIB-USED
n1       0   other       b              40       55        55   <none>            4000         4000     <none>
n1       0   team        a              40       55        55       43            4000         4000       3900
n1       0   team        gone       <none>   <none>    <none>   <none>          <none>       <none>       3900"""


def test_gpus_and_tenants_stand_in_two_tables() -> None:
    assert text(**small()) == TABLE


def test_an_upper_bound_is_never_shown_below_itself() -> None:
    pod = kit.pod("a", on="GPU-0", notes={names.PREDICTION: kit.prediction(upper=54.4)})
    *_, row = text(pods=[pod], gpunodes=[kit.gpunode(kit.gpu())]).splitlines()
    assert row.split()[4:6] == ["40", "55"]


def test_a_prediction_of_more_than_a_whole_gpu_is_none_and_said() -> None:
    huge = {names.PREDICTION: kit.prediction(1.7e308, upper=10.0)}
    pods = [kit.pod(name, on="GPU-0", notes=huge) for name in ("a", "b")]
    shown = kit.top(pods=pods, gpunodes=[kit.gpunode(kit.gpu())])
    (gpu,) = shown.gpus
    assert (gpu.predicted_percent, gpu.unpredicted_tenants, gpu.booked_share) == (0, 2, 110)
    assert "utilization.q50: 1.7e+308: " in shown.notes[0]


def test_wide_says_what_is_wrong_with_a_gpu() -> None:
    said = text(look=tables.Look(wide=True), **small())
    assert "GPU-1   Xid 79" in said
    assert "GPU-2   NoCDI: told" in said


def test_a_namespace_shows_its_pods_and_their_gpus_alone() -> None:
    shown = kit.top(namespace=kit.TEAM, **small())
    (gpu,) = shown.gpus
    assert [(one.namespace, one.pod) for one in gpu.tenants] == [("team", "a"), ("team", "gone")]


def test_what_a_namespace_does_not_let_see_is_counted_as_unknown() -> None:
    objects = small()
    objects["gpunodes"] = [kit.gpunode(kit.gpu(tenants=[kit.tenant("a"), kit.tenant("b", namespace="other")]))]
    (gpu,) = kit.top(namespace=kit.TEAM, **objects).gpus
    assert (gpu.tenant_count, gpu.unknown_tenants, gpu.booked_share) == (2, 1, 55)


def test_beside_a_pod_without_a_prediction_the_sum_says_that_it_is_not_all() -> None:
    pod = kit.pod("b", on="GPU-0")
    del pod["metadata"]["annotations"][names.PREDICTION]
    objects: dict[str, Any] = {"pods": [kit.pod("a", on="GPU-0"), pod], "gpunodes": [kit.gpunode(kit.gpu())]}
    (gpu,) = kit.top(**objects).gpus
    assert (gpu.unknown_tenants, gpu.unpredicted_tenants) == (0, 1)
    assert text(**objects).splitlines()[1].split()[4:6] == ["40+", "110"]


def test_a_pod_that_has_ended_books_nothing() -> None:
    (gpu,) = kit.top(
        pods=[kit.pod("a", on="GPU-0", status={"phase": "Failed"})], gpunodes=[kit.gpunode(kit.gpu())]
    ).gpus
    assert (gpu.booked_share, gpu.tenants) == (0, ())


def test_without_gpus_that_is_said() -> None:
    assert text().startswith("No GPU is told of")


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ({"pods": [kit.pod("a", on="GPU-9")]}, "GPU-9 is booked for team/a, and no GPUNode lists it"),
        ({"pods": [kit.pod("a", share=150)]}, "team/a: spec.containers[main]"),
        ({"pods": [kit.pod("a", notes={names.PLACEMENT: "{"})]}, names.PLACEMENT),
        ({"gpunodes": [kit.gpunode(kit.gpu(health="Fine"))]}, "GPUNode[n1].status.gpus[0].health"),
        ({"gpunodes": [kit.gpunode(kit.gpu(), simulated=True)]}, "simulated, and so is what is observed there: n1"),
    ],
)
def test_what_cannot_be_read_or_believed_is_a_note(objects: dict[str, Any], words: str) -> None:
    (note,) = kit.top(**objects).notes
    assert words in note


def test_gpunodes_that_may_not_be_read_are_an_error() -> None:
    with pytest.raises(errors.PermanentError, match="403"):
        kit.top(forbidden=[cluster.GPUNODES])


def test_no_word_of_others_reaches_a_terminal_as_more_than_text() -> None:
    gpu = kit.gpu(tenants=[kit.tenant(kit.HOSTILE)], model=kit.HOSTILE, reason=kit.HOSTILE)
    said = text(look=tables.Look(wide=True), gpunodes=[kit.gpunode(gpu)])
    assert said.count("owned") == 3
    assert all(line.isprintable() for line in said.splitlines())


def test_colours_change_no_column() -> None:
    coloured = text(look=tables.Look(colours=True), **small())
    plain = coloured
    for tone in tables.Tone:
        plain = plain.replace(f"\x1b[{tone.value}m", "")
    assert "\x1b[31mSuspect" in coloured
    assert [line.rstrip() for line in plain.replace("\x1b[0m", "").splitlines()] == TABLE.splitlines()


def test_the_document_keeps_its_keys() -> None:
    document = kit.top(**small()).to_object()
    assert " ".join(sorted(document)) == "gpus notes taken v"
    gpu = document["gpus"][0]
    assert " ".join(sorted(gpu)) == (
        "bookedMemoryMiB bookedShare foreignProcesses health index memoryMiB memoryUsedMiB mode model "
        "mps node predictedPercent ready reason simulated tenantCount tenants unknownTenants unpredictedTenants "
        "utilizationPercent uuid"
    )
    known = next(one for one in gpu["tenants"] if one["pod"] == "a")
    assert " ".join(sorted(known)) == "booked dljob namespace observed pod predicted"
    assert " ".join(sorted(known["predicted"])) == "memoryMiB source upperPercent utilizationPercent"
    assert " ".join(sorted(known["booked"])) == "activeThreadPercentage memoryMiB share"
    assert " ".join(sorted(known["observed"])) == "aloneSeconds aloneUtilizationPercent memoryPeakMiB memoryUsedMiB"
