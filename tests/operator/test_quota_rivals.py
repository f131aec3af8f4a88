"""Gangs that want the same quota: oldest first, none blocks another for ever."""

from operator_kit import quotas
from operator_kit.cluster import Cluster
from operator_kit.gangs import alive, gang, limit, occupy, suspended


async def test_two_gangs_that_compete_run_one_after_the_other_oldest_first(cluster: Cluster) -> None:
    limit(cluster, gpu_share="600")
    cluster.apply(gang("first"))
    cluster.apply(gang("second"))
    await cluster.settle()
    assert (suspended(cluster, "first-1"), suspended(cluster, "second-1")) == (False, True)
    assert "600 of 600 are left" in cluster.condition("Queued", name="second")["message"]
    assert "400 of these for gangs that go first" in cluster.condition("Queued", name="second")["message"]
    await cluster.run("create_pods", "place", "run_pods")
    assert (alive(cluster, "first"), alive(cluster, "second")) == (4, 0)
    await cluster.run("succeed", "count_quota", "create_pods", "place", "run_pods", "succeed")
    assert [cluster.dljob(name)["status"]["phase"] for name in ("first", "second")] == ["Succeeded", "Succeeded"]


async def test_gangs_that_hold_half_of_a_quota_each_do_not_block_each_other(cluster: Cluster) -> None:
    """As after an outage, when both were resumed: both have some of their pods and neither has all."""
    limit(cluster, gpu_share="600")
    cluster.apply(gang("first"))
    cluster.time.seconds += 1
    cluster.apply(gang("second"))
    await cluster.settle()
    cluster.server.change("jobs", "second-1", lambda job: job["spec"].update(suspend=False))
    quotas.resize(cluster.server, gpu_share="300")
    await cluster.run("create_pods")
    quotas.resize(cluster.server, gpu_share="600")
    await cluster.run("create_pods")
    assert 0 < alive(cluster, "second") < 4
    for _ in range(12):
        await cluster.advance(10)
        await cluster.run("stop_suspended", "count_quota", "create_pods", "place", "run_pods")
        whole = [name for name in ("first", "second") if alive(cluster, name) == 4]
        if whole:
            await cluster.run("succeed", "count_quota")
    assert [cluster.dljob(name)["status"]["phase"] for name in ("first", "second")] == ["Succeeded", "Succeeded"]
    ended = {name: cluster.dljob(name)["status"]["completionTime"] for name in ("first", "second")}
    assert ended["first"] != ended["second"]


async def test_a_smaller_gang_goes_first_until_the_older_has_waited_long_enough(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    await occupy(cluster)
    cluster.apply(gang("large"))
    cluster.time.seconds += 1
    cluster.apply(gang("small", replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    assert (alive(cluster, "large"), alive(cluster, "small")) == (0, 2)
    await cluster.advance(3600)
    cluster.apply(gang("late", replicas=2))
    await cluster.advance(60)
    await cluster.run("create_pods")
    assert suspended(cluster, "late-1")
    await cluster.run("place", "run_pods", "succeed", "count_quota", "create_pods")
    assert (alive(cluster, "large"), alive(cluster, "late")) == (4, 0)


async def test_a_gang_that_never_fits_keeps_no_room_from_others(cluster: Cluster) -> None:
    limit(cluster, gpu_share="300")
    cluster.apply(gang("never"))
    await cluster.advance(7200)
    cluster.apply(gang("small", replicas=2))
    await cluster.settle()
    assert (suspended(cluster, "never-1"), suspended(cluster, "small-1")) == (True, False)
