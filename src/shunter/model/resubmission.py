"""A job whose work is done again: what the new submission takes over from the ended job. Pure.

The new job has an id of its own, so a request that is repeated makes no second one. It takes over
what was said about the work and leaves out what belongs to the one time: the unique key, a delay
that is over, who waits for the outcome. Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

from msgspec.structs import replace

from shunter.errors import JobRefused
from shunter.model.job import Callback, Job
from shunter.model.scope import JobScope
from shunter.model.submission import Submission

NOT_KEPT = frozenset(
    {
        "id",
        "payload",
        "not_before",
        "unique_key",
        "unique",
        "callback",
        "rerun_of",
        "traceparent",
        "keys",
        "when",
    }
)
"""What a rerun does not take over as it stands."""

KEPT = tuple(
    field
    for field in Submission.__struct_fields__
    if field in Job.__struct_fields__ and field not in NOT_KEPT
)

CALLED_SCHEMES = ("http://", "https://")
"""Whom a rerun calls back too; other notices are for a client that waited for the first job."""


def resubmission(
    job: Job, *, new_id: str, payload: bytes | None = None, reply: bool = False
) -> Submission:
    """Return what to submit so that a job's work is done again, with its payload or another."""
    document = job.payload if payload is None else payload
    assert document is not None
    return Submission(
        id=new_id,
        payload=document,
        timeout=job.execution.timeout,
        reply=reply,
        rerun_of=job.id,
        keys=job.keys or None,
        **{field: getattr(job, field) for field in KEPT},
    )


def check_rerun(submission: Submission, original: Job | None, scope: JobScope) -> None:
    """Raise JobRefused unless the job that is to be rerun is there, for this peer, and ended."""
    if original is None or not scope.shows(original):
        raise JobRefused(
            submission.id,
            "rerun_of",
            f"there is no job {submission.rerun_of}, or it is purged; submit the work anew",
        )
    if not original.status.is_final:
        raise JobRefused(
            submission.id,
            "rerun_of",
            f"job {original.id} is {original.status.word}; wait until it has ended, or cancel it",
        )


def with_callback(submission: Submission, original: Job) -> Submission:
    """Return a rerun that calls back whom the first job called, unless it names somebody."""
    callback = original.callback
    if submission.callback or not callback or not callback.url.startswith(CALLED_SCHEMES):
        return submission
    return replace(submission, callback=Callback(callback.url))
