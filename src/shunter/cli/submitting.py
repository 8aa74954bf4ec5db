"""`shunter submit`: from words on a command line to a job, and back to a result."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from shunter.app import payload_of
from shunter.cli.inspecting import ANSWER_SECONDS
from shunter.client import Client
from shunter.client.handle import value_of
from shunter.errors import AppError, JobCancelled, JobFailed
from shunter.model.retry import Retry

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


def options_from(*, retries: int | None, **options: Any) -> dict[str, Any]:
    """Collect what was said about the job."""
    if retries is not None:
        options["retry"] = Retry(limit=retries)
    return {name: value for name, value in options.items() if value is not None}


def submit(
    dispatchers: tuple[str, ...],
    job_type: str,
    payload: bytes,
    options: dict[str, Any],
    *,
    wait: bool,
    wait_timeout: float | None,
    as_json: bool,
) -> int:
    """Submit, wait if asked to, print; return the exit code."""
    out, err = Console(soft_wrap=True), Console(stderr=True)
    with Client(*dispatchers, timeout=ANSWER_SECONDS) as client:
        job = client.with_options(**options, reply=wait).submit_raw(job_type, payload)
        if job_type in client.unserved and not as_json:
            err.print(
                f"[yellow]no worker does {escape(job_type)!r} yet[/yellow]; the job is stored "
                "and waits for one",
            )
        if not wait:
            out.print(_json({"id": job.id}) if as_json else job.id, markup=False)
            return 0
        with err.status(f"job {job.id} is under way"):
            outcome = job.wait(wait_timeout)
        try:
            value = value_of(outcome)
        except (JobFailed, JobCancelled) as error:
            if as_json:
                out.print(
                    _json(
                        {
                            "id": job.id,
                            "status": outcome.status.word,
                            "error": msgspec.to_builtins(outcome.error),
                        }
                    ),
                    markup=False,
                )
            else:
                err.print(f"[red]{escape(str(error))}[/red]")
                if isinstance(error, JobFailed) and error.traceback:
                    err.print(escape(error.traceback.rstrip()))
            return 1
        document = {"id": job.id, "status": outcome.status.word, "result": value}
        out.print(_json(document) if as_json else _shown(value), markup=False, highlight=False)
        return 0


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
