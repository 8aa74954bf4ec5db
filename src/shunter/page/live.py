"""Keeps pages live by server-sent events: what changed, and nothing while nothing does.

Everybody who looks at the same is served from one look at the store. Looks are less than a second
apart, and further where each takes long, so that watching never takes more than a small share of
the store. A tab that is hidden closes its stream.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic

import msgspec

from shunter.errors import StoreError
from shunter.net.web.refusals import HttpRefusal
from shunter.page.changes import Snapshot, changes

LOOK_SECONDS = 0.7
SHARE = 20
"""Looks that took a second are followed by this many seconds of rest."""

TIMED = 3
"""The shortest of so many looks says how long one takes: the others had to wait for something."""

MOST_LOOK_SECONDS = 30.0
QUIET_SECONDS = 15.0
"""After this long without news a comment is sent: proxies and browsers learn that all is well."""

MOST_STREAMS = 200
"""How many pages one dispatcher keeps live."""

MOST_REMEMBERED = 32
"""How many changes are kept for others who need the same."""

MEDIA_TYPE = "text/event-stream"


class SharedChanges:
    """Finds out what changed once for all who saw the same and are to see the same."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], tuple[Snapshot, Snapshot, bytes]] = OrderedDict()

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


NOTHING_SHOWN = Snapshot()


async def stream(
    look: Callable[[], Awaitable[Snapshot]],
    *,
    shared: SharedChanges,
    shown: str,
    is_over: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """Yield events for a browser that shows a page with this digest, until it is over."""
    before: Snapshot | None = None
    told, trouble = monotonic(), ""
    took: deque[float] = deque(maxlen=TIMED)
    yield b"retry: 1000\n\n"
    while not is_over():
        began = monotonic()
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
            if news := shared.between(before or NOTHING_SHOWN, after):
                yield news
                told = monotonic()
            before = after
        if monotonic() - told >= QUIET_SECONDS:
            yield b": all is well\n\n"
            told = monotonic()
        took.append(monotonic() - began)
        await _rest(min(MOST_LOOK_SECONDS, max(LOOK_SECONDS, SHARE * min(took))), is_over)
    yield event("bye", {})


def event(kind: str, data: object) -> bytes:
    """Write one event; JSON has no line breaks of its own."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(data))


async def _rest(seconds: float, is_over: Callable[[], bool]) -> None:
    until = monotonic() + seconds
    while not is_over() and (left := until - monotonic()) > 0:
        await asyncio.sleep(min(left, 0.5))
