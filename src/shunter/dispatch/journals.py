"""What jobs keep beside their records: what to write of it, and what to answer. Pure.

Whether a run is still the current one is the store's to say, by the attempt. A signal counts
itself in its job's record by the same commit: so a run that parks at that moment loses the
compare-and-swap, and is decided on again with the signal known. Rules: docs/spec/steps.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from msgspec.structs import replace

from shunter.dispatch.arrivals import Arrivals, SignalSent, StoredJobs
from shunter.dispatch.effects import AnswerKeep, AnswerSignal, DecideAgain, Effect
from shunter.dispatch.plan import Change, Plan
from shunter.dispatch.state import DispatcherState
from shunter.errors import JobError, JobNotFound, JobRefused
from shunter.model import lifecycle
from shunter.model.job import Job, Status
from shunter.model.journal import MAX_SIGNALS
from shunter.model.submission import Receipt

MAX_TRIES = 5
"""How often a signal is decided again after losing a compare-and-swap."""

CHANGING = "it is changing right now; send it again"


def plan_keeps(arrivals: Arrivals, plan: Plan) -> None:
    """Plan what runs want kept."""
    for request in arrivals.keep_requests:
        start = len(plan.entries)
        plan.entries += request.entries
        plan.keeps.append((request, slice(start, len(plan.entries))))


def plan_signals(
    state: DispatcherState, arrivals: Arrivals, stored: StoredJobs, plan: Plan
) -> None:
    """Plan signals, and the wake of jobs that wait for them."""
    for sent in arrivals.signals:
        job_id = sent.entry.job_id
        job = state.running.get(job_id) or stored.jobs.get(job_id)
        try:
            changed = _signalled(sent, job, plan)
        except JobError as error:
            field = "id" if isinstance(error, JobNotFound) else "status"
            plan.signals.append((sent, Receipt(job_id, field, str(error)), None))
            continue
        plan.changes[job_id] = Change(changed)
        if changed.status is Status.QUEUED and changed.wait_until is None:
            state.waiting.add(changed.type)
        plan.signals.append((sent, Receipt(job_id), len(plan.entries)))
        plan.entries.append(sent.entry)


def _signalled(sent: SignalSent, job: Job | None, plan: Plan) -> Job:
    job_id = sent.entry.job_id
    if job is None or not sent.scope.shows(job):
        raise JobNotFound(job_id)
    if job.status.is_final:
        raise JobRefused(
            job_id,
            "status",
            f"it is {job.status.word} already and can't take the signal {sent.entry.name!r} any "
            "more; its record says how it ended, and a rerun of it can be signalled",
        )
    if job.signals >= MAX_SIGNALS:
        raise JobRefused(
            job_id,
            "signals",
            f"it was sent {MAX_SIGNALS:,} signals, as many as may be; send what comes often as "
            "jobs of their own",
        )
    if job_id in plan.changes:
        raise JobRefused(job_id, "status", CHANGING)
    return lifecycle.signalled(job, sent.entry.name, now=plan.now)


def journal_answers(plan: Plan, entered: list[bool], lost_races: Set[str]) -> Iterator[Effect]:
    """Say what is kept; a signal that met another change is decided again."""
    for request, places in plan.keeps:
        yield AnswerKeep(request, entered[places])
    for sent, receipt, place in plan.signals:
        job_id = sent.entry.job_id
        met_another = receipt.reason.endswith(CHANGING) or job_id in lost_races
        if met_another and sent.tries < MAX_TRIES:
            yield DecideAgain(replace(sent, tries=sent.tries + 1))
        elif receipt.reason or job_id in lost_races:
            yield AnswerSignal(sent, receipt if receipt.reason else _busy(job_id))
        elif place is not None and not entered[place]:
            yield DecideAgain(replace(sent, tries=sent.tries + 1))  # it ended meanwhile
        else:
            yield AnswerSignal(sent, receipt)


def _busy(job_id: str) -> Receipt:
    return Receipt(job_id, "status", CHANGING)
