"""Logs on their way from an HTTP worker: the newest of each run, and none is worth a wait."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from shunter.model.journal import LiveLog
from shunter.net.http_calls import Answer, CallFailed
from shunter.worker.http.holdings import RunOffer
from shunter.worker.http.live_logs import MOST_WAITING, LiveLogs
from shunter.worker.http.schedule import DispatcherRing


class SlowDispatcher:
    """Answers a call when it is told to."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.told: list[tuple[str, str]] = []
        self.may_answer = asyncio.Event()
        self.is_gone = is_gone

    async def call(self, method: str, url: str, *, seconds: float, json: bytes) -> Answer:
        self.told.append((url, msgspec.json.decode(json)["log"]))
        await self.may_answer.wait()
        if self.is_gone:
            raise CallFailed("nobody is there", was_sent=False)
        return Answer(404, b"")


def offer(number: int) -> RunOffer:
    return RunOffer(job_id=f"a/{number}", attempt=1, type="t", worker_id="w-1")


def serve(dispatcher: Any, scenario: Any) -> None:
    async def main() -> None:
        logs = LiveLogs(dispatcher, DispatcherRing(["http://d/"]))
        serving = asyncio.create_task(logs.run())
        await scenario(logs)
        serving.cancel()

    asyncio.run(main())


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_of_a_run_the_newest_is_told_and_what_is_refused_is_not_told_again() -> None:
    dispatcher = SlowDispatcher()

    async def scenario(logs: LiveLogs) -> None:
        logs.add(offer(1), LiveLog(0, "first"))
        await turns()
        for text in ("second", "third"):
            logs.add(offer(1), LiveLog(0, text))
        logs.add(offer(2), LiveLog(0, "ended"))
        logs.drop(offer(2))
        dispatcher.may_answer.set()
        await turns()
        assert len(logs) == 0

    serve(dispatcher, scenario)
    url = "http://d/dispatcher/jobs/a%2F1/log"
    assert dispatcher.told == [(url, "first"), (url, "third")]


def test_while_nobody_answers_logs_do_not_pile_up() -> None:
    dispatcher = SlowDispatcher(is_gone=True)

    async def scenario(logs: LiveLogs) -> None:
        for number in range(10 * MOST_WAITING):
            logs.add(offer(number), LiveLog(0, "x"))
            await asyncio.sleep(0)
        assert len(logs) == MOST_WAITING
        assert len(dispatcher.told) == 1, "one at a time"
        logs.clear()
        assert len(logs) == 0

    serve(dispatcher, scenario)
