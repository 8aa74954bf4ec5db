"""Jobs that are asked for together are read together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from shunter.errors import StoreError
from shunter.gateway.http.job_reader import JobReader
from shunter.model.job import Job
from shunter.testing import MemoryStore


class WatchedStore(MemoryStore):
    """Writes down what is read, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[list[str]] = []
        self.fails = False

    async def get(self, ids: Sequence[str], *, payload: bool = False) -> list[Job | None]:
        self.reads.append(list(ids))
        if self.fails:
            raise StoreError("out of order")
        return await super().get(ids, payload=payload)


async def stocked(*ids: str) -> WatchedStore:
    store = WatchedStore()
    await store.open()
    await store.insert([Job(id=i, type="t", created=0.0, updated=0.0, payload=b"\1") for i in ids])
    return store


def test_what_is_asked_in_one_turn_is_one_read() -> None:
    async def scene() -> None:
        store = await stocked("a", "b")
        reader = JobReader(store)

        found = await asyncio.gather(*map(reader.job, ["a", "b", "missing", "a"]))

        assert [job and (job.id, job.payload) for job in found] == [
            ("a", b"\1"), ("b", b"\1"), None, ("a", b"\1"),
        ]  # fmt: skip
        assert store.reads == [["a", "b", "missing"]]
        assert await reader.job("b")
        assert store.reads[1:] == [["b"]]

    asyncio.run(scene())


def test_a_store_that_fails_fails_all_who_asked() -> None:
    async def scene() -> None:
        store = await stocked("a")
        store.fails = True
        reader = JobReader(store)

        outcomes = await asyncio.gather(*map(reader.job, "aab"), return_exceptions=True)

        assert all(isinstance(outcome, StoreError) for outcome in outcomes)
        store.fails = False
        assert await reader.job("a")

    asyncio.run(scene())


def test_who_asks_after_the_read_began_gets_a_read_of_its_own() -> None:
    async def scene() -> None:
        store = await stocked("a")
        reader = JobReader(store)
        first = asyncio.ensure_future(reader.job("a"))
        while not store.reads:
            await asyncio.sleep(0)

        assert await reader.job("a") == await first
        assert len(store.reads) == 2

    asyncio.run(scene())


@pytest.mark.parametrize("count", [64, 65, 200])
def test_a_read_is_of_a_bounded_size(count: int) -> None:
    async def scene() -> None:
        store = await stocked()

        await asyncio.gather(*map(JobReader(store).job, map(str, range(count))))

        assert max(map(len, store.reads)) <= 64
        assert sum(map(len, store.reads)) == count

    asyncio.run(scene())
