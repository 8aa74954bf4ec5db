"""Hearing of jobs that another client has put into the queue, without asking for them.

Who has made jobs ready leaves a note in a small capped collection, and everybody has a cursor at
its end. Nobody reads the notes: that there are any is the message. (Why not a change stream on the
jobs: docs/decisions.md.)
A note comes after the commit and is lost with a writer who dies in between; the sweeps of every
dispatcher look into the queue anyhow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pymongo
from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure, PyMongoError

from shunter.model.retry import Retry, backoff
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.faults import explained, is_passing

AWAIT_SECONDS = 5.0
"""How long the server holds a question for news before it says that there are none."""

LATE_SECONDS = 5.0
"""How much later its answer may come before the connection is taken for dead."""

NOTE_SECONDS = 2.0
"""How long a note is tried. Where the server is away for longer, everybody looks anew after it."""

PAUSE_SECONDS = 0.025
"""Between two notes, and between two readings: what comes as a stream is told now and then."""

_BROKEN = frozenset({43, 136, 175, 222, 237, 280, 286})
"""Server codes: this cursor can't go on, another one may begin."""

_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


class WakeNotifier:
    """Leaves notes for the other clients, one for all that came in a while."""

    def __init__(self, connection: MongoConnection, client_id: str) -> None:
        self._connection, self._client_id = connection, client_id
        self._is_owing = False
        self._writing: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Let the others know soon that jobs became ready."""
        self._is_owing = True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def finish(self) -> None:
        """Write what is owed still."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        while self._is_owing:
            self._is_owing = False
            with suppress(PyMongoError), pymongo.timeout(NOTE_SECONDS):
                await _leave_note(self._connection, self._client_id)
            await asyncio.sleep(PAUSE_SECONDS)


AFTER_FAILURE = Retry(delay=0.01, max_delay=0.5)


async def listen(connection: MongoConnection, client_id: str, notify: Callable[[], None]) -> None:
    """Call `notify` whenever another client may have made jobs ready, until cancelled."""
    failures = 0
    while True:
        try:
            with pymongo.timeout(NOTE_SECONDS):
                await _leave_note(connection, client_id)  # at none at all, nobody can wait
            async with connection.client.start_session() as session:
                cursor = await _opened(connection, client_id, session)
                failures = 0
                notify()
                while cursor:
                    cursor, is_news = await _continued(connection, cursor, session)
                    if is_news:
                        notify()
                        await asyncio.sleep(PAUSE_SECONDS)
        except TimeoutError:
            pass
        except PyMongoError as error:
            is_broken = isinstance(error, OperationFailure) and error.code in _BROKEN
            if not is_broken and not is_passing(error):
                raise explained(error, connection.name, 0.0) from error
        failures += 1
        await asyncio.sleep(backoff(AFTER_FAILURE, failures, jitter=0.0))


async def _leave_note(connection: MongoConnection, client_id: str) -> None:
    await connection.wakes.insert_one({"by": client_id})


async def _opened(connection: MongoConnection, client_id: str, session: AsyncClientSession) -> int:
    command = {
        "find": connection.wakes.name,
        "filter": {"by": {"$ne": client_id}},
        "tailable": True,
        "awaitData": True,
        "readConcern": {"level": "local"},
    }
    async with asyncio.timeout(LATE_SECONDS):
        answer = await connection.database.command(command, session=session)
    cursor: int = answer["cursor"]["id"]
    return cursor


async def _continued(
    connection: MongoConnection, cursor: int, session: AsyncClientSession
) -> tuple[int, bool]:
    """Wait for news; return the cursor to go on with, and whether there were any."""
    command = {
        "getMore": Int64(cursor),
        "collection": connection.wakes.name,
        "maxTimeMS": int(AWAIT_SECONDS * 1000),
    }
    async with asyncio.timeout(AWAIT_SECONDS + LATE_SECONDS):
        answer = await connection.database.command(command, codec_options=_RAW, session=session)
    return answer["cursor"]["id"], bool(answer["cursor"]["nextBatch"])
