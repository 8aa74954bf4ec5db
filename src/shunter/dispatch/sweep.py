"""What a dispatcher does on its own, each harmless when repeated by any number of them.

A sweep only looks: alarms that have come, leases that have lapsed, workers that fell silent.
What it finds goes to the dispatcher like anything else that arrives, so there is one place
where decisions are made and one where they are written.
"""

from __future__ import annotations

from msgspec.structs import replace

from shunter.dispatch.dispatcher import Dispatcher
from shunter.model.lease import has_lapsed
from shunter.model.worker import Worker, WorkerKind
from shunter.wire.messages import Held

ALARMS_AT_ONCE = 500
PURGED_AT_ONCE = 200
PLAIN_WORKER_KEPT_SECONDS = 3600.0
"""How long a plain worker that went away stays listed."""


async def ring_alarms(dispatcher: Dispatcher) -> int:
    """Have a look at jobs whose time has come; return how many there were."""
    jobs = await dispatcher.store.alarms(now=dispatcher.now(), limit=ALARMS_AT_ONCE)
    dispatcher.look_at(jobs)
    return len(jobs)


def suspend_silent(dispatcher: Dispatcher) -> None:
    """Give no new jobs to full workers that were silent for a while; forget lapsed ones."""
    now, rules, desk = dispatcher.now(), dispatcher.rules, dispatcher.desk
    for worker_id, member in list(desk.members.items()):
        if member.worker.kind is not WorkerKind.FULL:
            continue
        if has_lapsed(member.heard_at, rules.lease, now=now):
            desk.remove(worker_id)
        elif now - member.heard_at >= rules.silent_after:
            desk.roster.adjust(worker_id, is_open=False)


async def bury_dead(dispatcher: Dispatcher) -> None:
    """Declare workers dead whose lease has lapsed, and take back what they held."""
    now, terms = dispatcher.now(), dispatcher.rules.lease
    dead: list[Worker] = []
    for worker in await dispatcher.store.workers():
        if worker.kind is not WorkerKind.FULL:
            continue
        silent_for = now - worker.last_pinged
        if has_lapsed(worker.last_pinged, terms, now=now) and not worker.is_dead:
            if not worker.is_resigned:
                error = f"silent for {silent_for:.1f} s, its lease has lapsed"
                dead.append(replace(worker, is_dead=True, last_error=error, jobs=()))
                dispatcher.desk.remove(worker.id)
            await _take_back_all(dispatcher, worker, silent_for)
        elif worker.is_dead and worker.jobs:
            await _take_back_all(dispatcher, worker, silent_for)
    if dead:
        dispatcher.counters["workers_died"] += len(dead)
        await dispatcher.store.put_workers(dead)


async def _take_back_all(dispatcher: Dispatcher, worker: Worker, silent_for: float) -> None:
    if worker.jobs:
        jobs = await dispatcher.store.held_by([worker.id])
        reason = f"worker {worker.id} was silent for {silent_for:.1f} s, its lease has lapsed"
        held = [Held(job.id, job.attempt) for job in jobs]
        dispatcher.give_back(worker.id, held, reason, blame=True)


async def forget_gone(dispatcher: Dispatcher) -> None:
    """Remove records of workers that are long gone and hold nothing."""
    now = dispatcher.now()
    gone = [
        worker
        for worker in await dispatcher.store.workers()
        if now - worker.last_pinged > PLAIN_WORKER_KEPT_SECONDS
        and worker.id not in dispatcher.desk.members
        and not worker.jobs
    ]
    if gone:
        await dispatcher.store.remove_workers(gone)


async def purge(dispatcher: Dispatcher) -> int:
    """Delete a few jobs that ended longer ago than their retention; return how many."""
    before = dispatcher.now() - dispatcher.rules.retention
    return await dispatcher.store.purge(ended_before=before, limit=PURGED_AT_ONCE)
