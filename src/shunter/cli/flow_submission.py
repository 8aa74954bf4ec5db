"""`shunter flow submit`: a flow run as a job, and its stages while one waits for it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from shunter.cli import job_submission
from shunter.cli.job_listings import client_of
from shunter.cli.stages import stage_table, table_of_job
from shunter.cli.terminal import Terminal
from shunter.client import Client, SubmittedJob
from shunter.client.handle import value_of
from shunter.codec import Codec
from shunter.errors import JobCancelled, JobFailed, ResultTimeout
from shunter.flow.job_progress import FlowProgress
from shunter.flow.terms import FLOW_JOB
from shunter.model.job import Job
from shunter.settings import Settings
from shunter.wire.messages import Outcome


def submit(
    settings: Settings,
    payload: bytes,
    options: dict[str, Any],
    *,
    wait: bool,
    wait_timeout: float | None,
    as_json: bool,
    codec: Codec | None = None,
) -> int:
    """Submit a flow job, watch it if asked to; return the exit code."""
    if as_json or not wait:
        return job_submission.submit(
            settings,
            FLOW_JOB,
            payload,
            options,
            wait=wait,
            wait_timeout=wait_timeout,
            as_json=as_json,
            codec=codec,
        )
    out, err = Terminal(), Terminal(stderr=True)
    with client_of(settings, codec=codec) as client:
        job = client.with_options(**options, reply=True).submit_raw(FLOW_JOB, payload)
        err.print(f"job {job.id}")
        if FLOW_JOB in client.unserved:
            err.print("no worker runs flows yet; start one with 'shunter worker --flows FOLDER'")
        outcome = _watched(client, job, wait_timeout, err)
    try:
        ended = msgspec.convert(value_of(outcome), FlowProgress)
    except (JobFailed, JobCancelled) as error:
        err.print(str(error), style="red", soft_wrap=True)
        return 1
    out.print(stage_table(ended.flow, ended.stages, ended.seconds))
    return 0


def _watched(
    client: Client, job: SubmittedJob[Any], timeout: float | None, err: Terminal
) -> Outcome:
    """Wait for a flow job, showing how far it has come where somebody sees it."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with Live(console=err, transient=True) as live:
        while True:
            left = job_submission.LOOK_SECONDS
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
            try:
                return job.wait(max(0.0, left))
            except ResultTimeout:
                if deadline is not None and time.monotonic() >= deadline:
                    raise ResultTimeout(job.id, timeout or 0.0) from None
            if err.is_terminal:
                live.update(_shown(client.job(job.id)))


def _shown(job: Job) -> RenderableType:
    return table_of_job(job) or Text(job.status.word)
