"""Outcomes that a client waits for: pushed by a dispatcher, and asked for where they are not.

The push is a hint: it comes only from the dispatcher that finished the job, and may be lost.
So whoever waits asks now and then, a few hundred at a time, those awaited right now first.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from shunter.client.handle import AsyncJob
from shunter.net.environment import REAL, Environment
from shunter.wire.messages import Fetched, Outcome

ASK_SECONDS = 1.0
FIRST_ASK_SECONDS = 0.25
ASKED_AT_ONCE = 500


class PendingOutcomes:
    """The handles of one client, and all its views."""

    def __init__(
        self,
        fetch: Callable[[tuple[str, ...]], Awaitable[Fetched]],
        environment: Environment = REAL,
    ) -> None:
        self._environment = environment
        self._fetch = fetch
        self._handles: weakref.WeakValueDictionary[str, AsyncJob[Any]] = (
            weakref.WeakValueDictionary()
        )
        self._wanted: dict[str, AsyncJob[Any]] = {}
        self._settled_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def handle(self, job_id: str) -> AsyncJob[Any] | None:
        return self._handles.get(job_id)

    def add(self, job: AsyncJob[Any]) -> AsyncJob[Any]:
        self._handles[job.id] = job
        return job

    def want(self, job: AsyncJob[Any]) -> None:
        """See to it that the job's outcome arrives."""
        self._wanted[job.id] = job
        if self._timer is None:
            is_quiet = self._environment.monotonic() - self._settled_at > ASK_SECONDS
            self._ask_in(FIRST_ASK_SECONDS if is_quiet else ASK_SECONDS)

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of how jobs ended."""
        self._settled_at = self._environment.monotonic()
        for outcome in outcomes:
            self._wanted.pop(outcome.job_id, None)
            if handle := self._handles.get(outcome.job_id):
                handle.settle(outcome)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def _ask_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ask)

    def _ask(self) -> None:
        self._timer = None
        if not self._wanted:
            return
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask_about_some())
            self._asking.add_done_callback(self._asked)
        self._ask_in(ASK_SECONDS)

    def _asked(self, asking: asyncio.Task[None]) -> None:
        """Let a question that failed be: the next one comes in a second."""
        self._asking = None
        if not asking.cancelled():
            asking.exception()

    async def _ask_about_some(self) -> None:
        """Ask for outcomes; those asked about go to the end of the line.

        Others are asked about as well, and some of those are just being submitted: an answer that
        does not know them says nothing.
        """
        some = list(itertools.islice(self._wanted, ASKED_AT_ONCE))
        awaited = set(some)
        for job_id in some:
            self._wanted[job_id] = self._wanted.pop(job_id)
        others = (
            job.id
            for job in list(self._handles.values())
            if job.outcome is None and job.id not in self._wanted
        )
        some += itertools.islice(others, ASKED_AT_ONCE - len(some))
        answer = await self._fetch(tuple(some))
        self.settle(answer.outcomes)
        for job_id in awaited.intersection(answer.unknown):
            if job := self._wanted.pop(job_id, None):
                job.mark_lost()
