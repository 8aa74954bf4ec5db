"""Calculators: told to perform tasks, believed when they complete them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from shunter.dispatch.arrivals import UnattributedResult, WorkerRegistered
from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.udp.exchange import Exchange, PendingRequest
from shunter.model.document import NIL
from shunter.model.identity import hook_name, is_reserved
from shunter.model.job import DEFAULT_TYPE, ErrorKind, Failure, Job
from shunter.model.job_log import end_of, shown_log
from shunter.model.journal import (
    LIVE_LOG,
    EntryKind,
    Keep,
    LiveLog,
    encode_live_log,
    live_log_fault,
)
from shunter.model.report import Held, Report
from shunter.model.retry import NO_RETRY, Retry
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.wire.udp import job_names, packets
from shunter.wire.udp.calculators import (
    Calculators,
    Done,
    Effect,
    Forgotten,
    Joined,
    Left,
    NotAsked,
    NotTaken,
    TaskId,
)
from shunter.wire.udp.methods import CompletedTask, Heartbeat, Packed, PerformTask, TaskLog
from shunter.wire.udp.packets import AnswerError, Command
from shunter.wire.udp.peers import Peer

NOT_CONFIRMED = "its calculator did not confirm it"
MOST_UNCONFIRMED = 10_000
MOST_SEEN_LOGS = 10_000
LEAST_BETWEEN_LOGS = 0.4
"""A calculator is heard on its log this often, in seconds; what comes sooner is dropped."""

FORGOTTEN = "its calculator says that it is ready, so it does not have it"


class _SeenLog(Struct, frozen=True):
    """How much of which task's log a calculator has told, and when."""

    job: Held
    end: int
    at: float


