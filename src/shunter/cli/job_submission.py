"""`shunter submit`: from words on a command line to a job, and back to a result."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import msgspec
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from shunter.app import payload_of
from shunter.cli.job_listings import client_of
from shunter.cli.terminal import Terminal, json_line
from shunter.client import Client, SubmittedJob
from shunter.client.handle import value_of
from shunter.codec import Codec
from shunter.errors import AppError, JobCancelled, JobFailed, ResultTimeout
from shunter.model.retry import Retry
from shunter.model.unique import Unique
from shunter.settings import Settings
from shunter.wire.messages import Outcome

LOOK_SECONDS = 0.5
"""How often a wait looks how far the job has come."""

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)


def payload_from(arguments: list[str], payload: str | None) -> bytes:
    """Build a payload from words, each JSON or plain text, or from one JSON document."""
    if payload is not None:
        if arguments:
            raise AppError("arguments and --payload were both given; give one of the two")
        try:
            return msgspec.msgpack.encode(json.loads(payload))
        except json.JSONDecodeError as error:
            raise AppError(f"--payload is not JSON: {error}; found {payload[:80]!r}") from None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for word in arguments:
        if named := _NAMED.match(word):
            kwargs[named[1]] = _value(named[2])
        else:
            args.append(_value(word))
    return payload_of(*args, **kwargs)


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word


def keys_from(words: list[str] | None) -> dict[str, str] | None:
    """Read what was said by --key, or raise an AppError."""
    keys: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise AppError(f"--key {word!r} has no value; write NAME=VALUE, as in tenant=acme")
        if name in keys:
            raise AppError(f"--key {name!r} is given twice; give each key once")
        keys[name] = value
    return keys or None


def options_from(
    *,
    retries: int | None,
    unique_key: str | None = None,
    unique: tuple[float | None, str | None, str | None] = (None, None, None),
    **options: Any,
) -> dict[str, Any]:
    """Collect what was said about the job; `unique` is the rule for its key."""
    if retries is not None:
        options["retry"] = Retry(limit=retries)
    within, during, then = unique
    if unique == (None, None, None):
        options["unique_key"] = unique_key
    elif unique_key is None:
        raise AppError("--unique-within, --unique-during and --unique-then go with --unique-key")
    else:
        options["unique"] = Unique(unique_key, within, during or "", then or "keep")
    return {name: value for name, value in options.items() if value is not None}


def submit(
    settings: Settings,
    job_type: str,
    payload: bytes,
    options: dict[str, Any],
    *,
    wait: bool,
    wait_timeout: float | None,
    as_json: bool,
    codec: Codec | None = None,
) -> int:
    """Submit, wait if asked to, print; return the exit code."""
    out, err = Terminal(soft_wrap=True), Terminal(stderr=True)
    with client_of(settings, codec=codec) as client:
        job = client.with_options(**options, reply=wait).submit_raw(job_type, payload)
        if job_type in client.unserved and not as_json:
            missing = (f"no worker does {job_type!r} yet", "yellow")
            meant = client.similar.get(job_type)
            question = f"; did you mean {meant!r}?" if meant else ""
            waits = f"; the job is stored and waits for one{question}"
            err.print(Text.assemble(missing, waits), soft_wrap=True)
        if not wait:
            out.print(json_line({"id": job.id}) if as_json else job.id)
            return 0
        outcome = _wait(client, job, wait_timeout, err)
        try:
            value = value_of(outcome)
        except (JobFailed, JobCancelled) as error:
            if as_json:
                found = msgspec.to_builtins(outcome.error)
                document = {"id": job.id, "status": outcome.status.word, "error": found}
                out.print(json_line(document))
            else:
                err.print(str(error), style="red")
                if isinstance(error, JobFailed) and error.traceback:
                    err.print(error.traceback.rstrip())
            return 1
        document = {"id": job.id, "status": outcome.status.word, "result": value}
        if as_json:
            out.print(json_line(document), highlight=False)
        else:
            out.print_result(value if isinstance(value, str) else json_line(value))
        return 0


def _wait(client: Client, job: SubmittedJob[Any], timeout: float | None, err: Terminal) -> Outcome:
    """Wait for a job, showing how far it says it has come."""
    deadline = None if timeout is None else time.monotonic() + timeout
    said = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), said, BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        bar = progress.add_task(f"job {job.id}", total=None)
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                return job.wait(LOOK_SECONDS if left is None else min(left, LOOK_SECONDS))
            except ResultTimeout:
                if left is not None and left <= LOOK_SECONDS:
                    raise ResultTimeout(job.id, timeout or 0.0) from None
            if err.is_terminal and (found := client.job(job.id).progress):
                progress.update(bar, completed=found.done, total=found.total)
