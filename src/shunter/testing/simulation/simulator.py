"""One run of one scenario: the world, its processes, the faults, and what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from random import Random

from msgspec import Struct

from shunter.model.job import Job, Status
from shunter.model.lifecycle import Event
from shunter.model.schedule import Schedule
from shunter.model.worker import WorkerKind
from shunter.testing.simulation.actors import Actor, DispatcherActor, World
from shunter.testing.simulation.callback_judge import CallbackJudge, is_settled
from shunter.testing.simulation.client_actors import ClientActor, ReceiverActor, UdpClientActor
from shunter.testing.simulation.faults import Faults
from shunter.testing.simulation.hook_judge import RULE, HookJudge
from shunter.testing.simulation.idle_places import IdlePlaces
from shunter.testing.simulation.judge import Judge, Violation
from shunter.testing.simulation.links import Wires
from shunter.testing.simulation.loop import Livelock, VirtualTime
from shunter.testing.simulation.monitor import Monitor, PacketMonitor
from shunter.testing.simulation.network import Network
from shunter.testing.simulation.processes import EPOCH, Process, WallClock
from shunter.testing.simulation.scenario import FaultKind, Scenario
from shunter.testing.simulation.schedule_judge import ScheduleJudge, moved
from shunter.testing.simulation.truth import StoreFaults, Truth
from shunter.testing.simulation.witness import Witness
from shunter.testing.simulation.worker_actors import WORKERS, WorkerActor
from shunter.wire.udp.job_names import client_of

LOOK_SECONDS = 0.25
KNOWN_SECONDS = 2.0
"""Within so long all dispatchers know of a worker that has come."""
MAX_STEPS = 400_000
MAX_WAITING_MESSAGES = 500
MAX_TASKS = 200
MAX_UNWINDING = 20
UNLEASED = (WorkerKind.UDP, WorkerKind.PLAIN)


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
        self.network = Network(self.wires, scenario.names)
        self.trace: list[Line] = []
        self.actors: dict[str, Actor] = {}
        self.clocks = {name: WallClock(self.time) for name in scenario.names}
        self.store_faults = {name: StoreFaults() for name in scenario.dispatchers}
        self.witness = Witness(
            lambda old, new: self.judge.overlapped(old, new),
            lambda run: self.judge.ran_again(run),
            self.tell,
            lambda run, times: self.judge.began(run, times),
            lambda run, step: self.judge.repeated_step(run, step),
        )
        self.truth = Truth(
            self._written, self._callback_written, self._beat, self._schedule_written
        )
        self.judge = Judge(lambda: self.time.now, self.truth.job, self.witness.under_way, self.tell)
        self.network.zmq.monitor = Monitor(
            self.judge, lambda: self.time.now, self.truth.job, self.judge.stored_beat
        )
        self.judge.limit = scenario.limit
        self._idle_places = IdlePlaces(scenario, self.truth, self.judge)
        self.judge.parents = {job.id: job.after for job in scenario.jobs if job.after}
        self.judge.hosts = self.network.datagrams.names
        unleased = {w.name for w in scenario.workers if w.kind in UNLEASED}
        self.judge.has_no_lease = unleased.__contains__
        self.judge.last_drop = self.wires.last_drop
        self.callbacks = CallbackJudge(self.judge, self.truth.job)
        self.hooks = HookJudge(
            self.judge, self.truth.job, self._are_hooks_known, has_hooks=scenario.has_hooks
        )
        self.schedules = ScheduleJudge(
            scenario.schedules, self.judge, lambda: self.time.now, self.truth
        )
        packets = PacketMonitor(self.judge, self.truth.jobs)
        self.network.datagrams.taps = [self.callbacks, packets]
        self.faults = Faults(self)
        self.world = World(
            scenario=scenario,
            network=self.network,
            truth=self.truth,
            judge=self.judge,
            callbacks=self.callbacks,
            schedules=self.schedules,
            hooks=self.hooks,
            witness=self.witness,
            settled={},
            tell=self.tell,
        )
        self._task_names: dict[str, str] = {}
        self._lives: Counter[str] = Counter()
        self._is_over = False
        self._past: list[Actor] = []

    def tell(self, who: str, what: str) -> None:
        """Add to the trace; tasks of UDP clients go by the names that these gave them."""
        for job_id, name in self._task_names.items():
            what = what.replace(job_id, name)
        self.trace.append(Line(self.time.now, who, what))

    def run(self) -> SimulationResult:
        scenario, time = self.scenario, self.time
        deadline = scenario.deadline
        for name in scenario.names:
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
        scenario, name, world = self.scenario, process.name, self.world
        random = Random(f"{scenario.seed}/{name}/{process.life}/world")  # noqa: S311
        if name in scenario.dispatchers:
            return DispatcherActor(process, world, self.store_faults[name], random)
        for plan in scenario.workers:
            if plan.name == name:
                return WORKERS[plan.kind](process, world, plan, random)
        if name in scenario.udp_clients:
            return UdpClientActor(process, world)
        if name in scenario.receivers:
            return ReceiverActor(process, world)
        return ClientActor(process, world)

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
        if name not in (*self.scenario.clients, *self.scenario.udp_clients):
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

    def _written(self, before: Job | None, after: Job) -> None:
        if before is None and (known := client_of(after)) is not None:
            self._task_names[after.id] = str(known[1])
        self.judge.written(before, after, self.truth.writer)
        self.schedules.job_written(before, after)
        if after.status.is_final and (before is None or not before.status.is_final):
            self.callbacks.ended(after)
            self.hooks.ended(after)

    def _callback_written(self, before: Job | None, after: Job) -> None:
        assert before is not None
        assert after.callback is not None
        is_over = after.callback.due is None
        step = f"call {after.callback.tries}" if not is_over else "given up"
        if after.callback.delivered:
            step = "delivered"
        self.tell(self.truth.writer, f"writes {after.id}: its callback: {step}")
        self.callbacks.written(before, after)

    def _schedule_written(self, before: Schedule | None, after: Schedule) -> None:
        if what := moved(before, after):
            self.tell(self.truth.writer, what)
        self.schedules.row_written(before, after)

    def _beat(self, worker_id: str, heard: float) -> None:
        self.judge.beat_stored(worker_id, heard)

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
        self._idle_places.look(self.time.now)
        is_quiet = self.time.now >= self.scenario.quiet_from
        has_all = is_quiet and len(self.world.settled) == len(self.scenario.jobs)
        if (
            has_all
            and all(map(self.schedules.is_paused, self.scenario.schedules))
            and not self.truth.under_way()
            and not self.witness.is_busy
            and not any(map(self._is_owed, self.truth.jobs()))
            and all(map(self.hooks.is_made, self.truth.jobs()))
        ):
            self.judge.check_kept()
            self.hooks.check_all(self.truth.jobs())
            self._is_over = True
        self.time.at(self.time.now + LOOK_SECONDS, self._look)

    def _are_hooks_known(self) -> bool:
        """True if a worker with hooks has been stored for as long as it takes to look."""
        return self.truth.has_hooks_since(self.time.now + EPOCH - KNOWN_SECONDS)

    def _is_owed(self, job: Job) -> bool:
        """True if a callback must come to its end: a UDP client that began anew confirms none."""
        known = client_of(job)
        if known is not None and self._lives[self.network.datagrams.names[known[0][0]]] > 1:
            return False
        return not is_settled(job)

    def _accuse_stranded(self) -> None:
        for job in self.truth.under_way():
            healed = self.time.now - self.scenario.quiet_from
            detail = f"{job.id} is still {job.status.word}, {healed:.0f} s after all healed"
            self.judge.accuse("nothing is stranded", detail, job.id)
        for job in self.truth.jobs():
            if self._is_owed(job):
                detail = f"that of {job.id} is neither confirmed nor given up"
                self.judge.accuse("callbacks come to an end", detail, job.id)
            if not self.hooks.is_made(job):
                self.judge.accuse(RULE, f"{job.hook_job} was never made", job.id)
        for plan in self.scenario.jobs:
            if plan.id not in self.world.settled:
                detail = f"{plan.client} has not heard how {plan.id} ended"
                self.judge.accuse("clients hear of the end", detail, plan.id)
        for schedule in self.scenario.schedules:
            if not self.schedules.is_paused(schedule):
                self.judge.accuse("schedules move on", f"{schedule.name} has not caught up")
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
