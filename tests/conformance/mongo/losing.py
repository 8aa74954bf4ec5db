"""A database whose answers get lost: before or after it has done what it was asked."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pymongo.errors import AutoReconnect, BulkWriteError

from shunter.store.mongo import MongoStore

WRITES = (
    "bulk_write",
    "insert_many",
    "update_many",
    "update_one",
    "delete_many",
    "replace_one",
)


class Losses:
    """Loses the answer to one write, counted from 0; `is_done` says whether it was done first."""

    def __init__(self, store: MongoStore, *, at: int, is_done: bool, times: int = 1) -> None:
        self.writes = 0
        self._lost = range(at, at + times)
        self._is_done = is_done
        connection = store._connection
        assert connection is not None
        for name in ("jobs", "workers", "edges", "blobs", "journal", "tellings"):
            setattr(connection, name, _Lossy(getattr(connection, name), self))

    @property
    def have_happened(self) -> bool:
        return self.writes > self._lost[0]

    async def write(self, method: Any, *arguments: Any, **options: Any) -> Any:
        number, self.writes = self.writes, self.writes + 1
        if number not in self._lost:
            return await method(*arguments, **options)
        if self._is_done:
            with suppress(BulkWriteError):  # refusals are an answer, too
                await method(*arguments, **options)
        raise AutoReconnect("the answer was lost")


class _Lossy:
    def __init__(self, collection: Any, losses: Losses) -> None:
        self._collection, self._losses = collection, losses

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._collection, name)
        if name not in WRITES:
            return method

        async def written(*arguments: Any, **options: Any) -> Any:
            return await self._losses.write(method, *arguments, **options)

        return written
