"""What follows from a turn is told after its commit, and while the next one is being written."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from shunter.model.report import Report
from shunter.model.submission import Receipt, Submission


class SlowStore:
    """Has commits wait until they are let through, one by one."""

    def __init__(self, scene: Any, monkeypatch: Any) -> None:
        self.waiting = asyncio.Semaphore(0)
        self.begun = 0
        self._commit = scene.store.commit
        monkeypatch.setattr(scene.store, "commit", self.commit)

    async def commit(self, batch: Any) -> Any:
        self.begun += 1
        await self.waiting.acquire()
        return await self._commit(batch)

    async def has_begun(self, count: int) -> None:
        while self.begun < count:
            await asyncio.sleep(0)

    def let_through(self) -> None:
        self.waiting.release()


def one_job(job_id: str) -> list[Submission]:
    return [Submission(job_id, type="t", payload=b"\x01")]


async def ended(run: asyncio.Task[None]) -> None:
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run


def test_a_receipt_comes_after_its_commit_and_during_the_next(scene: Any, monkeypatch: Any) -> None:
    first: list[Receipt] = []
    second: list[Receipt] = []

    async def story() -> None:
        store = SlowStore(scene, monkeypatch)
        run = asyncio.create_task(scene.dispatcher.run())
        scene.dispatcher.submit(one_job("j-1"), first.extend)
        await store.has_begun(1)
        scene.dispatcher.submit(one_job("j-2"), second.extend)
        assert not first

        store.let_through()
        await store.has_begun(2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        assert [receipt.job_id for receipt in first] == ["j-1"]
        assert not second
        await ended(run)

    asyncio.run(story())


def test_where_nothing_follows_it_is_told_at_once(scene: Any, monkeypatch: Any) -> None:
    receipts: list[Receipt] = []

    async def story() -> None:
        store = SlowStore(scene, monkeypatch)
        run = asyncio.create_task(scene.dispatcher.run())
        scene.dispatcher.submit(one_job("j-1"), receipts.extend)
        await store.has_begun(1)
        store.let_through()
        while not receipts:
            await asyncio.sleep(0)
        assert store.begun == 1
        await ended(run)

    asyncio.run(asyncio.wait_for(story(), 10))


def test_a_store_that_does_not_answer_holds_nothing_back(scene: Any, monkeypatch: Any) -> None:
    """The next turn reads about a job that the dispatcher does not know."""
    receipts: list[Receipt] = []

    async def story() -> None:
        reads = asyncio.Event()

        async def get(_: Any) -> Any:
            reads.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(scene.store, "get", get)
        store = SlowStore(scene, monkeypatch)
        run = asyncio.create_task(scene.dispatcher.run())
        scene.dispatcher.submit(one_job("j-1"), receipts.extend)
        await store.has_begun(1)
        scene.dispatcher.report("w-1", [Report("j-9", 1, result=b"\x01")], batch=1)
        store.let_through()
        await reads.wait()
        assert [receipt.job_id for receipt in receipts] == ["j-1"]
        await ended(run)

    asyncio.run(asyncio.wait_for(story(), 10))


def test_a_dispatcher_that_is_stopped_tells_what_is_committed(scene: Any, monkeypatch: Any) -> None:
    """It is stopped just when the store has got the next turn."""
    receipts: list[Receipt] = []

    async def story() -> None:
        store = SlowStore(scene, monkeypatch)
        slow = scene.store.commit

        async def commit(batch: Any) -> Any:
            if store.begun == 1:
                run.cancel()
            return await slow(batch)

        monkeypatch.setattr(scene.store, "commit", commit)
        run = asyncio.create_task(scene.dispatcher.run())
        scene.dispatcher.submit(one_job("j-1"), receipts.extend)
        await store.has_begun(1)
        scene.dispatcher.submit(one_job("j-2"), lambda _: None)
        store.let_through()
        with suppress(asyncio.CancelledError):
            await run

    asyncio.run(asyncio.wait_for(story(), 10))

    assert [receipt.job_id for receipt in receipts] == ["j-1"]


@pytest.mark.parametrize("others", [frozenset(), frozenset({"d-2"})])
def test_what_is_woken_may_be_held_only_while_no_other_dispatcher_is_there(
    scene: Any, others: frozenset[str]
) -> None:
    batches = []
    commit = scene.store.commit

    async def noted(batch: Any) -> Any:
        batches.append(batch)
        return await commit(batch)

    scene.dispatcher.state.others = others
    scene.store.commit = noted
    scene.worker("w-1")
    scene.submit("a")

    assert {batch.may_hold for batch in batches} == {not others}