class UdpWorkers:
    """All who perform tasks. A WorkerLink."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        exchange: Exchange,
        *,
        confirm_timeout: float,
        heartbeat_timeout: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._exchange = exchange
        self._confirm_timeout = confirm_timeout
        self._calculators = Calculators(
            heartbeat_timeout=heartbeat_timeout, default_handlers=(DEFAULT_TYPE,)
        )
        self._performing: dict[Peer, int] = {}
        self._introduced: dict[str, tuple[Handler, ...]] = {}  # whom the dispatcher knows, as what
        self._unconfirmed: dict[int, Callable[[], None]] = {}
        self._logs: dict[Peer, _SeenLog] = {}  # the newest that each has told
        self._following: dict[type[Effect], Callable[[Any], None]] = {
            Joined: self._joined,
            Left: self._left,
            NotTaken: self._not_taken,
            Forgotten: self._forgotten,
        }

    def tick(self) -> None:
        """Drop calculators that were silent for too long."""
        self._follow(self._calculators.tick(now=self._exchange.now()))

    def ids(self) -> list[str]:
        return [job_names.worker_id(address) for address in self._calculators.present()]

    # ---- what they say

    def beat(self, params: Heartbeat, peer: Peer, *, is_request: bool) -> None:
        self._follow(
            self._calculators.heartbeat(
                peer,
                is_ready=params.status == "ready",
                handlers=_offered(params),
                now=self._exchange.now(),
                is_request=is_request,
            )
        )

    def complete(self, params: CompletedTask, command: Command, peer: Peer) -> None:
        """Pass a completion on; it is confirmed once it is committed."""
        number = self._exchange.number()
        self._unconfirmed[number] = partial(self._confirm_completion, command, peer)
        if len(self._unconfirmed) > MOST_UNCONFIRMED:
            del self._unconfirmed[next(iter(self._unconfirmed))]  # it is sent again
        result, error = _outcome(params)
        retry = None if params.retry is None else Retry(**asdict(params.retry))
        worker_id = job_names.worker_id(peer)
        task = self._calculators.task_of(peer)
        first: Effect = NotAsked(peer, params.task_id)
        others: Sequence[Effect] = ()
        if task is None or params.attempt in (None, task.job.attempt):
            now = self._exchange.now()
            first, *others = self._calculators.completed(peer, params.task_id, now=now)
        if isinstance(first, Done):
            job = first.job
            self._stop_asking(peer)
            report = Report(
                job.job_id,
                job.attempt,
                result=result,
                error=error,
                log=shown_log(LiveLog(params.start or 0, params.log or "")),
                retry=retry,
                waited=params.waited,
                ran=params.ran,
            )
            self._dispatcher.report(worker_id, [report], batch=number)
        else:
            may_be_of = partial(_may_be_of, params)
            unattributed = UnattributedResult(worker_id, result, error, may_be_of, retry)
            self._dispatcher.report_unattributed(unattributed)
            self._dispatcher.submit([], lambda _: self._confirm(number))
        self._follow(others)

    def tell_log(self, params: TaskLog, peer: Peer) -> None:
        """Have kept what a task has printed, the newest of it, and not too often."""
        task, now = self._calculators.task_of(peer), self._exchange.now()
        if task is None or (params.task_id, params.attempt) != (task.task_id, task.job.attempt):
            return
        job_id, attempt = task.job.job_id, task.job.attempt
        log = LiveLog(params.start or 0, params.log)
        packed = encode_live_log(log)
        seen = self._logs.get(peer, _SeenLog(task.job, 0, -math.inf))
        is_old = seen.job == task.job and (
            end_of(log) <= seen.end or now - seen.at < LEAST_BETWEEN_LOGS
        )
        is_lost = bool(self._dispatcher.store_health.fault())  # nothing is to pile up for this
        if is_old or is_lost or live_log_fault(LIVE_LOG, packed):
            return
        self._logs[peer] = _SeenLog(task.job, end_of(log), now)
        if len(self._logs) > MOST_SEEN_LOGS:
            del self._logs[next(iter(self._logs))]
        keep = Keep(job_id, attempt, EntryKind.LOG, LIVE_LOG, packed)
        self._dispatcher.keep([keep.entry(now=now)], lambda _: None)

    # ---- WorkerLink

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._offer(worker_id, job)

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None:
        """A calculator can't be told to stop; it gets nothing until it has spoken."""
        address = job_names.calculator_of(worker_id)
        for job in jobs:
            self._calculators.taken_away(address, job)
            self._stop_asking(address)

    def send_taken(self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False) -> None:
        for number in batches:
            self._confirm(number)

    def send_note(self, worker_id: str, text: str) -> None:
        """There is no room for notes, nor for what they are about."""

    def send_pong(self, worker_id: str, beat: int) -> None:
        """Heartbeats want no answer."""

    def _offer(self, worker_id: str, job: Job) -> None:
        address, held = job_names.calculator_of(worker_id), Held(job.id, job.attempt)
        number, task_id = self._exchange.number(), job_names.task_id_of(job)
        packet = packets.request(_task(job, task_id), number)
        size, most = (
            self._exchange.endpoint.size_of(packet, address),
            self._exchange.max_packet_bytes,
        )
        if size > most:
            message = (
                f"as a packet it has {size:,} bytes, and a calculator takes {most:,} "
                "(udp.max_packet_bytes); send less, or do this type with another kind of worker"
            )
            error = Failure(ErrorKind.REFUSED, message)
            self._dispatcher.report(worker_id, [Report(job.id, job.attempt, error=error)])
        elif self._calculators.offered(address, held, task_id):
            self._performing[address] = number
            pending = PendingRequest(
                lambda error: self._answered(address, held, error),
                lambda: self._follow(self._calculators.unconfirmed(address, held)),
            )
            self._exchange.endpoint.ask(
                address, number, packet, pending, give_up_after=self._confirm_timeout
            )
        else:
            # It said busy before the dispatcher knew that it was ready.
            self._dispatcher.give_back(worker_id, [held], "its calculator is not free any more")
            self._leave(worker_id)

    def _answered(self, address: Peer, held: Held, error: AnswerError | None) -> None:
        if error is None:
            self._calculators.confirmed(address, held, now=self._exchange.now())
        else:
            self._follow(self._calculators.unconfirmed(address, held, is_refused=True))

    def _stop_asking(self, address: Peer) -> None:
        if (number := self._performing.pop(address, None)) is not None:
            self._exchange.endpoint.stop_asking(address, number)

    def _confirm(self, number: int) -> None:
        if (confirm := self._unconfirmed.pop(number, None)) is not None:
            confirm()

    def _confirm_completion(self, command: Command, peer: Peer) -> None:
        self._exchange.endpoint.confirm(command, peer)
        self._calculators.completion_confirmed(peer)

    # ---- what follows from the register

    def _follow(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._following[type(effect)](effect)

    def _left(self, left: Left) -> None:
        self._leave(job_names.worker_id(left.address))

    def _leave(self, worker_id: str) -> None:
        self._introduced.pop(worker_id, None)
        self._dispatcher.leave(worker_id)

    def _not_taken(self, effect: NotTaken) -> None:
        self._dispatcher.give_back(
            job_names.worker_id(effect.address),
            [effect.job],
            NOT_CONFIRMED,
            may_have_begun=not effect.is_refused,
        )

    def _forgotten(self, effect: Forgotten) -> None:
        worker_id = job_names.worker_id(effect.address)
        self._dispatcher.give_back(worker_id, [effect.job], FORGOTTEN, blame=True)

    def _joined(self, joined: Joined) -> None:
        worker_id = job_names.worker_id(joined.address)
        wanted = _handlers(joined.handlers)
        if self._introduced.get(worker_id) == wanted:
            self._dispatcher.resize(worker_id, 1)
            return
        self._introduced[worker_id] = wanted
        now = self._exchange.now()
        worker = Worker(
            id=worker_id,
            kind=WorkerKind.UDP,
            hostname=joined.address[0],
            port=joined.address[1],
            handlers=wanted,
            max_jobs=1,
            registered=now,
            last_pinged=now,
        )
        self._dispatcher.introduce(WorkerRegistered(worker, self, frozenset(), 1, None))


@lru_cache
def _handlers(types: tuple[str, ...]) -> tuple[Handler, ...]:
    """Return what a calculator does; kept, since all calculators of a worker do the same."""
    return tuple(
        Handler(name, has_hooks=hook_name(name) in types) for name in types if not is_reserved(name)
    )


def _offered(params: Heartbeat) -> tuple[str, ...] | None:
    """Return the types that a calculator does, with those of the jobs that call its hooks."""
    if not params.has_hooks:
        return params.handlers
    types = params.handlers or (DEFAULT_TYPE,)
    return (*types, *map(hook_name, types))


def _task(job: Job, task_id: TaskId) -> PerformTask:
    """Write a task as the seed has it where there is nothing more to say."""
    return PerformTask(
        task_id=task_id,
        type=None if job.type == DEFAULT_TYPE else job.type,
        payload=None if job.payload in (None, NIL) else Packed(job.payload or b""),
        attempt=job.attempt,
        timeout=job.execution.timeout,
        job_id=job.id,
        scheduled=job.scheduled,
        may_retry=True if job.failures < (job.retry or NO_RETRY).limit else None,
    )


def _may_be_of(params: CompletedTask, job: Job) -> bool:
    """True if a calculator that says this may mean the job, and this run of it."""
    is_named = params.task_id == job_names.task_id_of(job)
    return is_named and params.attempt in (None, job.attempt)


def _outcome(params: CompletedTask) -> tuple[bytes | None, Failure | None]:
    if params.error is not None and params.wait is not None:
        return None, Failure(ErrorKind.SNOOZED, params.error, wait=params.wait)
    if params.error is not None:
        return None, Failure(
            ErrorKind.EXCEPTION,
            params.error,
            is_final=bool(params.is_final),
            is_told=bool(params.is_told),
        )
    return bytes(params.result) if params.result is not None else NIL, None
