"""What a million waiting jobs cost: the dispatcher's memory, and the price of one job.

Two dispatchers, each with a store of its own: one with one to two thousand jobs waiting, one with a
million. A round is the same on both: a worker with two slots is started, and for each batch of
jobs that has ended a batch of new ones is submitted, so that the queue stays as long as it was.
Every job thus takes the whole way on both sides: inserted as waiting, claimed from the queue,
started, completed, its result sent to the client; none is placed directly. After a warm-up the
processor time of the dispatcher and the time that passes are taken over the same number of jobs.
Then the worker is stopped, and it is the other dispatcher's turn. The price is that of a job's
whole way, not of the claim alone: the ratio is what a user would notice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from statistics import median

from bench.bench_app import echo
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from shunter import AsyncClient
from shunter.client import AsyncJob

BATCH = 250
SHORT = 3000
"""As many are under way where one to two thousand wait: a worker takes up to 1024 ahead of time,
and some batches are on their way. With fewer the queue would be empty now and then, and new jobs
would be placed directly, which is cheaper."""


class Line:
    """A dispatcher whose queue is kept at one length."""

    def __init__(self, dispatcher: Dispatcher, client: AsyncClient, *, remembered: int) -> None:
        self.dispatcher, self._client, self._remembered = dispatcher, client, remembered
        self._front: deque[AsyncJob] = deque()
        self.rss_megabytes = 0.0

    async def fill(self, jobs: int, at: str = "") -> None:
        """Put jobs into the queue. Only handles of those that come first are kept."""
        done = 0
        async for batch in self._client.submitting(echo, range(jobs)):
            done += len(batch)
            if len(self._front) < self._remembered:
                self._front.extend(batch)
            if at and done % 10_000 == 0:
                say(at, done, jobs)
                self._weigh()

    async def round(self, jobs: int) -> tuple[float, float]:
        """Have jobs done; return the milliseconds that each took: of the processor, of time."""
        self._front = deque(job for job in self._front if not job.is_done)
        await self.fill(max(0, SHORT - len(self._front)))
        worker = self.dispatcher.start_worker()
        await self._renew(jobs // 5)
        cpu, began = self.dispatcher.cpu_seconds(), time.perf_counter()
        await self._renew(jobs)
        took = time.perf_counter() - began
        spent = self.dispatcher.cpu_seconds() - cpu
        self._weigh()
        await asyncio.to_thread(worker.terminate)
        await asyncio.to_thread(worker.wait, 30)
        return spent / jobs * 1000, took / jobs * 1000

    async def _renew(self, jobs: int) -> None:
        """Wait for so many jobs to end, and submit as many."""
        fills: deque[asyncio.Task[None]] = deque()
        async with asyncio.TaskGroup() as group:
            for _ in range(jobs // BATCH):
                while len(self._front) < BATCH:
                    await fills.popleft()
                for _ in range(BATCH):
                    await self._front.popleft().result(timeout=60.0)
                fills.append(group.create_task(self.fill(BATCH)))

    async def claimed_part(self) -> float:
        """Return which part of all jobs came from the queue, so that nobody has to believe it."""
        counters = (await self._client.standing()).counters
        return counters["jobs_claimed"] / counters["jobs_completed"]

    def _weigh(self) -> None:
        self.rss_megabytes = max(self.rss_megabytes, self.dispatcher.resident_megabytes())


async def _measure(stage: Stage, queued: int, jobs: int, rounds: int) -> None:
    async with (
        AsyncClient((few := Dispatcher(stage, "few").ready()).frontend) as few_client,
        AsyncClient((many := Dispatcher(stage, "many").ready()).frontend) as many_client,
    ):
        short = Line(few, few_client, remembered=2 * SHORT)
        long = Line(many, many_client, remembered=rounds * jobs * 3 // 2)
        await long.fill(queued, "filling the queue")
        standing = await many_client.standing()
        assert sum(count for _, _, count in standing.backlog) == queued, standing.backlog
        filled = many.resident_megabytes()
        await short.fill(SHORT)
        figures: dict[Line, list[tuple[float, float]]] = {short: [], long: []}
        for number in range(rounds):
            for line, name in ((short, f"{SHORT:,}"), (long, f"{queued:,}")):
                say(f"taking from {name} jobs", number, rounds)
                figures[line].append(await line.round(jobs))
        claimed = {"short": await short.claimed_part(), "long": await long.claimed_part()}
    conclude(
        queued=queued,
        rss_mb=filled,
        peak_rss_mb=long.rss_megabytes,
        short_cpu_ms=median(cpu for cpu, _ in figures[short]),
        long_cpu_ms=median(cpu for cpu, _ in figures[long]),
        short_ms=median(took for _, took in figures[short]),
        long_ms=median(took for _, took in figures[long]),
        claimed_part=claimed,
        rounds={"short": figures[short], "long": figures[long]},
    )


def main() -> None:
    chosen = sizes(__doc__ or "", queued=1_000_000, jobs=40_000, rounds=3)
    with Stage() as stage:
        asyncio.run(_measure(stage, chosen.queued, chosen.jobs, chosen.rounds))


if __name__ == "__main__":
    main()
