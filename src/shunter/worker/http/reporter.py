"""Brings reports to a dispatcher, several at a time, until one has decided on each.

What an answer means is decided in `verdicts.py`, when to try again in `schedule.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote

import structlog

from shunter.model.report import Held, Report
from shunter.net.environment import Environment
from shunter.net.http_calls import Answer, Caller, CallFailed
from shunter.net.web.bodies import aside
from shunter.worker.http import schedule
from shunter.worker.http.offers import result_document
from shunter.worker.http.pending_reports import PendingReport, PendingReports
from shunter.worker.http.schedule import DispatcherRing
from shunter.worker.http.verdicts import (
    SHOWN_CHARACTERS,
    HttpError,
    Verdict,
    fault_in,
    lessened,
    verdict_on,
)

AT_ONCE = 8
ANSWER_SECONDS = 10.0
"""A dispatcher may take longer to commit; to report again elsewhere does no harm."""

BYTES_PER_SECOND = 1 << 20
UNKNOWN_TIMES = 10
"""So often a report waits for a dispatcher to know us; then it counts for nothing anyway."""


class Reporter:
    """`on_settled` hears of each run that needs no more reporting."""

    def __init__(
        self,
        caller: Caller,
        circle: DispatcherRing,
        environment: Environment,
        *,
        on_settled: Callable[[Held], None],
        on_unknown: Callable[[], None],
    ) -> None:
        self._caller, self._circle = caller, circle
        self._now, self._spread = environment.monotonic, environment.random
        self._on_settled, self._on_unknown = on_settled, on_unknown
        self._postbag = PendingReports()
        self._news = asyncio.Event()
        self._is_failing = False
        self._log = structlog.get_logger("shunter.worker")

    def __len__(self) -> int:
        return len(self._postbag)

    def add(self, report: Report, worker_id: str, secret: str) -> None:
        """See to it that a dispatcher hears of this."""
        self._postbag.add(report, worker_id, secret, now=self._now())
        self._news.set()

    def clear(self) -> None:
        """Forget everything that has not been taken."""
        self._postbag.clear()

    async def run(self) -> None:
        """Report for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._carry())

    async def _carry(self) -> None:
        while True:
            if letter := self._postbag.take(now=self._now()):
                await self._deliver(letter)
                continue
            self._news.clear()
            due = self._postbag.next_due()
            try:
                async with asyncio.timeout(None if due is None else due - self._now()):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _deliver(self, letter: PendingReport) -> None:
        place, report = self._circle.current, letter.report
        if not letter.written:
            size = len(report.result or b"")
            letter.written = await aside(
                size, lambda: result_document(report, letter.worker_id, letter.secret)
            )
        url = f"{place}/dispatcher/jobs/{quote(report.job_id, safe='')}/result"
        seconds = ANSWER_SECONDS + len(letter.written) / BYTES_PER_SECOND
        try:
            answer = await self._caller.call("POST", url, seconds=seconds, json=letter.written)
        except CallFailed as error:
            self._postpone(letter, place, str(error))
        else:
            self._settle(letter, place, answer)

    def _settle(self, letter: PendingReport, place: str, answer: Answer) -> None:
        fault = HttpError() if answer.is_success else fault_in(answer.body)
        found = f"{answer.status} {fault.message[:SHOWN_CHARACTERS]}".rstrip()
        match verdict_on(letter.report, answer.status, fault):
            case Verdict.TAKEN:
                self._remove(letter)
            case Verdict.DROPPED:
                self._drop(letter, place, found)
            case Verdict.LESSENED:
                if not letter.report.log and fault.field != "retry":
                    failed = "a result was not taken, its job is reported as failed"
                    self._note(failed, letter, found)
                letter.report, letter.written = lessened(letter.report, fault), b""
                self._postbag.put_back(letter, due=self._now())
            case Verdict.UNKNOWN if letter.failures >= UNKNOWN_TIMES:
                self._drop(letter, place, found)
            case Verdict.UNKNOWN:
                self._on_unknown()
                self._postpone(letter, place, found)
            case Verdict.AGAIN:
                self._postpone(letter, place, found)

    def _drop(self, letter: PendingReport, place: str, found: str) -> None:
        self._note("a report was refused and is dropped", letter, found, dispatcher=place)
        self._remove(letter)

    def _remove(self, letter: PendingReport) -> None:
        if self._is_failing:
            self._is_failing = False
            self._log.info("reports arrive again", action="report_again")
        if self._postbag.remove(letter):
            self._on_settled(letter.run)

    def _postpone(self, letter: PendingReport, place: str, found: str) -> None:
        """Try again: at once with the next dispatcher, or after a pause when all have failed."""
        if not self._is_failing:
            self._is_failing = True
            self._note("can't report, trying again", letter, found, dispatcher=place)
        self._circle.failed(place)
        letter.failures += 1
        wait = schedule.pause(letter.failures, len(self._circle), spread=self._spread())
        self._postbag.put_back(letter, due=self._now() + wait)
        self._news.set()

    def _note(self, what: str, letter: PendingReport, found: str, **about: str) -> None:
        run = letter.run
        self._log.warning(
            what, action="report", job=run.job_id, attempt=run.attempt, found=found, **about
        )
