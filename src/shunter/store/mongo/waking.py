"""Hearing of jobs that another client has put into the queue, without asking for them.

A change stream on the jobs, narrowed by the server to those that became ready by a write that
is not ours. Nobody reads its events: that there are any is the message. So it needs no resume
token either: after any break it begins anew, and says once that there may be something.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure, PyMongoError

from shunter.store.mongo.connection import Connection
from shunter.store.mongo.documents import Document
from shunter.store.mongo.faults import explained, is_passing

AWAIT_SECONDS = 5.0
"""How long the server holds a question for news before it says that there are none."""

LATE_SECONDS = 5.0
"""How much later its answer may come before the connection is taken for dead."""

PAUSE_SECONDS = 0.005
"""Between two messages: what arrives as a stream is told now and then."""

_BROKEN = frozenset({43, 136, 222, 237, 280, 286})
"""Server codes: this stream can't go on, another one may begin."""

_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


async def listen(connection: Connection, client_id: str, notify: Callable[[], None]) -> None:
    """Call `notify` whenever another client may have made jobs ready, until cancelled."""
    pause = 0.01
    while True:
        try:
            async with connection.client.start_session() as session:
                cursor = await _opened(connection, client_id, session)
                pause = 0.01
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
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.5)


def pipeline(client_id: str) -> list[Document]:
    """The stages that narrow all changes down to news for this client."""
    theirs = {"$exists": True, "$not": re.compile(f"^{re.escape(client_id)}-")}
    became_ready = [
        {f"{where}.ready": {"$exists": True}, f"{where}.stamp": theirs}
        for where in ("fullDocument", "updateDescription.updatedFields")
    ]
    return [{"$changeStream": {}}, {"$match": {"$or": became_ready}}, {"$project": {"_id": True}}]


async def _opened(connection: Connection, client_id: str, session: AsyncClientSession) -> int:
    command = {"aggregate": connection.jobs.name, "pipeline": pipeline(client_id), "cursor": {}}
    async with asyncio.timeout(LATE_SECONDS):
        answer = await connection.database.command(command, session=session)
    cursor: int = answer["cursor"]["id"]
    return cursor


async def _continued(
    connection: Connection, cursor: int, session: AsyncClientSession
) -> tuple[int, bool]:
    """Wait for news; return the cursor to go on with, and whether there were any."""
    command = {
        "getMore": Int64(cursor),
        "collection": connection.jobs.name,
        "maxTimeMS": int(AWAIT_SECONDS * 1000),
    }
    async with asyncio.timeout(AWAIT_SECONDS + LATE_SECONDS):
        answer = await connection.database.command(command, codec_options=_RAW, session=session)
    return answer["cursor"]["id"], bool(answer["cursor"]["nextBatch"])
