"""Outcomes that are asked for: what an answer says, and what it does not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from shunter.client.handle import AsyncJob
from shunter.client.pending_outcomes import PendingOutcomes
from shunter.errors import JobNotFound
from shunter.model.job import Status
from shunter.wire.messages import Fetched, Outcome


class Scene:
    """A client that waits for `j-1`, and a dispatcher that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        self.answers: asyncio.Queue[Fetched] = asyncio.Queue()
        self.pending = PendingOutcomes(self._fetch)
        self.first = self.handle("j-1")

    async def _fetch(self, job_ids: tuple[str, ...]) -> Fetched:
        self.asked.put_nowait(job_ids)
        return await self.answers.get()

    def wants(self, job: AsyncJob[Any]) -> None:
        self.pending.want(job)

    def handle(self, job_id: str) -> AsyncJob[Any]:
        return self.pending.add(AsyncJob(cast(Any, self), job_id, "t"))


async def ask_of_unknown(*, is_awaited_before: bool) -> None:
    scene = Scene()
    second = scene.handle("j-2")  # it is just being submitted
    waits = [asyncio.ensure_future(scene.first.wait())]
    if is_awaited_before:
        waits.append(asyncio.ensure_future(second.wait()))
    assert set(await scene.asked.get()) == {"j-1", "j-2"}
    if not is_awaited_before:
        waits.append(asyncio.ensure_future(second.wait()))
        await asyncio.sleep(0)

    scene.answers.put_nowait(Fetched(1, (Outcome("j-1", Status.COMPLETED),), ("j-2",)))
    await waits[0]
    scene.pending.settle([Outcome("j-2", Status.COMPLETED)])
    try:
        await asyncio.wait_for(waits[1], 5.0)
    finally:
        await scene.pending.close()


def test_an_answer_that_does_not_know_a_job_yet_is_no_loss_of_it() -> None:
    asyncio.run(ask_of_unknown(is_awaited_before=False))


def test_a_job_that_was_awaited_and_is_not_known_is_not_found() -> None:
    with pytest.raises(JobNotFound):
        asyncio.run(ask_of_unknown(is_awaited_before=True))
