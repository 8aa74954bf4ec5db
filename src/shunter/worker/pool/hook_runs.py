"""Runs that call an app's `on_final_failure` for a job which failed where nobody could.

Their payload is what a dispatcher has written about that job (`model/final_failure.py`); hooks see
the failed job in their context, and nothing of the one that calls them.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from shunter.app import App
from shunter.codec import is_sealed
from shunter.errors import AppError, JobFailed, NotPlaced
from shunter.model.final_failure import read_final_failure
from shunter.model.job import ErrorKind, Failure
from shunter.wire.messages import Assignment
from shunter.worker.run_seal import RunSeal


class HookRun(Struct, frozen=True):
    """The failed job, as the context of its hooks shows it, and the error that they get."""

    failed: Assignment
    error: JobFailed


def hook_run(app: App, seal: RunSeal, payload: bytes) -> HookRun | Failure:
    """Read what is to be told to hooks, or say why they can't be called.

    Dispatchers write it as it is; a client with a codec that reruns such a job seals it.
    """
    opened = seal.opened(payload) if is_sealed(payload) else payload
    if isinstance(opened, Failure):
        return opened
    try:
        told = read_final_failure(opened)
        app.find(told.type)
    except (msgspec.DecodeError, AppError) as fault:
        return Failure(ErrorKind.REFUSED, f"on_final_failure can't be called: {fault}")
    message = RunSeal(app, told.job_id, told.type).message(told.message)
    error = (
        NotPlaced(told.job_id, message)
        if told.kind is ErrorKind.UNPLACED
        else JobFailed(told.job_id, told.kind, message)
    )
    failed = Assignment(
        told.job_id,
        told.attempt,
        told.type,
        b"",
        None,
        told.run,
        told.scheduled,
        traceparent=told.traceparent,
    )
    return HookRun(failed, error)
