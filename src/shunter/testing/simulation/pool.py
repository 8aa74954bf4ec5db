"""A worker's children in virtual time: what stands in for `worker/pool/` in a simulation.

Which runs there are, when one must end and what its outcome is worth is decided by the same
`Runs` as in a real worker. Only the children are simulated: each run takes the time that its
payload says, and completes, raises, or dies. Children go on while their parent is frozen, unless
the whole host is.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from random import Random

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.app import App
from shunter.errors import AppError
from shunter.handler.final_failure import is_final_failure
from shunter.model.final_failure import read_final_failure
from shunter.model.identity import is_reserved
from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Advance, Held, Report
from shunter.testing.simulation.processes import Process
from shunter.testing.simulation.stepped_runs import SteppedRun
from shunter.testing.simulation.witness import Run, Witness
from shunter.wire.messages import Assignment
from shunter.worker.asks import Answer, RunAsk, RunAsked
from shunter.worker.pool.escalation import Push
from shunter.worker.pool.first_runs import is_first_run
from shunter.worker.pool.job_window import waited_too_long
from shunter.worker.pool.process_pool import GIVE_BACK_AFTER_SECONDS, PoolSettings
from shunter.worker.pool.runs import Runs

PUSH_SECONDS = 0.2
WATCH_SECONDS = 0.05
DYING_SECONDS = 0.04
"""How long a child takes to die of SIGKILL at most."""

_PUSHES = tuple(Push)


class Task(Struct, frozen=True, array_like=True):
    """What a job's payload says that its runs do."""

    seconds: float = 0.1
    fails: int = 0
    """The first so many attempts raise."""
    crashes: int = 0
    """The first so many attempts kill their child."""
    ignores: int = 0
    """How many kinds of push it takes no notice of: request, SIGTERM."""
    progress: bool = False
    padding: bytes = b""
    snoozes: int = 0
    """The next so many attempts put the job off."""
    steps: int = 0
    """So many steps, each of which takes `seconds`; runs that crash do so inside one."""
    nap: float = 0.0
    """How long it sleeps after its first step."""
    told_after: float | None = None
    """After its second step it waits for a signal, which is sent so long after it was submitted."""


HOOK_TASK = Task(seconds=0.05)
"""What a call of hooks does."""


class Answered(Struct, frozen=True, array_like=True):
    """What a run returns: which run it was."""

    job_id: str
    attempt: int
    worker: str


class _Child(Struct):
    """A run under way."""

    job: Assignment
    task: Task
    run: Run
    timer: asyncio.TimerHandle
    stepped: SteppedRun | None = None


