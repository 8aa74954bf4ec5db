"""What a dispatcher does on its own, each harmless when repeated by any number of them.

A sweep only looks: alarms that have come, leases that have lapsed, workers that fell silent.
What it finds goes to the dispatcher like anything else that arrives, so there is one place
where decisions are made and one where they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from shunter.dispatch.activity_writer import ActivityWriter
from shunter.dispatch.alarm_clock import AlarmClock
from shunter.dispatch.arrivals import Survey, WorkerLink
from shunter.dispatch.declarations import Declarations
from shunter.dispatch.dependents import PARENTS_AT_ONCE
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.tick_sweep import TickSweep
from shunter.model.activity import oldest_name
from shunter.model.final_failure import WAITS_SECONDS, hooked_types, last_witnesses
from shunter.model.job import Job, Status
from shunter.model.limits_record import limits_record, record_of
from shunter.model.presence import Company, HostClock, Presence, Skews
from shunter.model.queue_order import AT_ONCE
from shunter.model.record import RecordKind
from shunter.model.report import Held
from shunter.model.worker import Worker
from shunter.store.port import JobQuery

ALARMS_AT_ONCE = 500
PURGED_AT_ONCE = 200
LISTED_AT_ONCE = 500
FRESH_SECONDS = 0.3
"""A job that started no longer ago is not looked at: most are over by then."""

GONE_WORKER_KEPT_SECONDS = 3600.0
"""How long a worker that went away stays listed; HTTP workers have their own rules for that."""


IDLE_BUCKET_SECONDS = 3600.0


async def watch_the_clock(dispatcher: Dispatcher, clock: AlarmClock) -> None:
    """Ring alarms, if it is time to look for them; see to tokens, and to what workers declare."""
    dispatcher.look_for_tokens()
    await tell_limits(dispatcher)
    now, turns = dispatcher.now(), dispatcher.writing_turns
    if clock.is_time(now=now, turns=turns):
        next_alarm = await dispatcher.store.next_alarm()
        if next_alarm is not None and next_alarm <= dispatcher.now():
            await ring_alarms(dispatcher)
        if next_alarm == AT_ONCE:
            await tell_dependents(dispatcher)
        clock.looked(now=now, turns=turns, next_alarm=next_alarm)


async def ring_alarms(dispatcher: Dispatcher) -> int:
    """Have a look at jobs whose time has come; return how many there were."""
    jobs = await dispatcher.store.alarms(now=dispatcher.now(), limit=ALARMS_AT_ONCE)
    if jobs:
        dispatcher.look_at(jobs)
    if limit := dispatcher.state.callbacks.appetite:
        ended = await dispatcher.store.due_callbacks(now=dispatcher.now(), limit=limit)
        if ended:
            dispatcher.offer_callbacks(ended)
    return len(jobs)


async def tell_dependents(dispatcher: Dispatcher) -> None:
    """Have a look at jobs that have ended and whose dependents do not know yet."""
    if not dispatcher.state.dependents.has_work:
        ended = await dispatcher.store.due_dependents(limit=PARENTS_AT_ONCE)
        if ended:
            dispatcher.tell_dependents(ended)


async def survey(dispatcher: Dispatcher, link: WorkerLink) -> list[Worker]:
    """Look at all workers; `link` reaches those that all dispatchers share."""
    as_of = dispatcher.now()
    workers = await dispatcher.store.workers()
    dispatcher.survey(Survey(workers, as_of, link))
    return workers


async def share_limits(dispatcher: Dispatcher) -> list[str]:
    """Learn which types are limited, and tell what workers here declare; return what is noteworthy.

    Two workers that declare different limits are told so, as far as they are connected here.
    A record that another dispatcher wrote first is read and decided on the next time.
    """
    await tell_limits(dispatcher)
    found = await dispatcher.store.records(RecordKind.LIMITS)
    if found:
        dispatcher.learn_limits({record.name: limits_record(record) for record in found})
    notices = dispatcher.state.limits.take_notices()
    for notice in notices:
        for worker_id in notice.workers:
            dispatcher.tell_worker(worker_id, notice.text)
    return [notice.text for notice in notices]


async def tell_limits(dispatcher: Dispatcher) -> None:
    """Write down what workers here declare, if that is new."""
    if declared := dispatcher.state.limits.unwritten:
        offered = dict(declared)
        records = [record_of(job_type, limits) for job_type, limits in offered.items()]
        answers = await dispatcher.store.swap_records(records)
        written = {record.name for record, is_new in zip(records, answers, strict=True) if is_new}
        if written:
            dispatcher.learn_limits({name: offered[name] for name in written})


async def meet_others(dispatcher: Dispatcher, skews: Skews, host: HostClock) -> Company:
    """Show the others our clock, and find out by how much theirs differ from it."""
    now = dispatcher.now()
    own = Presence(dispatcher_id=dispatcher.id, clock=now, host=host.id, uptime=host.uptime())
    others = await dispatcher.store.meet(own)
    company = skews.look(own, others, now=dispatcher.now())
    dispatcher.meet(company)
    return company


async def catch_up(dispatcher: Dispatcher) -> None:
    """Look whether others changed jobs that run on workers of ours: cancelled or ended them."""
    since = dispatcher.now() - FRESH_SECONDS
    known = {
        job_id: job.revision
        for job_id, job in dispatcher.state.running.items()
        if dispatcher.state.known_since(job) < since
    }
    if known:
        stored = await dispatcher.store.revisions(list(known))
        newer = [job_id for job_id, revision in stored.items() if revision > known[job_id]]
        if newer:
            dispatcher.catch_up([job for job in await dispatcher.store.get(newer) if job])


async def learn_hooks(dispatcher: Dispatcher) -> None:
    """Know which types have hooks, before a job is ended of which nobody here has seen a worker."""
    dispatcher.learn_hooks(hooked_types(await dispatcher.store.workers()))


async def give_up_waiting(dispatcher: Dispatcher) -> None:
    """Have a look at jobs that have waited for a worker for as long as they may."""
    late = await dispatcher.store.overdue(now=dispatcher.now(), limit=ALARMS_AT_ONCE)
    if late:
        await learn_hooks(dispatcher)
        dispatcher.look_at(late)


async def find_orphans(dispatcher: Dispatcher) -> None:
    """Take back jobs whose worker has no record: nobody would ever ask for them."""
    in_progress, before = list[Job](), None
    while True:
        query = JobQuery(status=Status.IN_PROGRESS, before=before, limit=LISTED_AT_ONCE)
        page = await dispatcher.store.find(query)
        in_progress += page
        if len(page) < LISTED_AT_ONCE:
            break
        before = page[-1].id
    workers = await dispatcher.store.workers()
    known = {worker.id for worker in workers}
    dispatcher.learn_hooks(hooked_types(workers))
    for job in in_progress:
        worker_id = job.execution.worker_id
        if worker_id is not None and worker_id not in known:
            reason = f"worker {worker_id} has no record any more"
            held = [Held(job.id, job.attempt)]
            dispatcher.give_back(worker_id, held, reason, blame=True)


async def forget_gone(dispatcher: Dispatcher) -> None:
    """Remove records of workers that are long gone and hold nothing.

    The last that says of a type that it has hooks stays longer: its jobs may fail meanwhile.
    """
    now, workers = dispatcher.now(), await dispatcher.store.workers()
    witnesses = last_witnesses(workers)
    gone = [
        worker
        for worker in workers
        if now - worker.last_pinged
        > (WAITS_SECONDS if worker.id in witnesses else GONE_WORKER_KEPT_SECONDS)
        and worker.id not in dispatcher.state.members
        and (not worker.kind.traits.is_shared or worker.is_resigned)
        and not worker.jobs
    ]
    if gone:
        await dispatcher.store.remove_workers(gone)


async def forget_buckets(dispatcher: Dispatcher) -> None:
    """Remove buckets of rates whose next start was due long ago: they say what none says, too."""
    before, since = None, dispatcher.now() - IDLE_BUCKET_SECONDS
    while page := await dispatcher.store.records(
        RecordKind.RATE, before=before, limit=LISTED_AT_ONCE
    ):
        idle = [record for record in page if float(record.document or b"0") < since]
        if idle:
            gone = [replace(it, revision=it.revision + 1, document=None) for it in idle]
            await dispatcher.store.swap_records(gone)
        before = page[-1].name


async def tell_activity(dispatcher: Dispatcher, writer: ActivityWriter) -> None:
    """Write what was done in this minute, if that is news."""
    minute = dispatcher.activity.minute(
        dispatcher.counters,
        dispatcher.view.timings,
        workers=dispatcher.view.connected,
        now=dispatcher.now(),
    )
    await writer.write(dispatcher.store, minute)


async def forget_activity(dispatcher: Dispatcher) -> None:
    """Remove what all dispatchers did more than an hour ago."""
    oldest = oldest_name(dispatcher.now())
    found = await dispatcher.store.records(RecordKind.ACTIVITY, before=oldest, limit=LISTED_AT_ONCE)
    if found:
        gone = [replace(it, revision=it.revision + 1, document=None) for it in found]
        await dispatcher.store.swap_records(gone)


async def purge(dispatcher: Dispatcher) -> int:
    """Delete a few jobs that ended longer ago than their retention; return how many."""
    before = dispatcher.now() - dispatcher.rules.retention
    return await dispatcher.store.purge(ended_before=before, limit=PURGED_AT_ONCE)


async def tick(ticks: TickSweep, declarations: Declarations) -> None:
    """Make jobs of ticks that have come, of schedules that clients put and that apps declare."""
    await ticks.sweep()
    await declarations.sweep()


Sweep = Callable[[Dispatcher], Coroutine[Any, Any, None]]


async def go_through(dispatcher: Dispatcher, *sweeps: Sweep) -> None:
    """Do what a list has, one after the other."""
    for act in sweeps:
        await act(dispatcher)


OFTEN: tuple[Sweep, ...] = (catch_up, give_up_waiting)
NOW_AND_THEN: tuple[Sweep, ...] = (find_orphans,)
RARELY: tuple[Sweep, ...] = (forget_gone, forget_buckets, forget_activity)
"""What a dispatcher does by the clock beside alarms, surveys and purging. The service has an
interval for each list; a sandbox goes through all of them whenever time has passed."""
