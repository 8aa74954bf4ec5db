"""Brings what runs have printed so far to a dispatcher, one log after the other.

It is for people who look, and never holds up a report: of each run only the newest is kept, what
does not arrive is not sent again, and with too many the oldest are dropped.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from shunter.model.journal import LiveLog
from shunter.net.http_calls import Caller, CallFailed
from shunter.worker.http.holdings import RunOffer
from shunter.worker.http.offers import log_document
from shunter.worker.http.schedule import DispatcherRing

ANSWER_SECONDS = 5.0
PAUSE_SECONDS = 1.0
"""How long to wait after a dispatcher has not answered."""

MOST_WAITING = 64


class LiveLogs:
    """Logs of runs that go on."""

    def __init__(self, caller: Caller, circle: DispatcherRing) -> None:
        self._caller, self._circle = caller, circle
        self._waiting: dict[RunOffer, LiveLog] = {}
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offer: RunOffer, log: LiveLog) -> None:
        """Tell this of a run, in place of what waits to be told of it."""
        self._waiting[offer] = log
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._news.set()

    def drop(self, offer: RunOffer) -> None:
        """The run has ended: its report says all."""
        self._waiting.pop(offer, None)

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()

    async def run(self) -> None:
        """Tell for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                offer = next(iter(self._waiting))
                await self._tell(offer, self._waiting.pop(offer))

    async def _tell(self, offer: RunOffer, log: LiveLog) -> None:
        url = f"{self._circle.current}/dispatcher/jobs/{quote(offer.job_id, safe='')}/log"
        document = log_document(offer, log)
        try:
            await self._caller.call("POST", url, seconds=ANSWER_SECONDS, json=document)
        except CallFailed:
            await asyncio.sleep(PAUSE_SECONDS)
