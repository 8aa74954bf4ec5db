"""What runs in simulated processes: the real thing, with a simulated environment.

Each actor starts a process' main task and knows how to ask it to stop. Whatever ends a main task
by an error that nobody planned is a violation. Here are dispatchers, and what all actors share;
workers are in `worker_actors.py`, clients and receivers of callbacks in `client_actors.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from msgspec import Struct

from shunter.gateway.service import Service
from shunter.model.worker import WorkerKind
from shunter.settings import (
    Address,
    CallbackSettings,
    DispatcherSettings,
    HealthSettings,
    HttpSettings,
    JobSettings,
    Settings,
    StoreSettings,
    UdpSettings,
    ZmqSettings,
)
from shunter.testing.simulation.callback_judge import MAX_TRIES, CallbackJudge
from shunter.testing.simulation.hook_judge import HookJudge
from shunter.testing.simulation.judge import Judge
from shunter.testing.simulation.network import Network
from shunter.testing.simulation.processes import Process
from shunter.testing.simulation.scenario import TASK_TIMEOUT_SECONDS, Scenario
from shunter.testing.simulation.schedule_judge import ScheduleJudge
from shunter.testing.simulation.truth import FaultyStore, StoreFaults, Truth
from shunter.testing.simulation.witness import Witness

UDP_PORT, HTTP_PORT = 5555, 8081
PLACEMENT_SECONDS = 40.0


class World(Struct, frozen=True, kw_only=True):
    """What is the same for all processes of a run."""

    scenario: Scenario
    network: Network
    truth: Truth
    judge: Judge
    callbacks: CallbackJudge
    schedules: ScheduleJudge
    hooks: HookJudge
    witness: Witness
    settled: dict[str, str]
    """How jobs ended, as far as their clients know."""
    tell: Callable[[str, str], None]


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


def web_address(name: str) -> str:
    return f"http://{name}:{HTTP_PORT}"


class DispatcherActor:
    """A `Service` over its own way to the store."""

    def __init__(self, process: Process, world: World, faults: StoreFaults, random: Random) -> None:
        self.process = process
        store = FaultyStore(world.truth, process, faults, random)
        self.service = Service(_settings(process.name, world), store, process.environment)

    async def main(self) -> None:
        await self.service.run()

    def terminate(self) -> None:
        self.service.stop()

    def died(self) -> None:
        """What it had written stays."""


def _settings(name: str, world: World) -> Settings:
    """Return the settings of a dispatcher: gateways that nobody uses are not there."""
    scenario = world.scenario
    kinds = {worker.kind for worker in scenario.workers}
    return Settings(
        store=StoreSettings(url="mongodb://simulated/store"),
        zmq=ZmqSettings(
            frontend=frontend(name),
            backend=backend(name),
            resend_after_seconds=TASK_TIMEOUT_SECONDS,
            insecure=True,
        ),
        udp=UdpSettings(
            enabled=WorkerKind.UDP in kinds or bool(scenario.udp_clients),
            client_address=Address(host=world.network.datagrams.host_of(name), port=UDP_PORT),
            insecure=True,
            task_timeout=TASK_TIMEOUT_SECONDS,
            timeout_task_placement=PLACEMENT_SECONDS,
        ),
        http=HttpSettings(
            enabled=WorkerKind.HTTP in kinds, host=name, port=HTTP_PORT, insecure=True
        ),
        callbacks=CallbackSettings(
            allowed_hosts=scenario.receivers, max_tries=MAX_TRIES, max_delay_seconds=4.0
        ),
        dispatcher=DispatcherSettings(
            jobs=JobSettings(cooldown_period=scenario.cooldown, job_verification_interval=5000),
            workers=HealthSettings(
                ping_interval=6000,
                dead_worker_ping_interval=6000,
                allowed_hosts=tuple(plan.name for plan in scenario.workers),
            ),
        ),
    )