class SimulatedPool:
    """Does jobs, as `ProcessPool` does. `ticked` says what jobs of schedules do, by their type."""

    def __init__(
        self,
        process: Process,
        witness: Witness,
        random: Random,
        app: App,
        settings: PoolSettings,
        on_output: Callable[[], None],
        ticked: Mapping[str, Task],
        on_hooks: Callable[[str], None],
    ) -> None:
        self.is_host_frozen = False
        self.dying_seconds = DYING_SECONDS
        self._process = process
        self._witness = witness
        self._app = app
        self._random = random
        self._settings = settings
        self._on_output = on_output
        self._ticked = ticked
        self._on_hooks = on_hooks
        self._runs = Runs(app.handlers(), grace=settings.grace)
        self._waiting: list[int] = []
        self._children: dict[int, _Child] = {}
        self._outcomes: list[tuple[int, bytes | None, Failure | None]] = []
        self._is_announced = False
        self._is_pushing = False
        self._is_idle = asyncio.Event()
        self._deadline: float | None = None
        self._is_watched = False
        self.most_held = 0

    async def start(self) -> None:
        """Children are there at once."""

    async def stop(self, *, grace: float) -> list[Held]:
        undone = self.recall()
        if self._children and grace > 0:
            self._is_idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._is_idle.wait()
        is_killing = bool(self._children)
        undone += self._drop_all("its worker stopped")
        if is_killing and self._process.is_alive:  # it goes when they are gone
            await asyncio.sleep(self.dying_seconds)
        return undone

    @property
    def fatal(self) -> AppError | None:
        return None

    @property
    def window(self) -> int:
        return self._settings.slots

    @property
    def slots(self) -> int:
        return self._settings.slots

    @property
    def load(self) -> int:
        return len(self._runs.open)

    def give(self, jobs: Sequence[Assignment], *, begun: Container[str] | None = None) -> None:
        now = self._process.time.now
        for job in jobs:
            self._waiting.append(self._runs.add(job, now=now, begun=begun))
        self.most_held = max(self.most_held, self.load)
        self._fill()

    def end_by(self, deadline: float | None) -> None:
        """Have a watchdog kill the children then, even if their parent is frozen."""
        self._deadline = deadline
        if deadline is not None and math.isfinite(deadline) and not self._is_watched:
            self._is_watched = True
            self._process.time.ground.call_soon(self._watch)

    def held(self) -> tuple[Held, ...]:
        return tuple(self._runs.held())

    def running(self) -> int:
        return len(self._children)

    def take_output(self) -> tuple[list[Report], list[Advance]]:
        self._is_announced = False
        self._runs.take_failed()
        return self._runs.take_output()

    def take_returned(self) -> dict[str, list[Held]]:
        return {}

    def take_asks(self) -> list[RunAsked]:
        return self._runs.take_asks()

    def open_keys(self) -> set[int]:
        return set(self._runs.open)

    def answer(self, answers: Iterable[Answer]) -> None:
        for key, number, answer in answers:
            child = self._children.get(key)
            if child is not None and child.stepped is not None:
                self._later(key, 0.001, child.stepped.answered, number, answer)

    def cancel(self, jobs: Sequence[Held]) -> None:
        for key in sorted(self._runs.cancel(jobs)):
            if key in self._waiting:
                self._waiting.remove(key)
                self._runs.drop_unstarted(key, now=self._process.time.now)
        self._push()
        self._announce()

    def recall(self) -> list[Held]:
        keys, self._waiting = self._waiting, []
        return self._runs.forget(keys)

    def overdue(self, now: float) -> list[Held]:
        waiting = [(key, self._runs.open[key][1]) for key in self._waiting]
        keys = waited_too_long(
            waiting, now=self._process.time.now, give_back_after=GIVE_BACK_AFTER_SECONDS
        )
        for key in keys:
            self._waiting.remove(key)
        return self._runs.forget(keys)

    def destroy_jobs(self) -> list[Held]:
        dropped = self._drop_all("its worker had to drop all its jobs")
        self.take_output()
        return dropped

    # ---- what the world does to it

    def died(self) -> None:
        """The worker was killed: the system kills its children."""
        for child in self._children.values():
            child.timer.cancel()
            self._end(child, "killed with its worker")
        self._children.clear()

    def _watch(self) -> None:
        """The watchdog is a process of its own: it goes on while the parent is frozen."""
        time, clock = self._process.time, self._process.environment.lease_clock
        self._is_watched = False
        if self._deadline is None or not math.isfinite(self._deadline):
            return
        left = self._deadline - clock()
        if left <= 0 and not self.is_host_frozen:
            for key in list(self._children):
                self._children[key].timer.cancel()
                self._finish(key, None, Failure(ErrorKind.LOST, "killed by the watchdog"))
            return
        self._is_watched = True
        time.at(time.now + max(left, WATCH_SECONDS), self._watch)

    # ---- the parent's side

    def _drop_all(self, how: str) -> list[Held]:
        self._waiting.clear()
        for child in self._children.values():
            child.timer.cancel()
            child.run.is_dying = True
            dies_in = self._random.random() * self.dying_seconds
            self._process.time.at(self._process.time.now + dies_in, self._end, child, how)
        self._children.clear()
        self._outcomes.clear()
        return self._runs.forget(list(self._runs.open))

    def _read(self) -> None:
        """Take in what children have said."""
        outcomes, self._outcomes = self._outcomes, []
        for key, result, failure in outcomes:
            if failure is not None and failure.kind is ErrorKind.PARKED:
                self._runs.park(key, result or b"", failure.message, "", None)
            elif failure is not None and failure.kind is ErrorKind.LOST:
                self._runs.die(key, failure.message, "")
            else:
                self._runs.end(key, result=result, failure=failure)
        self._announce()
        if not self._children:
            self._is_idle.set()

    def _advance(self, key: int) -> None:
        self._runs.advance(key, 1.0, 2.0)
        self._announce()

    def _announce(self) -> None:
        runs = self._runs
        if (runs.reports or runs.advances or runs.asks) and not self._is_announced:
            self._is_announced = True
            self._on_output()

    def _expire(self, key: int) -> None:
        if child := self._children.get(key):
            now = self._process.time.now
            self._runs.expire([(key, child.run.started - 1e-6)], now=now)
            self._push()

    def _push(self) -> None:
        if self._is_pushing:
            return
        now = self._process.time.now
        for key, push in self._runs.pushes(list(self._children), now=now):
            child = self._children[key]
            if _PUSHES.index(push) >= child.task.ignores:
                child.timer.cancel()
                kind = ErrorKind.LOST if push is Push.SIGKILL else ErrorKind.EXCEPTION
                failure = Failure(kind, f"ended by {push}")
                self._process.time.ground.call_soon(self._finish, key, None, failure)
        if self._runs.stopping and self._children:
            self._is_pushing = True
            self._process.loop.call_later(PUSH_SECONDS, self._push_again)

    def _push_again(self) -> None:
        self._is_pushing = False
        self._push()

    # ---- the children's side, which goes on while the parent is frozen

    def _fill(self) -> None:
        """Idle children take what waits."""
        time, loop = self._process.time, self._process.loop
        while self._waiting and len(self._children) < self._settings.slots:
            key = self._waiting.pop(0)
            job = self._runs.open[key][0]
            task = self._task_of(job)
            run = self._witness.started(job.job_id, job.attempt, self._process.name, now=time.now)
            timer = time.at(time.now + task.seconds, self._done, key)
            child = self._children[key] = _Child(job, task, run, timer)
            if task.steps:
                timer.cancel()
                child.stepped = self._stepped(key, child)
                self._later(key, 0.0, child.stepped.begin)
            if job.timeout is not None:
                loop.call_later(job.timeout, self._expire, key)
            if task.progress:
                loop.call_later(task.seconds / 2, self._advance, key)

    def _task_of(self, job: Assignment) -> Task:
        if is_reserved(job.type):
            self._on_hooks(read_final_failure(job.payload).job_id)
            return HOOK_TASK
        return self._ticked.get(job.type) or msgspec.msgpack.decode(job.payload, type=Task)

    def _stepped(self, key: int, child: _Child) -> SteppedRun:
        job, task = child.job, child.task

        def ask(asked: RunAsk) -> None:
            self._process.loop.call_soon(self._ask, key, asked)

        def ended(result: bytes | None, failure: Failure | None) -> None:
            if failure is None:
                answer = Answered(job.job_id, job.attempt, self._process.name)
                result = msgspec.msgpack.encode(answer)
            self._finish(key, result, failure)

        return SteppedRun(
            self._app,
            job,
            child.run,
            self._witness,
            steps=task.steps,
            seconds=task.seconds,
            nap=task.nap,
            waits=task.told_after is not None,
            dies=job.attempt <= task.crashes,
            is_new=is_first_run(key),
            later=partial(self._later, key),
            ask=ask,
            on_end=ended,
        )

    def _ask(self, key: int, asked: RunAsk) -> None:
        """Hear what a child asks."""
        if self._runs.ask(key, asked):
            self._announce()

    def _later(self, key: int, seconds: float, act: Callable[..., None], *what: object) -> None:
        """Do something in a child after some seconds, if it lives and its host is not frozen."""
        time, child = self._process.time, self._children.get(key)
        if child is None:
            return

        def now() -> None:
            if self._children.get(key) is not child:
                return
            if self.is_host_frozen:
                child.timer = time.at(time.now + 0.25, now)
            else:
                act(*what)

        child.timer = time.at(time.now + seconds, now)

    def _done(self, key: int) -> None:
        """A run has come to its own end."""
        child = self._children.get(key)
        if child is None:
            return
        if self.is_host_frozen:
            time = self._process.time
            child.timer = time.at(time.now + 0.25, self._done, key)
            return
        job, task = child.job, child.task
        if job.attempt <= task.crashes:
            self._finish(key, None, Failure(ErrorKind.LOST, "its process died"))
        elif job.attempt <= task.crashes + task.fails:
            failure = Failure(ErrorKind.EXCEPTION, "it raised")
            is_final = is_final_failure(failure, job.retry, None, job.failures)
            if is_final and self._app.final_failure_hooks:
                self._on_hooks(job.job_id)
                failure = replace(failure, is_told=True)
            self._finish(key, None, failure)
        elif job.attempt <= task.crashes + task.fails + task.snoozes:
            self._finish(key, None, Failure(ErrorKind.SNOOZED, "it put it off", wait=0.5))
        else:
            answer = Answered(job.job_id, job.attempt, self._process.name)
            self._finish(key, msgspec.msgpack.encode(answer), None)

    def _finish(self, key: int, result: bytes | None, failure: Failure | None) -> None:
        child = self._children.pop(key, None)
        if child is None:
            return
        self._end(child, "completed" if failure is None else failure.message)
        self._outcomes.append((key, result, failure))
        self._process.loop.call_soon(self._read)
        self._fill()

    def _end(self, child: _Child, how: str) -> None:
        self._witness.ended(child.run, how, now=self._process.time.now)
