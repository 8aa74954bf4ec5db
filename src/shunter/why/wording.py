"""What is said about a job: a sentence for each thing that keeps it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from shunter.model.explanation import Holder, Reason, ReasonKind
from shunter.model.job import Job, Status
from shunter.model.pause import Pause, PauseTarget
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.spelling import similar
from shunter.model.worker import Worker
from shunter.why.situation import Situation

SHOWN_HOLDERS = 10

_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


class Facts(Struct, frozen=True, kw_only=True):
    """What is told beside what decides.

    `ahead` counts jobs of its type, or lane, that go before it; `is_ahead_cut` if there are more.
    `running` are jobs of the workers that do its type, `holders` those with places under its
    limits, `gone` workers that did its type. `awaited` are some of the `pending` jobs that it waits
    for. `run_mean` is how long runs of its type took lately, or have lasted so far. If jobs of
    other types have all slots, the first of them ends in `others_end_in` seconds, by what theirs
    took. Jobs that `scope` hides are counted, and not shown.
    """

    ahead: int = 0
    is_ahead_cut: bool = False
    pauses: Sequence[Pause] = ()
    running: Sequence[Job] = ()
    holders: Sequence[Job] = ()
    gone: Sequence[Worker] = ()
    known_types: frozenset[str] = frozenset()
    awaited: Sequence[Job] = ()
    pending: int = 0
    is_pending_cut: bool = False
    run_mean: float | None = None
    others_end_in: float = 0.0
    scope: JobScope = EVERYTHING


def reason_of(kind: ReasonKind, situation: Situation, facts: Facts) -> Reason:
    """Say what keeps the job."""
    return _WORDS[kind](situation, facts)


def span_text(seconds: float) -> str:
    """Return a span in two figures at most: 32 ms, 4.1 s, 2 min 5 s, 3 d 4 h."""
    if seconds < 0.0995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    size, unit = next((it for it in _STEPS if seconds >= it[0]), _STEPS[-1])
    lower = {"d": (3600.0, "h"), "h": (60.0, "min"), "min": (1.0, "s")}[unit]
    whole, rest = divmod(max(seconds, 60.0), size)
    part = int(rest // lower[0])
    return f"{int(whole)} {unit} {part} {lower[1]}" if part else f"{int(whole)} {unit}"


def slots_text(count: int, more: str = "") -> str:
    return f"one {more}slot" if count == 1 else f"{count:,} {more}slots"


def jobs_text(count: int, kind: str = "") -> str:
    kind = f"{kind} " if kind else ""
    return f"1 {kind}job" if count == 1 else f"{count:,} {kind}jobs"


def holder_of(job: Job) -> Holder:
    """Return who has a job, since when."""
    run = job.execution
    since = run.given_at if job.status is Status.IN_PROGRESS else job.created
    if job.status is Status.DISPATCHING and job.dispatcher is not None:
        since = job.dispatcher.date
    return Holder(job.id, job.type, job.status.word, run.worker_id or "", since)


def _shown(jobs: Iterable[Job], count: int, facts: Facts) -> tuple[tuple[Holder, ...], int]:
    """Return the first few of these jobs to have begun, and how many are not shown."""
    seen = sorted(
        (holder_of(job) for job in jobs if facts.scope.shows(job)),
        key=lambda it: (it.since or 0.0, it.job_id),
    )[:SHOWN_HOLDERS]
    return tuple(seen), max(0, count - len(seen))


def _time(situation: Situation, _: Facts) -> Reason:
    job, now = situation.job, situation.now
    until = job.wait_until or now
    last = job.history[-1] if job.history else None
    is_again = last is not None and job.not_before != until
    why = f"after its run {last.attempt} was {last.outcome}" if last and is_again else ""
    text = f"its time has not come: it may start in {span_text(until - now)}"
    if why:
        text = f"it waits before it is tried again, {why}: it may start in {span_text(until - now)}"
    return Reason(kind=ReasonKind.TIME, text=text, until=until)


def _claimed(situation: Situation, _: Facts) -> Reason:
    job, now = situation.job, situation.now
    assert job.dispatcher is not None
    claim = job.dispatcher
    text = (
        f"dispatcher {claim.id} has claimed it, {span_text(now - claim.date)} ago, and is about to "
        f"start it; should it not, others may in {span_text(claim.expiry - now)}"
    )
    return Reason(kind=ReasonKind.CLAIMED, text=text, since=claim.date, until=claim.expiry)


def _sleep(situation: Situation, _: Facts) -> Reason:
    job, now = situation.job, situation.now
    assert job.waits is not None
    until = job.wait_until or job.waits.until
    left = "" if until is None else f", for another {span_text(until - now)}"
    text = f"it sleeps at its step {job.waits.name!r}{left}"
    return Reason(kind=ReasonKind.SLEEP, text=text, since=job.waits.since, until=until)


def _signal(situation: Situation, _: Facts) -> Reason:
    job, now = situation.job, situation.now
    assert job.waits is not None
    left = "" if job.wait_until is None else f", for another {span_text(job.wait_until - now)}"
    text = f"it waits for the signal {job.waits.signal!r} at its step {job.waits.name!r}{left}"
    since, until = job.waits.since, job.wait_until
    return Reason(kind=ReasonKind.SIGNAL, text=text, since=since, until=until)


def _awaited(kind: ReasonKind) -> Callable[[Situation, Facts], Reason]:
    def say(situation: Situation, facts: Facts) -> Reason:
        job, count = situation.job, facts.pending
        more = " or more" if facts.is_pending_cut else ""
        what = "it waits for jobs to end" if not count else f"it waits for {jobs_text(count)}{more}"
        step = f" at its step {job.waits.name!r}" if job.waits is not None else ""
        holders, left = _shown(facts.awaited, count, facts)
        return Reason(
            kind=kind,
            text=f"{what}{step}" + (" to end" if count else ""),
            since=job.created if job.waits is None else job.waits.since,
            count=count,
            is_counted_in_full=not facts.is_pending_cut,
            holders=holders,
            more=left,
        )

    return say


def _paused(situation: Situation, facts: Facts) -> Reason:
    job_type = situation.job.type
    found = [it for it in facts.pauses if (it.target, it.name) == (PauseTarget.TYPE, job_type)]
    since = found[0].at if found and found[0].at else None
    by = f", by {found[0].by}" if found and found[0].by and facts.scope.sees_all else ""
    ago = "" if since is None else f", for {span_text(situation.now - since)} now"
    text = f"the type {job_type} is paused{ago}{by}"
    return Reason(kind=ReasonKind.PAUSED, text=text, since=since)


def _unserved(situation: Situation, facts: Facts) -> Reason:
    job_type = situation.job.type
    meant = similar(job_type, facts.known_types)
    text = f"no worker does jobs of type {job_type}"
    if facts.gone:
        last = max(facts.gone, key=lambda it: it.last_pinged)
        ago = span_text(situation.now - last.last_pinged)
        text += f"; the last one, {last.id}, is {last.state} and was heard {ago} ago"
    if meant:
        text += f"; did you mean {meant!r}?"
    elif not facts.known_types:
        text += "; there is no worker at all"
    return Reason(kind=ReasonKind.UNSERVED, text=text, similar=meant)


def _drained(situation: Situation, _: Facts) -> Reason:
    names = [worker.id for worker in situation.workers]
    shown = ", ".join(names[:SHOWN_HOLDERS])
    text = f"all workers that do {situation.job.type} are drained and get nothing new: {shown}"
    return Reason(kind=ReasonKind.DRAINED, text=text, count=len(names))


def _full(situation: Situation, facts: Facts) -> Reason:
    serving, slots = situation.serving, situation.slots
    held = sum(len(worker.jobs) for worker in serving)
    who = f"worker {serving[0].id} does" if len(serving) == 1 else f"{len(serving):,} workers do"
    what = "its only slot is" if slots == 1 else f"all {slots:,} slots are"
    names = {worker.id for worker in serving}
    there = [job for job in facts.running if job.execution.worker_id in names]
    holders, more = _shown(there, held, facts)
    rivals = ", ".join(sorted(situation.rivals)[:5]) if facts.scope.sees_all else ""
    also = f"; jobs of other types wait for them too: {rivals}" if rivals else ""
    return Reason(
        kind=ReasonKind.FULL,
        text=f"{who} {situation.job.type}, and {what} taken{also}",
        count=slots,
        holders=holders,
        more=more,
    )


def _limit(situation: Situation, facts: Facts) -> Reason:
    limits, lane = situation.limits, situation.lane or ""
    assert limits is not None
    count = situation.held.get(lane, 0)
    there = [job for job in facts.holders if job.lane == lane]
    holders, more = _shown(there, count, facts)
    text = _places_text(lane, count, limits.per_key)
    return Reason(kind=ReasonKind.LIMIT, text=text, count=count, holders=holders, more=more)


def _total(situation: Situation, facts: Facts) -> Reason:
    limits, count = situation.limits, situation.total_held
    assert limits is not None
    holders, more = _shown(facts.holders, count, facts)
    text = _places_text(situation.job.type, count, limits.total)
    return Reason(kind=ReasonKind.TOTAL, text=text, count=count, holders=holders, more=more)


def _places_text(whose: str, count: int, most: int | None) -> str:
    return f"{count:,} of {whose} {'runs' if count == 1 else 'run'}, and no more than {most:,} may"


def _rate(situation: Situation, _: Facts) -> Reason:
    limits, lane = situation.limits, situation.lane or ""
    assert limits is not None
    assert limits.rate is not None
    due = situation.next_at.get(limits.bucket(lane) or "", situation.now)
    whose = f"of {lane}" if limits.rate.by else f"of {situation.job.type}"
    text = (
        f"{limits.rate.count:,} {whose} may start every {limits.rate.per:g} s; the next one may in "
        f"{span_text(due - situation.now)}"
    )
    return Reason(kind=ReasonKind.RATE, text=text, until=due)


def _older(situation: Situation, facts: Facts) -> Reason:
    lane = situation.lane
    where = f" of {lane}" if lane else f" of type {situation.job.type}"
    more = " or more" if facts.is_ahead_cut else ""
    text = f"{jobs_text(facts.ahead)}{more}{where} {'goes' if facts.ahead == 1 else 'go'} before it"
    if not facts.ahead:
        text = "jobs of other keys go before it"
    return Reason(
        kind=ReasonKind.OLDER,
        text=text,
        count=facts.ahead,
        is_counted_in_full=not facts.is_ahead_cut,
    )


_WORDS: dict[ReasonKind, Callable[[Situation, Facts], Reason]] = {
    ReasonKind.TIME: _time,
    ReasonKind.PARENTS: _awaited(ReasonKind.PARENTS),
    ReasonKind.CHILDREN: _awaited(ReasonKind.CHILDREN),
    ReasonKind.SLEEP: _sleep,
    ReasonKind.SIGNAL: _signal,
    ReasonKind.CLAIMED: _claimed,
    ReasonKind.PAUSED: _paused,
    ReasonKind.UNSERVED: _unserved,
    ReasonKind.DRAINED: _drained,
    ReasonKind.FULL: _full,
    ReasonKind.LIMIT: _limit,
    ReasonKind.TOTAL: _total,
    ReasonKind.RATE: _rate,
    ReasonKind.OLDER: _older,
}
