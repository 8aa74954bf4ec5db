"""What runs in simulated processes: real dispatchers, real workers, real clients.

Each actor starts a process' main task and knows how to ask it to stop. Whatever ends a main task
by an error that nobody planned is a violation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Protocol, cast

import msgspec

from shunter.app import App
from shunter.client.async_client import AsyncClient
from shunter.client.handle import AsyncJob
from shunter.errors import JobRefused, ShunterError
from shunter.gateway.service import Service
from shunter.model.retry import Retry
from shunter.settings import (
    DispatcherSettings,
    HttpSettings,
    JobSettings,
    Settings,
    StoreSettings,
    UdpSettings,
    ZmqSettings,
)
from shunter.testing.simulation.judge import Judge
from shunter.testing.simulation.pool import SimulatedPool
from shunter.testing.simulation.processes import Process
from shunter.testing.simulation.scenario import PlannedJob, PlannedWorker
from shunter.testing.simulation.truth import FaultyStore, StoreFaults, Truth
from shunter.testing.simulation.witness import Witness
from shunter.worker.pool.process_pool import PoolSettings, ProcessPool
from shunter.worker.zmq.zmq_worker import ZmqWorker, ZmqWorkerSettings

GRACE_SECONDS = 3.0
"""How long what runs on a worker that resigns may go on."""

ASK_AGAIN_SECONDS = 0.5


class Actor(Protocol):
    """One life of one process."""

    process: Process

    async def main(self) -> None: ...

    def terminate(self) -> None:
        """Take SIGTERM, on the process' own loop."""

    def died(self) -> None:
        """The process is gone."""


def frontend(dispatcher: str) -> str:
    return f"tcp://{dispatcher}:5560"


def backend(dispatcher: str) -> str:
    return f"tcp://{dispatcher}:5561"


class DispatcherActor:
    """A `Service` over its own way to the store."""

    def __init__(
        self,
        process: Process,
        truth: Truth,
        faults: StoreFaults,
        random: Random,
        cooldown: int,
    ) -> None:
        self.process = process
        settings = Settings(
            store=StoreSettings(url="mongodb://simulated/store"),
            zmq=ZmqSettings(frontend=frontend(process.name), backend=backend(process.name)),
            udp=UdpSettings(enabled=False),
            http=HttpSettings(enabled=False),
            dispatcher=DispatcherSettings(jobs=JobSettings(cooldown_period=cooldown)),
        )
        store = FaultyStore(truth, process, faults, random)
        self.service = Service(settings, store, process.environment)

    async def main(self) -> None:
        await self.service.run()

    def terminate(self) -> None:
        self.service.stop()

    def died(self) -> None:
        """What it had written stays."""


def simulated_app() -> App:
    """Return the app of all workers; what a job does is in its payload."""
    app = App()
    for name in ("a", "b"):

        @app.job(name=name)
        def handler() -> None:
            raise AssertionError("a simulated pool calls no handlers")

    return app


APP = simulated_app()


class WorkerActor:
    """A `ZmqWorker` with a simulated pool."""

    def __init__(
        self, process: Process, plan: PlannedWorker, witness: Witness, judge: Judge, random: Random
    ) -> None:
        self.process = process
        settings = ZmqWorkerSettings(
            dispatchers=tuple(backend(name) for name in plan.dispatchers),
            grace=GRACE_SECONDS,
            pool=PoolSettings(slots=plan.slots),
        )

        def pool(
            _: str, app: App, settings: PoolSettings, *, on_output: Callable[[], None]
        ) -> ProcessPool:
            self.pool = SimulatedPool(process, witness, random, app, settings, on_output)
            return cast(ProcessPool, self.pool)

        self._slots = plan.slots
        self._judge = judge
        self.worker = ZmqWorker("simulated", APP, settings, process.environment, pool)
        judge.worker_names[self.worker.id] = process.name

    async def main(self) -> None:
        await self.worker.run()

    def terminate(self) -> None:
        self.worker.stop()

    def died(self) -> None:
        self.pool.died()

    def check(self) -> None:
        """A worker holds no more jobs than it said it can take."""
        if self.pool.most_held > self._slots:
            detail = (
                f"{self.process.name} held {self.pool.most_held} jobs, it has {self._slots} slots"
            )
            self._judge.accuse("max_jobs holds", detail)


class ClientActor:
    """A client that repeats what has no receipt, and waits for the end of what has one."""

    def __init__(
        self,
        process: Process,
        addresses: tuple[str, ...],
        jobs: list[PlannedJob],
        judge: Judge,
        settled: dict[str, str],
        tell: Callable[[str, str], None],
    ) -> None:
        self.process = process
        self._client = AsyncClient(*addresses, timeout=4.0, environment=process.environment)
        self._jobs = jobs
        self._judge = judge
        self._settled = settled
        self._tell = tell

    async def main(self) -> None:
        self._main = cast(asyncio.Task[None], asyncio.current_task())
        async with self._client, asyncio.TaskGroup() as group:
            for job in self._jobs:
                if job.id not in self._settled:
                    group.create_task(self._see_through(job))

    def terminate(self) -> None:
        self._main.cancel()

    def died(self) -> None:
        """Its jobs go on."""

    async def _see_through(self, plan: PlannedJob) -> None:
        now = self.process.time.now
        await asyncio.sleep(max(0.0, plan.at - now))
        handle = await self._submitted(plan)
        if handle is None:
            return
        self._judge.receipt(handle.id)
        async with asyncio.TaskGroup() as group:
            if plan.cancel_after is not None:
                group.create_task(self._cancel(handle, plan.cancel_after))
            outcome = await handle.wait()
        self._judge.told(handle.id, outcome)
        self._settled[plan.id] = outcome.status.word
        self._tell(self.process.name, f"hears that {handle.id} is {outcome.status.word}")

    async def _submitted(self, plan: PlannedJob) -> AsyncJob | None:
        options: dict[str, Any] = {
            "timeout": plan.timeout,
            "retry": Retry(limit=plan.retries, delay=0.5) if plan.retries else None,
            "delay": plan.delay,
            "unique_key": plan.unique_key,
        }
        view = self._client.with_options(**options)
        payload = msgspec.msgpack.encode(plan.task)
        while True:
            try:
                handle = await view.submit_raw(plan.type, payload, job_id=plan.id)
            except JobRefused as error:
                self._tell(self.process.name, f"is refused: {error}")
                self._settled[plan.id] = "refused"
                return None
            except ShunterError as error:
                self._tell(self.process.name, f"has no receipt for {plan.id} yet: {error}")
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                also = "" if handle.id == plan.id else f", which is {handle.id}"
                self._tell(self.process.name, f"has the receipt for {plan.id}{also}")
                return handle

    async def _cancel(self, handle: AsyncJob, after: float) -> None:
        await asyncio.sleep(after)
        while not handle.is_done:
            try:
                await handle.cancel()
            except JobRefused:
                return
            except ShunterError:
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                self._tell(self.process.name, f"has asked for {handle.id} to be cancelled")
                return
