"""What users pass to clients, checked before anything is sent: each fault names field and remedy.

Values that are of the right type and out of range are the dispatcher's to refuse. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import ValidationError, convert

from shunter.app import JobFunction
from shunter.errors import AppError, JobRefused, LimitsRefused, PauseRefused, SettingsError
from shunter.model.job import Status
from shunter.model.limits_record import LimitsChange
from shunter.model.pause import PauseTarget
from shunter.model.spelling import did_you_mean
from shunter.wire.messages import JobsAsked

SEAL_BYTES = 16
"""By so much a payload may be above what clients send: what a seal adds."""

QUERIES = tuple(field for field in JobsAsked.__struct_fields__ if field not in ("request", "parts"))

_TEXT_QUERIES = ("type", "worker_id", "before", "namespace", "run")


def checked_names(options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise a JobRefused if an option is none that a submission has."""
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known)
            raise JobRefused(
                "(not sent)", name, f"no such option; there are {', '.join(known)}{hint}"
            )


def checked_ids(where: str, job_ids: object) -> tuple[str, ...]:
    """Return ids of jobs; raise a SettingsError for what is no list of texts."""
    if isinstance(job_ids, Iterable) and not isinstance(job_ids, str | bytes):
        ids = tuple(job_ids)
        if all(isinstance(job_id, str) for job_id in ids):
            return ids
    raise SettingsError(where, "job_ids", repr(job_ids), "a list of ids, each a text")


def checked_type(job: object) -> str:
    """Return the type that a job is of; raise an AppError for what is none."""
    if isinstance(job, JobFunction):
        return job.name
    if isinstance(job, str):
        return job
    remedy = "pass the name of its type, or a function that @app.job has declared"
    raise AppError(f"{job!r} is no job; {remedy}")


def checked_query(query: dict[str, Any]) -> dict[str, Any]:
    """Return what jobs to list, with the status that a word means; raise a SettingsError."""
    for name in query:
        if name not in QUERIES:
            hint = did_you_mean(name, QUERIES)
            raise SettingsError("jobs()", name, "no such filter", f"{', '.join(QUERIES)}{hint}")
    if query.get("job_ids"):
        query = {**query, "job_ids": checked_ids("jobs()", query["job_ids"])}
    for name in _TEXT_QUERIES:
        if not isinstance(query.get(name), str | None):
            raise SettingsError("jobs()", name, repr(query[name]), "a text")
    if "limit" in query and (type(query["limit"]) is not int or query["limit"] < 1):
        raise SettingsError("jobs()", "limit", repr(query["limit"]), "a whole number from 1 on")
    status = query.get("status")
    if status is None or isinstance(status, Status):
        return query
    return {**query, "status": _status(status)}


def _status(word: object) -> Status:
    written = word.replace("_", " ").replace("-", " ") if isinstance(word, str) else ""
    for status in Status:
        if written in (status.value, status.word):
            return status
    words = ", ".join(status.word for status in Status)
    hint = did_you_mean(written, [status.word for status in Status])
    raise SettingsError("jobs()", "status", repr(word), f"{words}{hint}")


def checked_change(job_type: str, change: dict[str, Any]) -> LimitsChange:
    """Read what is to be changed, or raise LimitsRefused."""
    try:
        return convert(change, LimitsChange)
    except ValidationError as error:
        raise LimitsRefused(job_type, "change", f"{error}; send numbers, names as text") from None


def checked_drain(worker_id: str, version: str) -> tuple[PauseTarget, str]:
    """Return what is meant: a worker, or a version."""
    if bool(worker_id) is bool(version):
        raise PauseRefused(
            "worker", worker_id, "name the worker's id or version=..., one of the two"
        )
    if version:
        return PauseTarget.VERSION, version
    return PauseTarget.WORKER, worker_id


def check_size(payload: bytes, most: int, job_id: str) -> None:
    """Raise JobRefused if a payload is larger than a client sends; a codec may add a little."""
    if len(payload) > most + SEAL_BYTES:
        raise JobRefused(
            job_id,
            "payload",
            f"{len(payload):,} bytes; at most {most:,} are accepted; "
            "store the data elsewhere and send its address",
        )
