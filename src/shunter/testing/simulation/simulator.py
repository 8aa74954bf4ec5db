"""One run of one scenario: the world, its processes, the faults, and what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from random import Random

from msgspec import Struct

from shunter.model.job import Status
from shunter.model.lifecycle import Event
from shunter.testing.simulation.actors import (
    Actor,
    ClientActor,
    DispatcherActor,
    WorkerActor,
    frontend,
)
from shunter.testing.simulation.faults import Faults
from shunter.testing.simulation.judge import Judge, Violation
from shunter.testing.simulation.links import Wires
from shunter.testing.simulation.loop import Livelock, VirtualTime
from shunter.testing.simulation.monitor import Monitor
from shunter.testing.simulation.processes import Process, WallClock
from shunter.testing.simulation.scenario import FaultKind, Scenario
from shunter.testing.simulation.sockets import ZmqNetwork
from shunter.testing.simulation.truth import StoreFaults, Truth
from shunter.testing.simulation.witness import Witness

LOOK_SECONDS = 0.25
MAX_STEPS = 400_000
MAX_WAITING_MESSAGES = 500
MAX_TASKS = 200
MAX_UNWINDING = 20


class Line(Struct, frozen=True):
    """One line of a trace."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:9.4f} {self.who:<6} {self.what}"


class SimulationResult(Struct, frozen=True, kw_only=True):
    """What came of a run."""

    scenario: Scenario
    violation: Violation | None
    trace: list[Line]
    seconds: float
    steps: int
    digest: int
    """A checksum of all messages that arrived."""
    events: Counter[tuple[Status, Event]]
    faults: Counter[FaultKind]

    def trace_bytes(self) -> bytes:
        """Return all that tells this run from another."""
        lines = [*map(str, self.trace), f"{self.steps} steps, digest {self.digest:08x}"]
        return "\n".join(lines).encode()


