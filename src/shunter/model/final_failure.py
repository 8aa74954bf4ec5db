"""The job that calls an app's `on_final_failure` for another one, which failed for good.

A run that fails in its handler calls the hooks itself, and says so (`Failure.is_told`). For all
other ends there is no process left that could. So the write that ends such a job also says which
job is to call the hooks for it, and that it is still to be made: the job counts as one with
dependents until that one is stored (`dispatch/dependents.py`). Its id and its type are made of the
failed job's, and nobody else may use such names; so it is made once, goes only to workers that
have said that their app has hooks, and neither holds nor waits for a place under limits of the
failed job's type. Pure. Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.model.identity import hook_name
from shunter.model.job import ErrorKind, Execution, Failure, Job, Status
from shunter.model.worker import Handler, Worker

HOOK_SECONDS = 60.0
"""How long the hooks of one job may take, all together."""

WAITS_SECONDS = 7 * 86400.0
"""How long such a job waits for a worker that can do it, and for how long it is known of workers
that are gone that they could."""

MESSAGE_CHARACTERS = 500
"""So much of a failure's message is passed on: it has to fit into a packet."""


class FinalFailure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What hooks are told: which job failed, in which attempt, and how."""

    job_id: str
    type: str
    attempt: int
    kind: ErrorKind
    message: str
    run: str | None = None
    scheduled: float | None = None
    traceparent: str | None = None


read_final_failure = msgspec.msgpack.Decoder(FinalFailure).decode


def with_hooks(handlers: Iterable[Handler]) -> tuple[Handler, ...]:
    """Return handlers together with what their worker does besides: calls of hooks."""
    given = tuple(handlers)
    hooks = (
        Handler(hook_name(it.type), concurrency=it.concurrency, sees_parents=False)
        for it in given
        if it.has_hooks
    )
    return (*given, *hooks)


def hooked_types(workers: Iterable[Worker]) -> frozenset[str]:
    """Return the types whose failures are told to hooks.

    Workers that are there decide; where none is, those that were.
    """
    there: dict[str, bool] = {}
    gone: dict[str, bool] = {}
    for worker in workers:
        known = gone if worker.is_gone else there
        for handler in worker.handlers:
            known[handler.type] = handler.has_hooks or known.get(handler.type, False)
    return frozenset(name for name, has_hooks in (gone | there).items() if has_hooks)


def last_witnesses(workers: Iterable[Worker]) -> frozenset[str]:
    """Return the ids of the workers that are the last to say that some type has hooks."""
    last: dict[str, str] = {}
    for worker in sorted(workers, key=lambda it: (not it.is_gone, it.last_pinged)):
        last |= {it.type: worker.id for it in worker.handlers if it.has_hooks}
    return frozenset(last.values())


def owes_hooks(job: Job) -> bool:
    """True if a job has failed for good, and its run has not called hooks for that."""
    return job.status is Status.FAILED and not (job.error is not None and job.error.is_told)


def owing_hooks(job: Job) -> Job:
    """Return an ended job that says who calls the hooks for it, and is still to be made."""
    return replace(job, hook_job=hook_name(job.id), dependents=True)


def hook_job(failed: Job, *, now: float) -> Job:
    """Return the job that calls the hooks for a failed one; the same whoever makes it."""
    assert failed.hook_job is not None
    error = failed.error or Failure(ErrorKind.LOST, "no reason was recorded")
    told = FinalFailure(
        job_id=failed.id,
        type=failed.type,
        attempt=failed.attempt,
        kind=error.kind,
        message=error.message[:MESSAGE_CHARACTERS],
        run=failed.run,
        scheduled=failed.scheduled,
        traceparent=failed.traceparent,
    )
    return Job(
        id=failed.hook_job,
        type=hook_name(failed.type),
        created=now,
        updated=now,
        payload=msgspec.msgpack.encode(told),
        priority=failed.priority,
        namespace=failed.namespace,
        execution=Execution(timeout=HOOK_SECONDS),
        place_within=WAITS_SECONDS,
        place_by=now + WAITS_SECONDS,
    )
