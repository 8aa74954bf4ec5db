"""Workers of all kinds, in simulated processes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import cast

from shunter.app import App
from shunter.model.job import DEFAULT_TYPE
from shunter.model.worker import WorkerKind
from shunter.testing.simulation.actors import World, backend
from shunter.testing.simulation.pool import SimulatedPool
from shunter.testing.simulation.processes import Process
from shunter.testing.simulation.scenario import PlannedWorker
from shunter.worker.pool.process_pool import PoolSettings, ProcessPool
from shunter.worker.zmq.zmq_worker import ZmqWorker, ZmqWorkerSettings

GRACE_SECONDS = 3.0
"""How long what runs on a worker that resigns may go on."""


def simulated_app() -> App:
    """Return the app of all workers; what a job does is in its payload."""
    app = App()
    for name in ("a", "b", DEFAULT_TYPE):

        @app.job(name=name)
        def handler() -> None:
            raise AssertionError("a simulated pool calls no handlers")

    return app


APP = simulated_app()


class WorkerActor:
    """What all share that have a pool: it is simulated, and holds no more than it may."""

    pool: SimulatedPool

    def __init__(self, process: Process, world: World, plan: PlannedWorker, random: Random) -> None:
        self.process = process
        self._world, self._plan, self._random = world, plan, random

    def make_pool(
        self, _: str, app: App, settings: PoolSettings, *, on_output: Callable[[], None]
    ) -> ProcessPool:
        """Stand in for `ProcessPool`."""
        self.pool = SimulatedPool(
            self.process, self._world.witness, self._random, app, settings, on_output
        )
        return cast(ProcessPool, self.pool)

    async def main(self) -> None:
        raise NotImplementedError

    def terminate(self) -> None:
        raise NotImplementedError

    def died(self) -> None:
        self.pool.died()

    def check(self) -> None:
        """A worker holds no more jobs than it said it can take."""
        held, slots = self.pool.most_held, self._plan.slots
        if held > slots:
            detail = f"{self.process.name} held {held} jobs, it has {slots} slots"
            self._world.judge.accuse("max_jobs holds", detail)


class ZmqWorkerActor(WorkerActor):
    """A `ZmqWorker`."""

    def __init__(self, process: Process, world: World, plan: PlannedWorker, random: Random) -> None:
        super().__init__(process, world, plan, random)
        settings = ZmqWorkerSettings(
            dispatchers=tuple(backend(name) for name in plan.dispatchers),
            grace=GRACE_SECONDS,
            pool=PoolSettings(slots=plan.slots),
        )
        self.worker = ZmqWorker("simulated", APP, settings, process.environment, self.make_pool)
        world.judge.worker_names[self.worker.id] = process.name

    async def main(self) -> None:
        await self.worker.run()

    def terminate(self) -> None:
        self.worker.stop()


WORKERS: dict[WorkerKind, type[WorkerActor]] = {WorkerKind.FULL: ZmqWorkerActor}
