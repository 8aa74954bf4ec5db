"""Workers of all kinds, in simulated processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Protocol, cast

from shunter.app import App
from shunter.model.health import worker_id_at
from shunter.model.job import DEFAULT_TYPE
from shunter.model.job_limits import Limit
from shunter.model.worker import WorkerKind
from shunter.testing.simulation.actors import UDP_PORT, World, backend, web_address
from shunter.testing.simulation.pool import SimulatedPool
from shunter.testing.simulation.processes import Process
from shunter.testing.simulation.scenario import PlannedSchedule, PlannedWorker
from shunter.worker.http.host import HttpHost, HttpHostSettings
from shunter.worker.pool.process_pool import PoolSettings, ProcessPool
from shunter.worker.udp.calculator import Calculator, CalculatorSettings
from shunter.worker.zmq.zmq_worker import ZmqWorker, ZmqWorkerSettings

GRACE_SECONDS = 3.0
"""How long what runs on a worker that resigns may go on."""

WORKER_PORT = 7000
QUIET_SECONDS = 10.0


@cache
def simulated_app(
    limit: int, schedules: tuple[PlannedSchedule, ...], has_hooks: bool = False
) -> App:
    """Return the app of all workers; what a job does is in its payload, or in its schedule."""
    app = App()
    limited = Limit(limit, by="tenant", total=2 * limit) if limit else None
    for name in ("a", "b", DEFAULT_TYPE):
        app.job(name=name, limit=limited, fair="tenant" if limit else "")(_uncalled)
    for plan in schedules:
        if plan.is_declared:
            app.job(
                name=plan.name,
                schedule=plan.timing,
                overlap=plan.overlap,
                catch_up=plan.catch_up,
                jitter=plan.jitter,
            )(_uncalled)
        else:
            app.job(name=plan.name)(_uncalled)
    if has_hooks:
        app.on_final_failure(_uncalled)
    return app


def _uncalled() -> None:
    raise AssertionError("a simulated pool calls no handlers")


class _Runnable(Protocol):
    """A worker's parent process."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


class WorkerActor(ABC):
    """A worker with a simulated pool, which never holds more jobs than it may."""

    worker: _Runnable
    pool: SimulatedPool

    def __init__(self, process: Process, world: World, plan: PlannedWorker, random: Random) -> None:
        self.process = process
        self._world, self._plan, self._random = world, plan, random
        scenario = world.scenario
        self._app = simulated_app(scenario.limit, scenario.schedules, scenario.has_hooks)
        self._pool_settings = PoolSettings(slots=plan.slots)
        self.worker = self._made()

    @abstractmethod
    def _made(self) -> _Runnable:
        """Return the worker itself."""

    def _pool(
        self, _: str, app: App, settings: PoolSettings, *, on_output: Callable[[], None]
    ) -> ProcessPool:
        """Stand in for `ProcessPool`."""
        self.pool = SimulatedPool(
            self.process,
            self._world.witness,
            self._random,
            app,
            settings,
            on_output,
            {plan.name: plan.task for plan in self._world.scenario.schedules},
            self._world.hooks.called,
        )
        return cast(ProcessPool, self.pool)

    async def main(self) -> None:
        await self.worker.run()

    def terminate(self) -> None:
        self.worker.stop()

    def died(self) -> None:
        self.pool.died()

    def check(self) -> None:
        """A worker holds no more jobs than it said it can take."""
        held, slots = self.pool.most_held, self._plan.slots
        if held > slots:
            detail = f"{self.process.name} held {held} jobs, it has {slots} slots"
            self._world.judge.accuse("max_jobs holds", detail)


class ZmqWorkerActor(WorkerActor):
    """A worker of the full level."""

    def _made(self) -> _Runnable:
        settings = ZmqWorkerSettings(
            dispatchers=tuple(map(backend, self._plan.dispatchers)),
            grace=GRACE_SECONDS,
            pool=self._pool_settings,
        )
        worker = ZmqWorker("simulated", self._app, settings, self.process.environment, self._pool)
        self._world.judge.worker_names[worker.id] = self.process.name
        return worker


class HttpWorkerActor(WorkerActor):
    """A worker behind HTTP. It comes back at the same address, so it is always the same worker."""

    def _made(self) -> _Runnable:
        name = self.process.name
        settings = HttpHostSettings(
            dispatchers=tuple(map(web_address, self._plan.dispatchers)),
            host=name,
            port=WORKER_PORT,
            insecure=True,
            grace=GRACE_SECONDS,
            quiet_after=QUIET_SECONDS,
            pool=self._pool_settings,
        )
        self._world.judge.worker_names[worker_id_at(name, WORKER_PORT)] = name
        return HttpHost("simulated", self._app, settings, self.process.environment, self._pool)


class UdpWorkerActor(WorkerActor):
    """Calculators of one dispatcher."""

    def _made(self) -> _Runnable:
        hosts = self._world.network.datagrams
        settings = CalculatorSettings(
            dispatcher=(hosts.host_of(self._plan.dispatchers[0]), UDP_PORT),
            grace=GRACE_SECONDS,
            pool=self._pool_settings,
        )
        return Calculator("simulated", self._app, settings, self.process.environment, self._pool)


WORKERS: dict[WorkerKind, type[WorkerActor]] = {
    WorkerKind.FULL: ZmqWorkerActor,
    WorkerKind.HTTP: HttpWorkerActor,
    WorkerKind.UDP: UdpWorkerActor,
}
