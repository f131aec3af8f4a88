"""Of several operators at most one acts, whatever becomes of requests, clocks and processes."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from cotenant_api import errors, names
from cotenant_operator.kube import api
from cotenant_operator.loop import controller, leading
from cotenant_operator.loop.clock import Clock
from cotenant_operator.state.views import Key
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault, Server, Time

NAMESPACE = names.RELEASE_NAMESPACE


@pytest.fixture
def server() -> Server:
    found = Server(Time())
    released(found)
    return found


def released(server: Server) -> None:
    """The Lease, as the release brings it."""
    server.put("leases", {"metadata": {"name": leading.NAME, "namespace": NAMESPACE}})


def leader(server: Server, identity: str, *, rate: float = 1.0, send: api.Send | None = None) -> leading.Leader:
    """An operator's; its clock runs at this rate."""
    return leading.Leader(
        api.API(send or server),
        namespace=NAMESPACE,
        now=server.time.now,
        monotonic=lambda: rate * server.time.seconds,
        identity=identity,
    )


def spec(server: Server) -> dict[str, Any]:
    found = server.find("leases", leading.NAME, namespace=NAMESPACE)
    assert found is not None
    return dict(found["spec"])


def edited(server: Server, **fields: Any) -> None:
    """Somebody edits the Lease."""
    server.change("leases", leading.NAME, lambda lease: lease["spec"].update(fields), namespace=NAMESPACE)


async def test_one_that_is_alone_acts_at_once(server: Server) -> None:
    one = leader(server, "one")
    await one.lead()
    assert one.leads()
    assert spec(server)["holderIdentity"] == "one"


async def test_another_waits_as_long_as_the_lease_is_renewed(server: Server) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    for _ in range(100):
        assert await one.try_once()
        assert not await two.try_once()
        server.time.seconds += leading.RETRY_SECONDS


async def test_another_acts_when_the_holder_is_gone_for_so_long_and_not_before(server: Server) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    await one.try_once()
    taken = []
    for second in range(30):
        await two.try_once()
        assert not (one.leads() and two.leads())
        taken += [second] if two.leads() else []
        server.time.seconds += 1
    assert taken[0] == leading.DURATION_SECONDS + 1
    assert spec(server)["leaseTransitions"] == 2


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
async def test_no_time_that_another_wrote_is_read(server: Server, renewed: str) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    await one.try_once()
    edited(server, renewTime=renewed)
    assert not await two.try_once()
    server.time.seconds += leading.DURATION_SECONDS + 1
    assert await two.try_once()


async def test_one_that_is_started_again_by_its_name_does_not_wait(server: Server) -> None:
    await leader(server, "one").try_once()
    assert await leader(server, "one").try_once()


async def test_a_lease_that_is_given_back_is_taken_at_once(server: Server) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    await one.try_once()
    await two.try_once()
    await one.release()
    assert not one.leads()
    assert await two.try_once()


async def test_the_lease_is_given_back_whatever_became_of_the_renewal_before(server: Server) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    await one.try_once()
    await two.try_once()
    faults = iter([Fault(effect=True, status=0)])
    server.fault = lambda _: next(faults, None)
    await one.try_once()
    await one.release()
    assert await two.try_once()


async def test_one_that_is_stopped_as_it_takes_the_lease_gives_it_back(server: Server) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    server.fault = lambda r: Fault(effect=True, status=0) if r.method == "PATCH" else None
    assert not await one.try_once()
    assert spec(server)["holderIdentity"] == "one"
    server.fault = lambda _: None
    await one.release()
    assert await two.try_once()


async def test_a_lease_that_was_made_anew_is_not_taken_from_a_holder_that_does_not_know(server: Server) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    await one.try_once()
    await two.try_once()
    server.delete("leases", leading.NAME, namespace=NAMESPACE)
    released(server)
    assert not await two.try_once()
    assert await one.try_once()
    assert not await two.try_once()


async def test_slow_renewals_are_enough_while_each_comes_in_time(server: Server) -> None:
    asked: list[str] = []

    async def send(request: api.Request) -> tuple[int, Any]:
        server.time.seconds += 7.0 if asked else 0.0
        asked.append(request.method)
        return await server(request)

    one = leader(server, "one", send=send)
    await one.lead()

    async def pause(seconds: float) -> None:
        server.time.seconds += seconds
        if len(asked) > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await one.keep(pause=pause)


async def test_one_that_does_not_hold_the_lease_gives_nothing_back(server: Server) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    await one.try_once()
    await two.try_once()
    await two.release()
    assert spec(server)["holderIdentity"] == "one"


async def test_a_holder_whose_lease_somebody_gave_away_stops_when_it_sees_that(server: Server) -> None:
    one = leader(server, "one")
    await one.try_once()
    edited(server, holderIdentity="two")
    await one.try_once()
    await one.try_once()
    assert not one.leads()


