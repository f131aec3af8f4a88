"""Where others write the same field again and again, the operator waits longer each time, and tells of it once."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from cotenant_api import dljob
from cotenant_operator import labels
from cotenant_operator.loop import contests
from cotenant_operator.plans import actions
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.views import Key
from operator_kit import contenders, objects
from operator_kit.cluster import Cluster

KEY = Key("team", "train")
RUN = ("create_pods", "place", "run_pods")
SERVING = ("scale", "spoil_replicas", "spoil_digests", "surge")


def change(**spec: Any) -> actions.Change:
    return actions.Change(kind=Kind.JOB, name="train-1", uid="u", version=1, patch={"spec": spec})


def wrote(found: contests.Contests, action: actions.Action, *times: float, key: Key = KEY) -> None:
    """Note an action at each of these times."""
    for now in times:
        found.wrote(key, action, now, generation=1)


def turn(found: contests.Contests, action: actions.Action, now: float, *, key: Key = KEY) -> contests.Turn:
    return found.turn(key, action, now, generation=1)


def written(action: actions.Action, *, until: float, every: float = 1.0, edited: bool = False) -> list[float]:
    """When an action is done that is wanted every so many seconds, of one spec or of another each time."""
    found, times, now, generation = contests.Contests(), [], 0.0, 1
    while now < until:
        if found.turn(KEY, action, now, generation=generation).action is not None:
            found.wrote(KEY, action, now, generation=generation)
            times.append(now)
        now += every
        generation += edited
    return times


def test_three_writes_are_free_and_the_next_ones_wait_twice_as_long_each_time() -> None:
    times = written(change(backoffLimit=6), until=3600.0)
    assert times[:8] == [0, 1, 2, 12, 32, 72, 152, 312]
    assert {later - former for former, later in itertools.pairwise(times[8:])} == {360.0}


def test_what_follows_from_another_edit_waits_for_40_seconds_at_most() -> None:
    times = written(change(suspend=True), until=3600.0, edited=True)
    assert times[:7] == [0, 1, 2, 12, 32, 72, 112]
    assert {later - former for former, later in itertools.pairwise(times[5:])} == {40.0}


def test_an_edit_during_a_contest_waits_for_40_seconds_at_most() -> None:
    found, action = contests.Contests(), change(suspend=True)
    wrote(found, action, 0.0, 1.0, 2.0, 12.0, 32.0, 72.0, 152.0)
    assert found.turn(KEY, action, 153.0, generation=1).due == 312.0
    assert found.turn(KEY, action, 153.0, generation=2).due == 192.0


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("every", [0.125, 0.5, 1.0, 7.0, 13.0, 19.0, 29.0, 31.0])
def test_nothing_is_written_more_than_five_times_in_any_minute(every: float, edited: bool) -> None:
    times = written(change(backoffLimit=6), until=3600.0, every=every, edited=edited)
    assert all(later - former >= 60.0 for former, later in zip(times, times[5:], strict=False))


def test_what_is_written_seldom_never_waits() -> None:
    assert len(written(change(backoffLimit=6), until=3600.0, every=40.0)) == 90


def test_a_field_that_was_quiet_is_free_again_and_told_of_again() -> None:
    found, action = contests.Contests(), change(backoffLimit=6)
    wrote(found, action, 0.0, 1.0, 2.0)
    (write,) = turn(found, action, 3.0).waiting
    assert (found.untold(KEY, (write,)), found.untold(KEY, (write,))) == ((write,), ())
    assert turn(found, action, 602.0).action is action
    wrote(found, action, 602.0, 603.0, 604.0)
    assert turn(found, action, 605.0).due == 614.0
    assert found.untold(KEY, (write,)) == (write,)


def test_fields_that_mean_something_alone_do_not_wait_for_one_another() -> None:
    found = contests.Contests()
    wrote(found, change(backoffLimit=6), 0.0, 1.0, 2.0)
    held = turn(found, change(backoffLimit=6, suspend=True), 3.0)
    assert held.action == change(suspend=True)
    assert (held.due, [write.field for write in held.waiting]) == (12.0, [("spec", "backoffLimit")])


def test_fields_that_belong_together_wait_for_one_another() -> None:
    found = contests.Contests()
    wrote(found, change(activeDeadlineSeconds=None), 0.0, 1.0, 2.0)
    held = turn(found, change(activeDeadlineSeconds=None, suspend=False), 3.0)
    assert (held.action, held.due) == (None, 12.0)


@pytest.mark.parametrize(
    "action",
    [
        actions.UpdateRun(manifest={"metadata": {"name": "train-0"}}, uid="u", version=1),
        actions.Delete(kind=Kind.SERVICE, name="serve", uid="u", version=1),
        actions.Delete(kind=Kind.JOB, name="train-1", uid="u", version=1),
    ],
    ids=["the spec of a run", "a service", "a job"],
)
def test_what_another_brings_back_is_written_more_and_more_rarely(action: actions.Action) -> None:
    assert written(action, until=60.0) == [0, 1, 2, 12, 32]


def test_the_runs_of_the_largest_sweep_are_all_remembered() -> None:
    found = contests.Contests()
    made = [actions.Create(kind=Kind.DLJOB, manifest={"metadata": {"name": f"x-{n}"}}) for n in range(dljob.MAX_RUNS)]
    for now in range(contests.FREE):
        for action in made:
            wrote(found, action, float(now))
    assert all(turn(found, action, 3.0).action is None for action in made)


def test_what_must_run_no_more_is_deleted_at_once_however_often() -> None:
    action = actions.Delete(kind=Kind.JOB, name="train-1", uid="u")
    assert len(written(action, until=60.0)) == 60


def test_a_gang_that_a_quota_refuses_is_suspended_at_once_however_often() -> None:
    notes = {"annotations": {labels.QUOTA_SETBACK: "{}", labels.SUSPEND: "true"}}
    patch = {"metadata": notes, "spec": {"suspend": True, "backoffLimit": 6}}
    setback = actions.Change(kind=Kind.JOB, name="train-1", uid="u", version=1, patch=patch)
    found = contests.Contests()
    wrote(found, setback, *map(float, range(60)))
    held = turn(found, setback, 60.0)
    assert held.action == replace(setback, patch={"metadata": notes, "spec": {"suspend": True}})
    assert [write.field for write in held.waiting] == [("spec", "backoffLimit")]


def test_other_objects_and_other_dljobs_do_not_wait() -> None:
    found = contests.Contests()
    wrote(found, change(backoffLimit=6), 0.0, 1.0, 2.0)
    other = actions.Change(kind=Kind.JOB, name="train-2", uid="u", version=1, patch={"spec": {"backoffLimit": 6}})
    assert turn(found, other, 3.0).action is other
    assert turn(found, change(backoffLimit=6), 3.0, key=Key("team", "other")).action == change(backoffLimit=6)


def test_what_is_remembered_is_bounded_and_goes_with_time_and_with_the_dljob() -> None:
    found = contests.Contests()
    for number in range(2 * contests.MOST):
        wrote(found, change(**{f"field{number}": 1}), 0.0)
    assert len(found) == contests.MOST
    wrote(found, change(suspend=True), 1000.0, key=Key("team", "other"))
    assert len(found) == 1
    found.forget(Key("team", "other"))
    assert len(found) == 0


def change_note(uid: str | None) -> actions.Change:
    patch = {"metadata": {"annotations": {labels.DISRUPTED: uid}}}
    return actions.Change(kind=Kind.JOB, name="train-1", uid="u", version=1, patch=patch)


def test_the_note_of_one_more_eviction_never_waits() -> None:
    found = contests.Contests()
    for now, uid in enumerate(["a", None, "b", None, "c", None, "d", None]):
        assert turn(found, change_note(uid), float(now)).waiting == ()
        wrote(found, change_note(uid), float(now))


def test_the_note_of_an_eviction_does_not_wait_for_a_contest_over_another_field() -> None:
    found = contests.Contests()
    wrote(found, change(suspend=True), 0.0, 1.0, 2.0)
    both = replace(change_note("a"), patch={**change_note("a").patch, "spec": {"suspend": True}})
    held = turn(found, both, 3.0).action
    assert isinstance(held, actions.Change)
    assert held.patch == {**change_note("a").patch, "spec": {}}


def test_a_note_of_an_eviction_that_somebody_takes_away_waits_as_anything_else() -> None:
    assert written(change_note("a"), until=60.0) == [0, 1, 2, 12, 32]


def replicas(count: int) -> actions.Change:
    patch = {"metadata": {"annotations": {labels.REPLICAS: str(count)}}, "spec": {"replicas": count}}
    return actions.Change(kind=Kind.DEPLOYMENT, name="serve", uid="u", version=1, patch=patch)


def test_an_autoscaler_of_the_dljob_is_followed_at_once_and_is_no_contest() -> None:
    found = contests.Contests()
    for count in range(20):
        held = found.turn(KEY, replicas(count), 12.0 * count, generation=count)
        assert (held.waiting, held.undone) == ((), ())
        found.wrote(KEY, replicas(count), 12.0 * count, generation=count)


def test_replicas_that_change_all_the_time_are_written_five_times_in_a_minute_and_told_of_as_no_contest() -> None:
    found, times, stands = contests.Contests(), [], -1
    for second in range(600):
        wanted, now = second % 7, float(second)
        held = found.turn(KEY, replicas(wanted), now, generation=second)
        assert wanted == stands or held.undone == ()
        if wanted != stands and held.action is not None:
            found.wrote(KEY, replicas(wanted), now, generation=second)
            times.append(now)
            stands = wanted
    assert all(later - former >= 60.0 for former, later in zip(times, times[5:], strict=False))
    assert len(times) >= 45


def test_replicas_that_are_undone_wait_again_after_a_change() -> None:
    found = contests.Contests()
    wrote(found, replicas(2), 0.0)
    wrote(found, replicas(3), 1.0, 2.0, 3.0)
    assert turn(found, replicas(3), 4.0).due == 13.0


def test_what_was_written_for_a_former_dljob_of_the_name_is_forgotten() -> None:
    found = contests.Contests()
    found.begin(KEY, "first")
    wrote(found, change(suspend=True), 0.0, 1.0, 2.0)
    found.begin(KEY, "first")
    assert turn(found, change(suspend=True), 3.0).due == 12.0
    found.begin(KEY, "second")
    assert turn(found, change(suspend=True), 3.0).action is not None


async def begin(cluster: Cluster, writer: str) -> str:
    """A DLJob whose Job or Deployment the writer writes into."""
    name = "serve" if writer in SERVING else "train"
    cluster.apply(objects.dljob(name, workloadType="Inference" if name == "serve" else "Training"))
    await cluster.run(*RUN)
    if writer in ("scale", "set_deadlines"):
        suspend(cluster, name)
        await cluster.run("stop_suspended", "reap")
    if writer == "surge":
        cluster.room = 1
        image = {"template": objects.template(image="busybox:2")}
        cluster.server.change("dljobs", name, lambda value: value.update(spec={**value["spec"], **image}))
        await cluster.run("surge", "place")
        await cluster.advance(100)
    return name


def suspend(cluster: Cluster, name: str) -> None:
    cluster.server.change("dljobs", name, lambda value: value["spec"].update(suspend=True))


@pytest.mark.parametrize("writer", contenders.WRITERS)
async def test_nobody_is_fought_and_it_is_told_once(cluster: Cluster, writer: str) -> None:
    await begin(cluster, writer)
    for _ in range(6):
        await contenders.contend(cluster, writer, 20)
        assert contenders.fights(cluster.server) == {}
    assert cluster.events().count("Contested") == 1
    metric = b'cotenant_operator_contests_total{kind="%s"} 1.0'
    kind = b"Deployment" if writer in SERVING else b"Job"
    assert metric % kind in cluster.work.metrics.text()


@pytest.mark.parametrize("writer", contenders.WRITERS)
async def test_the_operators_last_word_stands_when_the_other_is_gone(cluster: Cluster, writer: str) -> None:
    name = await begin(cluster, writer)
    before = wanted(cluster, name)
    await contenders.contend(cluster, writer, 120)
    await cluster.advance(360)
    assert wanted(cluster, name) == before
    cluster.server.writes.clear()
    await cluster.advance(3600)
    assert cluster.server.writes == []


def wanted(cluster: Cluster, name: str) -> Any:
    """What is written into the Job or Deployment of a DLJob."""
    found = cluster.server.find("deployments", name) or cluster.server.find("jobs", f"{name}-1") or {}
    notes = {key: text for key, text in found["metadata"]["annotations"].items() if key != labels.FENCE}
    return notes, {key: part for key, part in found["spec"].items() if key != "template"}


async def test_the_event_names_object_field_and_who_writes_it(cluster: Cluster) -> None:
    await begin(cluster, "limit_failures")
    theirs = {"manager": "janitor", "operation": "Update", "fieldsV1": {"f:spec": {"f:backoffLimit": {}}}}
    job = cluster.server.change("jobs", "train-1", lambda value: value["metadata"]["managedFields"].append(theirs))
    assert job["spec"]["backoffLimit"] == 6
    await contenders.contend(cluster, "limit_failures", 10)
    (event,) = (event for event in cluster.server.all("events") if event["reason"] == "Contested")
    assert event["type"] == "Warning"
    assert event["message"].startswith("Job train-1: spec.backoffLimit was written 3 times within a minute")
    assert "written by janitor" in event["message"]


async def test_a_job_that_somebody_deletes_is_said_to_be(cluster: Cluster) -> None:
    await begin(cluster, "delete_jobs")
    await contenders.contend(cluster, "delete_jobs", 5)
    queue = cluster.condition("Queued")
    assert (queue["status"], queue["reason"]) == ("False", "Contested")
    assert queue["message"].startswith("Job train-1 was created 3 times within a minute and is gone again")
    await cluster.advance(10)
    assert [job["metadata"]["name"] for job in cluster.attempts()] == ["train-1"]


async def test_a_suspension_does_not_wait_for_a_contest_over_another_field(cluster: Cluster) -> None:
    await begin(cluster, "limit_failures")
    await contenders.contend(cluster, "limit_failures", 100)
    suspend(cluster, "train")
    contenders.limit_failures(cluster)
    await cluster.settle()
    (job,) = cluster.attempts()
    assert (job["spec"]["suspend"], job["spec"]["backoffLimit"]) == (True, 0)


async def test_the_status_does_not_wait(cluster: Cluster) -> None:
    await begin(cluster, "limit_failures")
    await contenders.contend(cluster, "limit_failures", 30)
    contenders.limit_failures(cluster)
    await cluster.run("hinder", "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_the_loop_rests_while_a_write_waits(cluster: Cluster) -> None:
    await begin(cluster, "limit_failures")
    await contenders.contend(cluster, "limit_failures", 30)
    contenders.limit_failures(cluster)
    await cluster.settle()
    cluster.server.requests.clear()
    await cluster.advance(0.5)
    assert not await cluster.step()
    assert cluster.server.requests == []


async def test_attempts_that_follow_one_another_are_no_contest(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=20))
    for _ in range(6):
        await cluster.run(*RUN, "run_out_of_memory", "enforce_deadlines", "reap")
    assert len(cluster.server.writes) > 6
    assert "Contested" not in cluster.events()


async def test_the_runs_of_a_sweep_are_no_contest(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("sweep", completions=20, parallelism=20))
    await cluster.settle()
    assert len(cluster.server.all("dljobs")) == 21
    assert "Contested" not in cluster.events()


async def test_a_run_that_somebody_deletes_each_second_holds_up_no_other(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("sweep", completions=2, parallelism=2))
    await cluster.settle()
    for _ in range(60):
        cluster.server.delete("dljobs", "sweep-0")
        await cluster.settle()
        cluster.time.seconds += 1
    assert contenders.fights(cluster.server) == {}
    assert cluster.events().count("Contested") == 1
    await cluster.run(*RUN, "succeed")
    assert cluster.dljob("sweep-1")["status"]["phase"] == "Succeeded"
    await cluster.advance(360)
    await cluster.run(*RUN, "succeed")
    assert cluster.dljob("sweep")["status"]["phase"] == "Succeeded"


async def test_a_dljob_that_is_replaced_again_and_again_is_begun_each_time(cluster: Cluster) -> None:
    for _ in range(6):
        cluster.apply(objects.dljob())
        await cluster.settle()
        assert cluster.attempts()
        cluster.server.delete("dljobs", "train")
        cluster.server.collect()
    assert "Contested" not in cluster.events()


async def test_a_suspended_job_does_not_say_that_no_pod_runs_while_one_does(cluster: Cluster) -> None:
    await begin(cluster, "scale")
    await contenders.contend(cluster, "scale", 20)
    contenders.scale(cluster)
    await cluster.run("create_pods", "place", "run_pods")
    told = cluster.condition("Suspended", name="serve")
    assert (told["status"], told["message"]) == ("True", "spec.suspend is true: 1 of its pods have not ended yet")
