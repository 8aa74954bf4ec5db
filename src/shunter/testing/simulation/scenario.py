"""What happens in one run: who is there, what is submitted, and what goes wrong when.

A scenario is plain data. A seed makes one (`generator.py`); shrinking takes parts of it away. So
what a failing run needs, and nothing else, can be printed, kept and run again.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from shunter.model.schedule import DEFAULT_CATCH_UP_SECONDS, Overlap
from shunter.model.timing import Timing
from shunter.model.worker import WorkerKind
from shunter.testing.simulation.pool import Task

STRANDED_SECONDS = 60.0
"""A job that has not ended so long after everything has healed, its own runs aside, is stranded."""


TASK_TIMEOUT_SECONDS = 25.0
"""What workers that have no lease get for a job, before it goes to another."""

CALLBACK_SECONDS = 120.0
"""How long it takes at most until a callback has been confirmed or given up."""


SCHEDULE_SECONDS = 60.0
"""How long it takes at most, besides, until a schedule has caught up: clocks may be late."""


class FaultKind(StrEnum):
    """What can go wrong. `target` and `other` are processes; `seconds` is how long it lasts."""

    KILL = "kill"
    """SIGKILL after `amount` more steps of the process; it is started again later."""
    TERMINATE = "terminate"
    """SIGTERM: a worker resigns, a dispatcher finishes its turn; it is started again later."""
    FREEZE = "freeze"
    """The whole host stands still and then goes on."""
    FREEZE_PARENT = "freeze parent"
    """A worker's parent is stopped, its children run on."""
    SLOW_DEATH = "slow death"
    """A worker's children take up to `amount` seconds to die of SIGKILL, from the start."""
    CUT = "cut"
    """Nothing gets from `target` to `other`; what is on its way is stuck."""
    ISOLATE = "isolate"
    """Nothing gets to or from a process."""
    LATE_PACKETS = "late packets"
    """What was on its way on a connection that was closed while it was cut arrives after all."""
    RESET = "reset"
    """The connections between two processes break, and what is on its way is lost."""
    DELAY = "delay"
    """Everything between two processes takes `amount` seconds longer."""
    SLOW = "slow"
    """Only `amount` bytes a second get from `target` to `other`."""
    PACKET_LOSS = "packet loss"
    """This part of the datagrams between two processes is lost: `amount`, from 0 to 1."""
    DUPLICATION = "duplication"
    """This part of the datagrams arrives twice."""
    REORDERING = "reordering"
    """This part of the datagrams is late, so that others overtake it."""
    HANG = "hang"
    """A process takes HTTP requests, and does nothing with them."""
    REFUSE = "refuse"
    """A process answers HTTP requests with the status `amount`; with 0 nobody can connect."""
    LOST_ANSWERS = "lost answers"
    """HTTP requests of `other` to `target` are carried out, then the connection breaks."""
    STORE_STALL = "store stall"
    """The store does not answer a dispatcher, and then does."""
    STORE_LONG_STALL = "store long stall"
    """As above, for longer than a lease."""
    STORE_ERROR = "store error"
    """The store refuses all that a dispatcher asks, and does nothing."""
    STORE_LOST_ANSWER = "store lost answer"
    """The store writes what a dispatcher asks for, which hears of an error."""
    STORE_SLOW = "store slow"
    """Each answer of the store takes `amount` seconds longer."""
    CLOCK_OFF = "clock off"
    """A dispatcher's clock is `amount` seconds off from the start, within what the docs allow."""
    CLOCK_JUMP = "clock jump"
    """A process's clock is set by `amount` seconds."""


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that goes wrong."""

    kind: FaultKind
    at: float
    target: str
    other: str = ""
    seconds: float = 0.0
    amount: float = 0.0

    @property
    def over_at(self) -> float:
        return self.at + self.seconds


class PlannedJob(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One submission. Its client repeats it until there is a receipt, and waits for the end."""

    id: str
    at: float
    client: str
    task: Task
    type: str = "a"
    timeout: float | None = None
    retries: int = 0
    delay: float | None = None
    unique_key: str | None = None
    cancel_after: float | None = None
    at_most_once: bool = False
    expires_in: float | None = None
    is_debounced: bool = False
    """Submitted with a key that postpones the job which has it."""
    callback: str = ""
    """The receiver that is to be called back."""
    tenant: str = ""
    """Whose job it is, where there is a limit."""
    after: tuple[str, ...] = ()
    when: str = ""
    """The jobs of its run that it waits for, and on which outcomes of theirs it runs."""


class PlannedSchedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule, and what its jobs do. They are of a type with its name, and no others are.

    It is put by a client at `at`, and `is_declared` says that workers' apps declare it instead. A
    client pauses it when all has healed and it has caught up.
    """

    name: str
    client: str
    timing: Timing
    task: Task
    at: float = 0.0
    overlap: Overlap = Overlap.SKIP
    catch_up: float = DEFAULT_CATCH_UP_SECONDS
    jitter: float = 0.0
    is_declared: bool = False


class PlannedWorker(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker, and the dispatchers that it serves; over UDP, the first of them."""

    name: str
    slots: int
    dispatchers: tuple[str, ...]
    kind: WorkerKind = WorkerKind.FULL


class Scenario(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run, from beginning to end."""

    seed: int
    dispatchers: tuple[str, ...]
    workers: tuple[PlannedWorker, ...]
    clients: tuple[str, ...]
    jobs: tuple[PlannedJob, ...]
    udp_clients: tuple[str, ...] = ()
    receivers: tuple[str, ...] = ()
    """Who takes callbacks."""
    faults: tuple[Fault, ...] = ()
    cooldown: int = 0
    """Milliseconds between a claim and the start that follows from it."""
    limit: int = 0
    """How many jobs of one tenant may run at once, and twice as many in all; 0 is no limit."""
    schedules: tuple[PlannedSchedule, ...] = ()
    is_workflow: bool = False
    """True if each client submits its jobs as one graph."""
    has_hooks: bool = False
    """True if the app of all workers wants to be told of final failures."""

    @property
    def deadline(self) -> float:
        """When every job must have ended: a while after the last of its runs could have begun."""
        runs = (
            (3 + job.task.crashes + job.task.fails) * job.task.seconds * max(1, job.task.steps)
            + job.task.nap
            for job in self.jobs
        )
        ticked = (3 * schedule.task.seconds for schedule in self.schedules)
        patience = STRANDED_SECONDS + max((*runs, *ticked), default=0.0)
        if self.schedules:
            patience += SCHEDULE_SECONDS
        if self.udp_clients or self.receivers:
            patience += CALLBACK_SECONDS
        if any(worker.kind is not WorkerKind.FULL for worker in self.workers):
            patience += 2 * TASK_TIMEOUT_SECONDS
        return self.quiet_from + patience

    @property
    def names(self) -> tuple[str, ...]:
        """All processes, in the order in which they start."""
        workers = tuple(worker.name for worker in self.workers)
        return (*self.dispatchers, *workers, *self.clients, *self.udp_clients, *self.receivers)

    @property
    def quiet_from(self) -> float:
        """When nothing more is submitted and nothing more goes wrong."""
        submitted = (
            job.at + (job.delay or 0.0) + (job.cancel_after or 0.0) + (job.task.told_after or 0.0)
            for job in self.jobs
        )
        put = (schedule.at for schedule in self.schedules)
        return max((*submitted, *put, *(fault.over_at for fault in self.faults)), default=0.0)
