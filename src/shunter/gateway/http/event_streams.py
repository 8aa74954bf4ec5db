"""Server-sent events about one job, until it has ended: what it emits, what it prints.

Whoever serves one says what is new at each look; how often to look, and what to say while nothing
happens, is decided here. Spec: docs/spec/http.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import StreamingResponse

from shunter.errors import StoreError
from shunter.model.job import Job
from shunter.model.job_stream import FIRST_PAUSE, next_pause

QUIET_SECONDS = 15.0
"""A stream in which nothing happens says so this often, so that nobody takes it for dead."""

_MOST_DIGITS = 16


class StreamLook(Struct, frozen=True):
    """What one look has found: events to send, whether to look again at once, and the end."""

    events: Sequence[bytes]
    is_more: bool = False
    is_over: bool = False


def look_at_stream(events: list[bytes], job: Job | None, *, is_more: bool = False) -> StreamLook:
    """Return what a look has found of a job that was read before; one that has ended says so."""
    is_over = not is_more and (job is None or job.status.is_final)
    if is_over:
        events.append(server_event("end", {"status": None if job is None else job.status}))
    return StreamLook(events, is_more=is_more, is_over=is_over)


def event_stream(look: Callable[[], Awaitable[StreamLook]]) -> StreamingResponse:
    """Answer with events as they come."""
    return StreamingResponse(
        _events(look), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _events(look: Callable[[], Awaitable[StreamLook]]) -> AsyncIterator[bytes]:
    pause, quiet = FIRST_PAUSE, 0.0
    while True:
        try:
            found = await look()
        except StoreError:
            await asyncio.sleep(1.0)
            continue
        for event in found.events:
            yield event
        if found.is_over:
            return
        if found.is_more:
            continue
        pause = next_pause(pause, has_news=bool(found.events))
        quiet = 0.0 if found.events else quiet + pause
        if quiet >= QUIET_SECONDS:
            quiet = 0.0
            yield b": nothing new\n\n"
        await asyncio.sleep(pause)


def last_event(request: Request) -> tuple[int, int] | None:
    """Return attempt and number of the last event that a reader has seen, if it says so."""
    attempt, _, number = request.headers.get("last-event-id", "").partition(".")
    if not (attempt.isdecimal() and number.isdecimal()):
        return None
    return None if len(attempt + number) > 2 * _MOST_DIGITS else (int(attempt), int(number))


def server_event(name: str, value: Any, *, event_id: str = "") -> bytes:
    """Write one event."""
    head = f"id: {event_id}\n" if event_id else ""
    data = msgspec.json.encode(value).decode()
    return f"{head}event: {name}\ndata: {data}\n\n".encode()
