"""Keeps pages live by server-sent events: what changed, and nothing while nothing does.

Everybody who looks at the same is served from one look at the store, at the same moment. Looks are
less than a second apart while the dispatcher has little to do, and twice as far while it has much:
an event is seen within two seconds. They are further apart only where each takes long, so that
watching never takes more than a small share of the store. A tab that is hidden closes its stream.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic, process_time

import msgspec

from shunter.errors import StoreError
from shunter.net.web.refusals import HttpRefusal
from shunter.page.changes import Snapshot, changes

LOOK_SECONDS = 0.7
BUSY_LOOK_SECONDS = 1.4
"""How far looks are apart while the dispatcher is idle, and while it uses a whole processor."""

SHARE = 20
"""Looks that took a second are followed by this many seconds of rest."""

TIMED = 3
"""The shortest of so many looks says how long one takes: the others had to wait for something."""

MOST_LOOK_SECONDS = 30.0
QUIET_SECONDS = 15.0
"""After this long without news a comment is sent: proxies and browsers learn that all is well."""

MOST_STREAMS = 200
"""How many pages one dispatcher keeps live."""

MOST_REMEMBERED = 4
"""How many changes are kept for others who need the same."""

MEDIA_TYPE = "text/event-stream"


def pause(took: float, busy: float) -> float:
    """Return when to look again, by what a look takes and which part of a processor is in use."""
    paced = LOOK_SECONDS + (BUSY_LOOK_SECONDS - LOOK_SECONDS) * min(1.0, busy)
    return min(MOST_LOOK_SECONDS, max(paced, SHARE * took))


class Feed:
    """What all who watch one view have in common: the next look, and what the last one changed."""

    def __init__(self, read: Callable[[], Awaitable[Snapshot]]) -> None:
        self.streams = 0
        self._read = read
        self._known: OrderedDict[tuple[int, int], tuple[Snapshot, Snapshot, bytes]] = OrderedDict()
        self._took: deque[float] = deque(maxlen=TIMED)
        self._due, self._used = 0.0, (monotonic(), process_time())

    async def look(self) -> Snapshot:
        """Look at the view, and say when that is to be done again."""
        (began, used), self._used = self._used, (monotonic(), process_time())
        at, cpu = self._used
        try:
            return await self._read()
        finally:
            self._took.append(monotonic() - at)
            busy = (cpu - used) / (at - began) if at > began else 0.0
            self._due = monotonic() + pause(min(self._took), busy)

    def between(self, before: Snapshot, after: Snapshot) -> bytes:
        """Return the event that leads from one snapshot to another; nothing if they look alike."""
        if before is after:
            return b""
        pair = (id(before), id(after))  # both are kept here, so nobody else gets their numbers
        if pair not in self._known:
            change = changes(before, after)
            self._known[pair] = (before, after, event("change", change) if change else b"")
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return self._known[pair][2]

    async def rest(self, is_over: Callable[[], bool]) -> None:
        """Wait until the next look is due; for a while, too, if none came about."""
        now = monotonic()
        until = self._due if self._due > now else now + LOOK_SECONDS
        while not is_over() and (left := until - monotonic()) > 0:
            await asyncio.sleep(min(left, 0.5))


NOTHING_SHOWN = Snapshot()


async def stream(
    look: Callable[[], Awaitable[Snapshot]],
    *,
    feed: Feed,
    shown: str,
    is_over: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """Yield events for a browser that shows a page with this digest, until it is over."""
    before: Snapshot | None = None
    told, trouble = monotonic(), ""
    yield b"retry: 1000\n\n"
    while not is_over():
        try:
            after = await look()
        except (StoreError, HttpRefusal) as error:
            if str(error) != trouble:
                trouble = str(error)
                yield event("trouble", {"message": trouble})
            after = None
        if after is not None:
            if trouble:
                trouble, before = "", NOTHING_SHOWN
            if before is None and after.digest == shown:
                before = after
            if news := feed.between(before or NOTHING_SHOWN, after):
                yield news
                told = monotonic()
            before = after
        if monotonic() - told >= QUIET_SECONDS:
            yield b": all is well\n\n"
            told = monotonic()
        await feed.rest(is_over)
    yield event("bye", {})


def event(kind: str, data: object) -> bytes:
    """Write one event; JSON has no line breaks of its own."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(data))