class Simulator:
    """Runs a scenario, once."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.time = VirtualTime(max_steps=MAX_STEPS)
        self.random = Random(f"world of {scenario.seed}")  # noqa: S311
        self.wires = Wires(self.time, Random(f"wires of {scenario.seed}"))  # noqa: S311
        self.network = ZmqNetwork(self.wires)
        self.trace: list[Line] = []
        self.actors: dict[str, Actor] = {}
        self.clocks = {name: WallClock(self.time) for name in self._names()}
        self.store_faults = {name: StoreFaults() for name in scenario.dispatchers}
        self.witness = Witness(self._overlapped, self.tell)
        self.truth = Truth(self._written, self._beat)
        self.judge = Judge(lambda: self.time.now, self.truth.job, self.witness.under_way, self.tell)
        self.network.monitor = Monitor(
            self.judge, lambda: self.time.now, self.truth.job, self.judge.stored_beat
        )
        self.faults = Faults(self)
        self._settled: dict[str, str] = {}
        self._lives: Counter[str] = Counter()
        self._is_over = False
        self._past: list[Actor] = []

    def tell(self, who: str, what: str) -> None:
        self.trace.append(Line(self.time.now, who, what))

    def run(self) -> SimulationResult:
        scenario, time = self.scenario, self.time
        deadline = scenario.deadline
        for name in self._names():
            time.ground.call_soon(self.start, name)
        for fault in scenario.faults:
            time.at(fault.at, self.faults.begin, fault)
        time.at(LOOK_SECONDS, self._look)
        try:
            time.run(until=self._is_done, deadline=deadline)
        except Livelock as error:
            self.judge.accuse("the system comes to rest", str(error))
        if not self._is_over:
            self._accuse_stranded()
        result = SimulationResult(
            scenario=scenario,
            violation=self.judge.violation,
            trace=self.trace,
            seconds=time.now,
            steps=time.steps,
            digest=self.wires.digest,
            events=self.judge.covered,
            faults=self.faults.covered,
        )
        self._dispose()
        return result

    def _names(self) -> tuple[str, ...]:
        scenario = self.scenario
        workers = tuple(worker.name for worker in scenario.workers)
        return (*scenario.dispatchers, *workers, *scenario.clients)

    # ---- processes

    def start(self, name: str) -> None:
        """Start a process, or start it again."""
        self._lives[name] += 1
        life = self._lives[name]
        process = Process(
            name, life, self.time, self.network, self.clocks[name], self.scenario.seed
        )
        process.loop.on_error = partial(self._raised, name)
        actor = self.actors[name] = self._actor(process)
        if life > 1:
            self.tell(name, "is started again")
        task = process.loop.create_task(actor.main())
        task.add_done_callback(partial(self._ended, actor))

    def _actor(self, process: Process) -> Actor:
        scenario, name = self.scenario, process.name
        random = Random(f"{scenario.seed}/{name}/{process.life}/world")  # noqa: S311
        if name in scenario.dispatchers:
            faults = self.store_faults[name]
            return DispatcherActor(process, self.truth, faults, random, scenario.cooldown)
        for plan in scenario.workers:
            if plan.name == name:
                return WorkerActor(process, plan, self.witness, self.judge, random)
        at = scenario.clients.index(name) % len(scenario.dispatchers)
        addresses = (*scenario.dispatchers[at:], *scenario.dispatchers[:at])
        jobs = [job for job in scenario.jobs if job.client == name]
        return ClientActor(
            process,
            tuple(frontend(address) for address in addresses),
            jobs,
            self.judge,
            self._settled,
            self.tell,
        )

    def kill(self, name: str) -> None:
        actor = self.actors[name]
        if actor.process.is_alive:
            self.tell(name, "is killed")
            actor.process.kill()
            actor.died()
            self._past.append(actor)

    def _ended(self, actor: Actor, task: asyncio.Task[None]) -> None:
        """A main task has come to its end."""
        name = actor.process.name
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._raised(name, "its main task ended", error)
        if name not in self.scenario.clients:
            self.tell(name, "has stopped")
        actor.process.exited()
        actor.died()
        self._past.append(actor)

    def _raised(self, name: str, message: str, error: BaseException | None) -> None:
        if message.startswith("Task"):
            return  # found by the garbage collector, at no certain time
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self.judge.accuse("nothing raises", f"{name}: {message}: {error!r}")

    # ---- checks

    def _written(self, before: object, after: object) -> None:
        self.judge.written(before, after, self.truth.writer)  # type: ignore[arg-type]

    def _beat(self, worker_id: str) -> None:
        self.judge.beat_stored(worker_id)

    def _overlapped(self, old: object, new: object) -> None:
        self.judge.overlapped(old, new)  # type: ignore[arg-type]

    def _is_done(self) -> bool:
        return self._is_over or self.judge.violation is not None

    def _look(self) -> None:
        """Look at what grows, and whether all is over."""
        for actor in self.actors.values():
            if isinstance(actor, WorkerActor):
                actor.check()
            if len(actor.process.loop.tasks) > MAX_TASKS:
                self.judge.accuse("memory is bounded", f"{actor.process.name} has too many tasks")
        if self.network.most_waiting() > MAX_WAITING_MESSAGES:
            self.judge.accuse("queues are bounded", "messages pile up")
        is_quiet = self.time.now >= self.scenario.quiet_from
        is_settled = is_quiet and len(self._settled) == len(self.scenario.jobs)
        if is_settled and not self.truth.under_way() and not self.witness.is_busy:
            self.judge.check_kept()
            self._is_over = True
        self.time.at(self.time.now + LOOK_SECONDS, self._look)

    def _accuse_stranded(self) -> None:
        for job in self.truth.under_way():
            healed = self.time.now - self.scenario.quiet_from
            detail = f"{job.id} is still {job.status.word}, {healed:.0f} s after all healed"
            self.judge.accuse("nothing is stranded", detail, job.id)
        for plan in self.scenario.jobs:
            if plan.id not in self._settled:
                detail = f"{plan.client} has not heard how {plan.id} ended"
                self.judge.accuse("clients hear of the end", detail, plan.id)
        self.judge.accuse("nothing is stranded", "a run goes on though its job has ended")

    def _dispose(self) -> None:
        """Let go of everything, without a word from what was under way."""
        for actor in (*self._past, *self.actors.values()):
            actor.process.kill()
            for task in actor.process.loop.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())


def _close(coroutine: object) -> None:
    """Unwind a coroutine that nobody will ever wake, however often it wants to wait."""
    assert isinstance(coroutine, Coroutine)
    for _ in range(MAX_UNWINDING):
        try:
            coroutine.close()
        except BaseException as error:
            if "ignored GeneratorExit" not in str(error):
                return
        else:
            return


def simulate(scenario: Scenario) -> SimulationResult:
    """Run a scenario."""
    return Simulator(scenario).run()
