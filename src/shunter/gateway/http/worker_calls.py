"""Workers that are called over HTTP: jobs handed to them, health asked, jobs verified.

A shell: when to ask and what follows is decided in `model/health.py`, what becomes of jobs by the
dispatcher. Every dispatcher calls every HTTP worker; who checks one is settled in the store.
Spec: docs/spec/http-workers.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
import structlog
from msgspec.structs import replace

from shunter.dispatch import sweep
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.registry import Decision, change_workers
from shunter.dispatch.rules import UNSENT_BYTES
from shunter.dispatch.verdict import is_run_of
from shunter.errors import StoreError
from shunter.gateway.key_list import KeyList
from shunter.model import health
from shunter.model.allowed_hosts import AllowedHosts
from shunter.model.health import HealthRules
from shunter.model.job import Job
from shunter.model.report import Held
from shunter.model.run_secrets import RunSecrets
from shunter.model.watch import Watch
from shunter.model.worker import Worker
from shunter.net.environment import REAL, Environment
from shunter.net.http_calls import Answer, CallFailed
from shunter.net.tls import CallerFiles
from shunter.net.web.bearer import bearing
from shunter.net.web.bodies import aside
from shunter.wire.documents import posted_job

CALL_SECONDS = 5.0
"""How long a worker may take to answer."""

AGAIN_SECONDS = 1.0
"""How long a full worker is left alone, and how soon a call that failed is made again."""

GATHER_SECONDS = 0.05
"""Outcomes of checks that come in within this time are written together."""

CALLS_AT_ONCE = 512
CHECKS_AT_ONCE = 500
"""How many workers one sweep takes on to check; the next one comes a second later."""

_WATCHED = ("last_pinged", "verified")

FULL = (HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)


class HttpWorkers:
    """All HTTP workers, as one dispatcher speaks with them. A WorkerLink.

    `hosts` are those where workers may be: nobody else is called.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        rules: HealthRules,
        *,
        run_secrets: RunSecrets,
        hosts: AllowedHosts,
        keys: KeyList,
        tls: CallerFiles | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._keys = keys
        self._dispatcher = dispatcher
        self._rules = rules
        self._run_secrets = run_secrets
        self._log = structlog.get_logger("shunter.dispatcher")
        self._caller = environment.caller(at_once=CALLS_AT_ONCE, may_call=hosts.may_call, tls=tls)
        self.hosts = hosts
        self._unsent_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._offered: set[Held] = set()
        self._stopping: set[Held] = set()
        self._probed: set[str] = set()
        self._outcomes: dict[str, Decision] = {}
        self._times = Watch()  # of health checks and verifications, as others wrote them
        self._runs = Watch()  # of other dispatchers, on workers that we verify
        self._records: dict[str, Worker] = {}  # those that may be given jobs, as last seen

    async def close(self) -> None:
        """Leave calls where they are: what they were about, the next sweep of anybody finds."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:  # of nothing, `gather` would make an event loop where none runs
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._caller.close()

    # ---- WorkerLink

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            held = Held(job.id, job.attempt)
            self._offered.add(held)
            self._spawn(self._offer(worker_id, job, held))

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None:
        worker = self._worker(worker_id)
        for held in jobs:
            if worker is not None and held not in self._stopping:
                self._stopping.add(held)
                self._spawn(self._stop(worker, held))

    def send_taken(self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False) -> None:
        """Reports that come by HTTP are answered by their own response."""

    def send_note(self, worker_id: str, text: str) -> None:
        """There is no room for notes; a worker that declares schedules is told in the answer."""

    def send_pong(self, worker_id: str, beat: int) -> None:
        """HTTP workers have no heartbeat of their own."""

    # ---- jobs

    async def _offer(self, worker_id: str, job: Job, held: Held) -> None:
        worker = self._worker(worker_id)
        try:
            if worker is None:
                raise CallFailed("its worker left before it could be sent", was_sent=False)
            size = len(job.payload or b"")
            with self._unsent(size):
                secret = self._run_secrets.of(job.id, job.attempt)
                body = await aside(size, lambda: msgspec.json.encode(posted_job(job, secret)))
                answer = await self._call("POST", worker, "/jobs/", body)
        except CallFailed as error:
            self._offered.discard(held)
            if error.was_sent:
                self._spawn(self._verify(worker_id, held))
            else:
                self._dispatcher.give_back(worker_id, [held], str(error))
                self._shut(worker_id)
            return
        self._offered.discard(held)
        if answer.is_success:
            return
        if answer.status == HTTPStatus.UNAUTHORIZED:
            reason = f"worker {worker_id} does not know us: it must register again"
            self._dispatcher.give_back(worker_id, [held], reason)
            self._leave_alone(worker_id)
        elif answer.status in FULL:
            reason = f"worker {worker_id} is full: {_said(answer)}"
            self._dispatcher.give_back(worker_id, [held], reason)
            self._leave_alone(worker_id)
        else:
            reason = f"worker {worker_id} did not take it: {_said(answer)}"
            self._dispatcher.give_back(worker_id, [held], reason, blame=True)
            self._leave_alone(worker_id)

    @contextmanager
    def _unsent(self, size: int) -> Iterator[None]:
        """Count what is being sent, and say when that is too much for more."""
        self._count_unsent(size)
        try:
            yield
        finally:
            self._count_unsent(-size)

    def _count_unsent(self, size: int) -> None:
        was_clogged = self._unsent_bytes >= UNSENT_BYTES
        self._unsent_bytes += size
        is_clogged = self._unsent_bytes >= UNSENT_BYTES
        if is_clogged != was_clogged:
            self._dispatcher.clog("http", is_clogged)

    async def _stop(self, worker: Worker, held: Held) -> None:
        """Have a run stopped, however often it takes, as long as the worker is there."""
        try:
            while True:
                try:
                    current = self._worker(worker.id) or worker
                    answer = await self._call("DELETE", current, _path(held))
                except CallFailed:
                    pass
                else:
                    if answer.status == HTTPStatus.ACCEPTED:
                        return
                    if answer.is_success or answer.status == HTTPStatus.NOT_FOUND:
                        await self._not_there(worker.id, held, "its worker was told to stop it")
                        return
                if self._worker(worker.id) is None:
                    return
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._stopping.discard(held)

    async def _verify(self, worker_id: str, held: Held) -> None:
        """Ask a worker whether it works on a job, and believe a no when it says so twice."""
        for pause in (0.0, AGAIN_SECONDS):
            await asyncio.sleep(pause)
            worker = self._worker(worker_id)
            if worker is None:
                return
            try:
                answer = await self._call("GET", worker, _path(held))
            except CallFailed:
                return
            if answer.status != HTTPStatus.NOT_FOUND:
                return
        await self._not_there(
            worker_id, held, f"worker {worker_id} does not know of it", blame=True
        )

    async def _not_there(
        self, worker_id: str, held: Held, reason: str, *, blame: bool = False
    ) -> None:
        """Take a run back, unless its report has come meanwhile."""
        (job,) = await self._dispatcher.store.get([held.job_id])
        if is_run_of(job, worker_id, held):
            self._dispatcher.give_back(worker_id, [held], reason, blame=blame, may_have_begun=True)

    # ---- workers

    async def sweep(self, workers: Sequence[Worker]) -> None:
        """Look at all workers as the store lists them: who is to be checked, who has gone."""
        now = self._dispatcher.now()
        shared = self._note(workers)
        await self._expel(shared, now=now)
        self._runs.keep_only({job_id for worker in shared for job_id in worker.jobs})
        gone = [worker for worker in shared if worker.jobs and worker.is_gone]
        if gone:
            await self.take_back(gone)
        self._times.keep_only({f"{kind} {w.id}" for w in shared for kind in _WATCHED})
        due = [
            self._asked(worker, local, now=now)
            for worker in shared
            if health.is_due(local := self._in_our_time(worker, now=now), self._rules, now=now)
        ]
        to_verify = []
        for worker in await self._taken_on(due):
            if worker.last_pinged == now:
                self._spawn(self._check(worker))
            if worker.verified == now:
                to_verify.append(worker.id)
        if to_verify:
            await self._verify_jobs(to_verify)

    async def _expel(self, workers: Sequence[Worker], *, now: float) -> None:
        """Have no more to do with workers whose keys count no more, or which never showed one.

        They are told to stop, and the next sweep puts what they had back into the queue.
        """
        ring = self._keys.ring
        unwelcome = [
            worker
            for worker in workers
            if self._keys.is_on and not worker.is_resigned and not health.is_welcome(worker, ring)
        ]
        if not unwelcome:
            return
        error = "it has shown no key that counts; make one (`shunter key new`), and start it anew"

        def resigned(known: Worker) -> Worker | None:
            is_welcome = health.is_welcome(known, ring)  # it may have come with another key
            return None if is_welcome else health.resigned(known, now=now, error=error)

        decisions = {worker.id: _if_there(resigned) for worker in unwelcome}
        expelled = await change_workers(self._dispatcher.store, decisions)
        for job in await self._dispatcher.store.held_by([worker.id for worker in expelled]):
            assert job.execution.worker_id is not None
            self.send_cancels(job.execution.worker_id, [Held(job.id, job.attempt)])
        for worker in expelled:
            self._dispatcher.leave(worker.id)
            self._records.pop(worker.id, None)
            self._log.warning("worker has no key that counts", action="expel", worker=worker.id)

    async def survey(self) -> None:
        """Look at all workers now: one has just come."""
        self._note(await sweep.survey(self._dispatcher, self))

    def _note(self, workers: Sequence[Worker]) -> list[Worker]:
        """Remember where workers are; return all that are called over HTTP."""
        shared = [worker for worker in workers if worker.kind.traits.is_shared]
        self._records = {worker.id: worker for worker in shared if not worker.is_gone}
        return shared

    async def take_back(self, workers: Sequence[Worker]) -> None:
        """Put the jobs of workers that resigned or died back into the queue."""
        reasons = {
            worker.id: f"worker {worker.id} is dead: {worker.last_error}"
            if worker.is_dead
            else f"worker {worker.id} resigned"
            for worker in workers
        }
        died = {worker.id for worker in workers if worker.is_dead}
        for job in await self._dispatcher.store.held_by(list(reasons)):
            worker_id = job.execution.worker_id
            assert worker_id is not None
            self._dispatcher.give_back(
                worker_id,
                [Held(job.id, job.attempt)],
                reasons[worker_id],
                blame=worker_id in died,
                may_have_begun=True,
            )

    def check(self, worker: Worker) -> None:
        """Ask a worker that has just come whether it is there."""
        self._spawn(self._check(worker))

    def _in_our_time(self, worker: Worker, *, now: float) -> Worker:
        """Return the record with the times at which we first saw what others wrote."""
        times = {}
        for kind in _WATCHED:
            if written := getattr(worker, kind):  # 0 where that never happened
                seen_for = self._times.unchanged_for(f"{kind} {worker.id}", written, now=now)
                times[kind] = now - seen_for
        return replace(worker, **times)

    def _asked(self, worker: Worker, local: Worker, *, now: float) -> Worker:
        """Return the record as it is once we have taken it on to ask what is due."""
        taken = health.taken_on(local, self._rules, now=now)
        times = {
            kind: now if getattr(taken, kind) == now else getattr(worker, kind) for kind in _WATCHED
        }
        return replace(taken, **times)

    async def _taken_on(self, wanted: Sequence[Worker]) -> list[Worker]:
        """Write that we are the one who asks; return the workers that are ours to ask."""
        some = wanted[:CHECKS_AT_ONCE]
        if not some:
            return []
        answers = await self._dispatcher.store.swap_workers(some)
        return [worker for worker, is_ours in zip(some, answers, strict=True) if is_ours]

    async def _verify_jobs(self, worker_ids: Sequence[str]) -> None:
        now = self._dispatcher.now()
        for job in await self._dispatcher.store.held_by(worker_ids):
            held = Held(job.id, job.attempt)
            assert job.execution.worker_id is not None
            is_ours = job.dispatcher is not None and job.dispatcher.id == self._dispatcher.id
            seen_for = self._runs.unchanged_for(job.id, job.attempt, now=now)
            is_offered = held in self._offered if is_ours else seen_for < CALL_SECONDS
            if not is_offered:
                self._spawn(self._verify(job.execution.worker_id, held))

    async def _check(self, worker: Worker) -> None:
        now, rules = self._dispatcher.now, self._rules
        lease = health.lease(worker, rules)
        error = await self._error_of(worker, {"Shunter-Lease": f"{lease:.3f}"})
        if error is None:
            self._record(worker.id, _if_there(lambda known: health.answered(known, now=now())))
        else:
            self._dispatcher.counters["health_checks_failed"] += 1
            self._record(worker.id, _if_there(lambda known: health.unanswered(known, error, rules)))

    async def _forget(self, workers: Sequence[Worker]) -> None:
        """Ask these no more; who had hooks is remembered for a while, by its record."""
        now = self._dispatcher.now()
        resign = _if_there(lambda known: health.resigned(known, now=now))
        await self._dispatcher.store.remove_workers([w for w in workers if not w.has_hooks])
        await change_workers(self._dispatcher.store, {w.id: resign for w in workers if w.has_hooks})

    async def _error_of(
        self, worker: Worker, headers: Mapping[str, str] | None = None
    ) -> str | None:
        """Ask for its health; return what was wrong, if anything was."""
        self._dispatcher.counters["health_checks"] += 1
        try:
            answer = await self._call("GET", worker, "/health_check/", headers=headers)
        except CallFailed as failure:
            return str(failure)
        return None if answer.is_success else f"its health check said: {_said(answer)}"

    def _record(self, worker_id: str, decision: Decision) -> None:
        if not self._outcomes:
            self._spawn(self._write_outcomes())
        self._outcomes[worker_id] = decision

    async def _write_outcomes(self) -> None:
        """Write what became of checks, those that ended together by one write."""
        await asyncio.sleep(GATHER_SECONDS)
        outcomes, self._outcomes = self._outcomes, {}
        written = await change_workers(self._dispatcher.store, outcomes)
        hopeless = [worker for worker in written if health.is_beyond_hope(worker, self._rules)]
        if hopeless:
            await self._forget(hopeless)
            self._log.info("forgot dead workers", action="forget", workers=[w.id for w in hopeless])
        died = [w for w in written if w.is_dead and w.failed_ping_count == self._rules.max_retries]
        for worker in died:
            self._dispatcher.leave(worker.id)
            self._records.pop(worker.id, None)
            self._dispatcher.counters["workers_died"] += 1
            self._log.warning(
                "worker is dead", action="bury", worker=worker.id, error=worker.last_error
            )
        if died:
            await self.take_back(died)

    # ---- those that can't be given jobs just now

    def _leave_alone(self, worker_id: str) -> None:
        self._dispatcher.shut(worker_id, until=self._dispatcher.now() + AGAIN_SECONDS)

    def _shut(self, worker_id: str) -> None:
        """Give a worker nothing until it has answered, and ask it every second."""
        self._dispatcher.shut(worker_id)
        if worker_id in self._records and worker_id not in self._probed:
            self._probed.add(worker_id)
            self._spawn(self._probe(worker_id))

    async def _probe(self, worker_id: str) -> None:
        """Only an answer is recorded: failures are counted at the interval that all share.

        It grants no lease, since nobody would know from when a failed one counts.
        """
        now = self._dispatcher.now
        try:
            while (worker := self._worker(worker_id)) is not None:
                if await self._error_of(worker) is None:
                    came_back = _if_there(lambda known: health.answered(known, now=now()))
                    self._record(worker_id, came_back)
                    return
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._probed.discard(worker_id)

    # ---- calls

    async def _call(
        self,
        method: str,
        worker: Worker,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        host = f"[{worker.hostname}]" if ":" in worker.hostname else worker.hostname
        url = f"{worker.scheme}://{host}:{worker.port}{path}"
        shown = {**(headers or {}), **(bearing(worker.secret) if worker.secret else {})}
        return await self._caller.call(method, url, seconds=CALL_SECONDS, json=body, headers=shown)

    def _worker(self, worker_id: str) -> Worker | None:
        return self._records.get(worker_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A call that fails strands nothing: leases, expiries and sweeps find what it was about."""
        try:
            await work
        except StoreError as error:
            self._log.error("the store fails, trying again", action="store", error=str(error))


def _if_there(change: Callable[[Worker], Worker | None]) -> Decision:
    return lambda known: None if known is None or known.is_resigned else change(known)


def _path(held: Held) -> str:
    return f"/jobs/{quote(held.job_id, safe='')}?attempt={held.attempt}"


def _said(answer: Answer) -> str:
    text = answer.body[:200].decode("utf-8", "replace").partition("\n")[0]
    return f"{answer.status} {text}".strip()
