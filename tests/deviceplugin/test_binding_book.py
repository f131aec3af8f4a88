"""A change of the ledger counts once it is on disk, and is ended whoever stops waiting for it."""

import asyncio

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.binding.book import Book
from cotenant_deviceplugin.binding.ledger import Ledger, Nonce
from node_kit.bookings import NOW, tokens


class SlowDisk:
    """A disk that waits for the test."""

    def __init__(self) -> None:
        self.stored = Ledger()
        self.go_on = asyncio.Event()
        self.fails = False

    async def read(self) -> Ledger:
        """At once."""
        return self.stored

    async def write(self, ledger: Ledger) -> None:
        """When the test says so."""
        await self.go_on.wait()
        if self.fails:
            raise errors.TemporaryError("disk full", delay_seconds=1)
        self.stored = ledger


def allocate(before: Ledger) -> Ledger:
    return before.allocate(Nonce("n1"), tokens(1), now=NOW)


async def test_a_change_counts_when_it_is_on_disk() -> None:
    disk, told = SlowDisk(), list[int]()
    book = Book(disk, lambda: told.append(1))
    await book.open()
    change = asyncio.create_task(book.commit(allocate))
    await asyncio.sleep(0)
    assert book.ledger == Ledger()
    disk.go_on.set()
    await change
    assert book.ledger == disk.stored != Ledger()
    assert len(told) == 2


async def test_a_change_goes_on_when_nobody_waits_for_it_any_more() -> None:
    disk = SlowDisk()
    book = Book(disk, lambda: None)
    change = asyncio.create_task(book.commit(allocate))
    await asyncio.sleep(0)
    change.cancel()
    await asyncio.gather(change, return_exceptions=True)
    disk.go_on.set()
    await book.commit(lambda before: before)
    assert book.ledger == disk.stored != Ledger()


async def test_a_change_that_did_not_reach_the_disk_does_not_count() -> None:
    disk = SlowDisk()
    disk.fails = True
    disk.go_on.set()
    book = Book(disk, lambda: None)
    with pytest.raises(errors.TemporaryError, match="disk full"):
        await book.commit(allocate)
    assert book.ledger == Ledger()


async def test_a_change_that_does_not_fit_any_more_is_tried_again_by_who_decided_it() -> None:
    disk = SlowDisk()
    disk.go_on.set()
    book = Book(disk, lambda: None)
    await book.commit(allocate)
    with pytest.raises(errors.TemporaryError, match="does not fit any more: one nonce names two allocations"):
        await book.commit(allocate)


async def test_changes_are_made_one_after_another() -> None:
    disk = SlowDisk()
    book = Book(disk, lambda: None)
    both = asyncio.gather(
        book.commit(allocate), book.commit(lambda before: before.allocate(Nonce("n2"), tokens(1), now=NOW))
    )
    disk.go_on.set()
    await both
    assert [each.nonce for each in disk.stored.allocations] == ["n1", "n2"]


async def test_an_agent_that_ends_takes_its_changes_with_it() -> None:
    book = Book(SlowDisk(), lambda: None)
    change = asyncio.create_task(book.commit(allocate))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await change
