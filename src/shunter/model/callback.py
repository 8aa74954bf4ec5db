"""How a job that has ended calls back: whose turn it is, when the next try is, when it is over.

All of it stands in the job's record, so any dispatcher can make the call: `due` says from when
on, and None that nothing is to be done. Who makes the call moves `due` behind the end of it
first; so the others leave it alone, and if it dies, one of them tries again. A receiver may thus
hear of a job more than once, and knows it by its id.
Nothing but `callback` and `revision` of an ended job is ever changed.
Pure: `now` and randomness are arguments. Rules: docs/spec/http.md.
"""

from __future__ import annotations

from msgspec.structs import replace

from shunter.errors import JobError
from shunter.model.job import Callback, Job
from shunter.model.retry import Retry, backoff

MARGIN_SECONDS = 5.0
"""How much longer than a call may take it is left to whoever makes it."""

MOST_ERROR_LETTERS = 500


def is_due(job: Job, *, now: float) -> bool:
    """True if somebody should call now."""
    callback = job.callback
    return callback is not None and callback.due is not None and callback.due <= now


def calling(job: Job, *, now: float, seconds: float) -> Job:
    """A dispatcher takes the next call for itself; it may take this many seconds."""
    callback = _owed(job)
    if not is_due(job, now=now):
        raise JobError(job.id, "its callback is not due yet, or another dispatcher is at it")
    until = now + seconds + MARGIN_SECONDS
    return _with(job, replace(callback, tries=callback.tries + 1, due=until))


def called(
    job: Job,
    tries: int,
    error: str | None,
    *,
    now: float,
    jitter: float,
    max_tries: int,
    waits: Retry,
) -> Job:
    """The call number `tries` was made; `error` says why it did not succeed, None that it did.

    A success counts whenever it is heard of. A failure counts only while no other call follows.
    """
    callback = _owed(job)
    if error is None:
        return _with(job, replace(callback, delivered=True, due=None, error=""))
    if tries != callback.tries:
        raise JobError(job.id, f"call {tries} failed, but call {callback.tries} is under way")
    if tries >= max_tries:
        return given_up(job, error)
    due = now + backoff(waits, tries, jitter=jitter)
    return _with(job, replace(callback, due=due, error=_short(error)))


def postponed(job: Job, *, now: float, seconds: float) -> Job:
    """The call is not made now, since its host is slow to answer; that is no try."""
    return _with(job, replace(_owed(job), due=now + seconds))


def given_up(job: Job, last: str = "") -> Job:
    """The last try was made, or whoever made it did not live to say how it went."""
    callback = _owed(job)
    last = last or callback.error or "nobody knows how it ended"
    error = f"given up after {callback.tries} tries (callbacks.max_tries); the last: {last}"
    return _with(job, replace(callback, due=None, error=_short(error)))


def _owed(job: Job) -> Callback:
    """Return the callback that is still to be made, or raise."""
    callback = job.callback
    if not job.status.is_final:
        raise JobError(job.id, f"it is {job.status.word}; it calls back when it has ended")
    if callback is None or callback.due is None:
        raise JobError(job.id, "no callback is to be made, or none any more")
    return callback


def _with(job: Job, callback: Callback) -> Job:
    return replace(job, callback=callback, revision=job.revision + 1)


def _short(error: str) -> str:
    return error if len(error) <= MOST_ERROR_LETTERS else f"{error[: MOST_ERROR_LETTERS - 1]}…"