async def test_by_a_lease_that_somebody_deleted_nobody_acts_until_the_release_has_it_again(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = leader(server, "one"), leader(server, "two")
    await one.try_once()
    await two.try_once()
    server.delete("leases", leading.NAME, namespace=NAMESPACE)
    assert not await one.try_once()
    assert not one.leads()
    server.time.seconds += 2 * leading.DURATION_SECONDS
    assert not await two.try_once()
    assert "`helm upgrade` makes it again" in caplog.text
    released(server)
    assert not await two.try_once()
    server.time.seconds += leading.DURATION_SECONDS + 1
    assert await two.try_once()


async def test_a_renewal_whose_reply_is_lost_is_done_again(server: Server) -> None:
    one = leader(server, "one")
    await one.try_once()
    faults = iter([Fault(effect=True, status=0)])
    server.fault = lambda _: next(faults, None)
    assert await one.try_once()
    assert await one.try_once()


async def test_a_refusal_is_told_once(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server.fault = lambda _: Fault(effect=False, status=403, message="leases is forbidden")
    one = leader(server, "one")
    for _ in range(5):
        assert not await one.try_once()
    assert [record.getMessage() for record in caplog.records] == ["the Lease cotenant-operator: leases is forbidden"]


async def test_renewing_ends_when_the_lease_could_not_be_renewed(server: Server) -> None:
    one = leader(server, "one")
    await one.lead()
    server.fault = lambda _: Fault(effect=False, status=500)

    async def pause(seconds: float) -> None:
        server.time.seconds += seconds

    with pytest.raises(leading.LostError, match="could not be renewed"):
        await one.keep(pause=pause)
    assert server.time.seconds == leading.RENEW_SECONDS


async def test_renewing_does_not_wait_for_a_reply_that_does_not_come(server: Server) -> None:
    async def send(request: api.Request) -> tuple[int, Any]:
        if request.method == "PATCH" and one.leads():
            server.time.seconds += leading.RENEW_SECONDS
            await asyncio.Event().wait()
        return await server(request)

    one = leader(server, "one", send=send)
    await one.lead()

    async def pause(_: float) -> None:
        server.time.seconds = leading.RENEW_SECONDS - 0.01

    with pytest.raises(leading.LostError):
        await asyncio.wait_for(one.keep(pause=pause), timeout=30)


@pytest.mark.parametrize("seed", range(40))
async def test_never_two_act_whatever_becomes_of_requests_clocks_and_processes(server: Server, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a history that is the same each time
    rates = [chance.uniform(0.9, 1.1) for _ in range(3)]
    leaders = [leader(server, f"o{place}", rate=rate) for place, rate in enumerate(rates)]
    trouble = chance.choice([0.1, 0.3, 0.6])

    def fault(_: api.Request) -> Fault | None:
        if chance.random() >= trouble:
            return None
        kinds = [Fault(effect=True, status=0), Fault(effect=False, status=0), Fault(effect=False, status=0, late=True)]
        return chance.choice(kinds)

    server.fault = fault
    terms = set()
    for step in range(600):
        match chance.random():
            case drawn if drawn < 0.02:
                await chance.choice(leaders).release()
            case drawn if drawn < 0.04:
                place = chance.randrange(3)
                leaders[place] = leader(server, f"o{place}-{step}", rate=rates[place])
            case drawn if drawn < 0.1:
                server.arrive(chance.randrange(9))
            case _:
                await chance.choice(leaders).try_once()
        server.time.seconds += chance.choice([0.0, 0.1, 0.5, 2.0])
        acting = [one.identity for one in leaders if one.leads()]
        assert len(acting) <= 1
        terms.update(acting)
    assert len(terms) > 1


async def test_nothing_is_written_while_another_may_act(server: Server) -> None:
    one = leader(server, "one")
    client = api.API(leading.guarded(server, one))
    event = {"metadata": {"namespace": "team", "name": "e"}}
    with pytest.raises(errors.TemporaryError, match="another operator may lead"):
        await client.emit(event)
    await client.limit_ranges("team")
    await one.lead()
    await client.emit(event)
    server.time.seconds += leading.RENEW_SECONDS
    with pytest.raises(errors.TemporaryError, match="another operator may lead"):
        await client.emit(event)
    assert len(server.all("events")) == 1


def waiting(cluster: Cluster, leads: Callable[[], bool]) -> controller.Controller:
    """A loop beside that of the cluster, on the same store."""
    clock = Clock(now=cluster.time.now, monotonic=cluster.time.monotonic)
    options = controller.Options(leads=leads)
    return controller.Controller(
        store=cluster.store, client=cluster.client, parser=cluster.parser, clock=clock, options=options
    )


async def test_one_that_waits_counts_nothing_and_begins_with_all_there_is(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.deliver()
    acts = False
    work = waiting(cluster, lambda: acts)
    work.enqueue(frozenset([Key("team", "train")]))
    assert work.queued == 0
    said = work.metrics.text().decode()
    assert "cotenant_operator_leading 0.0" in said
    assert 'cotenant_operator_dljobs{phase="Pending"} 0.0' in said
    assert "cotenant_operator_unobserved_seconds 0.0" in said
    acts = True
    work.stop()
    await work.run()
    assert work.queued == 1
    assert "cotenant_operator_leading 1.0" in work.metrics.text().decode()
    acts = False
    work.enqueue(frozenset([Key("team", "other")]))
    assert work.queued == 2, "it ends, or goes on"
