"""Records as rows, and back.

Rows are written as tuples of parameters. They are read as one JSON text that holds many of them
(`statements.py` says why), which msgspec turns into records in one go. What a claim or a renewal
wrote beside the document is laid over it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from shunter.model.job import FINAL, Dispatch, Job, Status
from shunter.model.lane_claim import LanePlace
from shunter.model.lifecycle import WorkerSlot, started_at_once
from shunter.model.queue_order import alarm, deadline, limit_place, place, rank, total_place
from shunter.model.worker import Worker

Parameters = tuple[Any, ...]


class ClaimMark(Dispatch, frozen=True, omit_defaults=True):
    """What a claim wrote beside the document: whose it is, and where it started the job at once.

    `held` are the places that the job has under limits. One of nobody's, which older versions
    wrote, says that the job was woken then, and is queued.
    """

    slot: WorkerSlot | None = None
    held: LanePlace | None = None


class JobRow(Struct, frozen=True, array_like=True):
    """A job as it stands in the text.

    Bytes are hexadecimal. For those that are too big for that their number is given; they are
    fetched by themselves.
    """

    seq: int
    revision: int
    claim: ClaimMark | float | None  # a number is when it was woken
    job: Job
    result: str | int | None
    payload: str | int | None

    @property
    def payload_bytes(self) -> int:
        found = self.payload
        return found if type(found) is int else len(found or "") // 2  # type: ignore[arg-type]


class WorkerRow(Struct, frozen=True, array_like=True):
    """A worker as it stands in the text, with the jobs it holds: id and place of each."""

    last_pinged: float
    is_dead: int
    revision: int
    worker: Worker
    jobs: tuple[tuple[str, str | None], ...]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(int(taken.rpartition("/")[2]) for _, taken in self.jobs if taken is not None)


_encode = msgspec.json.Encoder().encode
_decode_jobs = msgspec.json.Decoder(list[JobRow]).decode
_decode_workers = msgspec.json.Decoder(list[WorkerRow]).decode


def as_json(value: object) -> str:
    """Return the value as JSON text, as the statements want lists and claims."""
    return _encode(value).decode()


def woken_mark(now: float) -> str:
    """What stands beside the document of a job that was parked and is queued since then.

    It is short, because a row that grows makes its page overflow.
    """
    return as_json(float(now))


def inserted(job: Job) -> Parameters:
    """The parameters of `statements.insert_jobs` for one job."""
    return (
        job.id,
        job.revision,
        job.status._value_,
        job.type,
        rank(job),
        alarm(job),
        job.execution.worker_id,
        job.unique_key,
        job.namespace,
        _ended(job),
        _document(job),
        job.result,
        deadline(job),
        job.lane,
        limit_place(job),
        total_place(job),
        job.run,
    )


def replaced(job: Job, *, is_told: bool = False) -> Parameters:
    """The parameters of `statements.replace_jobs` for one job; one whose dependents all know."""
    result = job.result
    if is_told:
        job = replace(job, payload=None, result=None, parents=b"", dependents=False)
    return (
        job.id,
        job.revision,
        job.status._value_,
        alarm(job),
        job.execution.worker_id,
        _ended(job),
        _document(job),
        result,
        place(job),
        deadline(job),
        job.lane,
        limit_place(job),
        total_place(job),
    )


def delivered(job: Job) -> Parameters:
    """The parameters of `statements.deliver_callbacks` for one job."""
    callback = None if job.callback is None else as_json(job.callback)
    return job.id, job.revision, alarm(job), callback, int(job.dependents)


def registered(worker: Worker) -> Parameters:
    """The parameters of `statements.put_workers` for one worker."""
    document = as_json(replace(worker, jobs=(), places=()))
    pinged = as_json(worker.last_pinged)
    return worker.id, worker.revision, pinged, int(worker.is_dead), document


def jobs_in(
    text: str | None,
    *,
    claim: Dispatch | None = None,
    bytes_apart: Callable[[str, list[int]], Iterable[tuple[int, bytes]]],
    keep: Callable[[list[JobRow]], list[JobRow]] | None = None,
) -> list[Job]:
    """Read jobs from the text. `claim` is one that was made of all of them just now.

    `bytes_apart` fetches what did not travel in the text, by column and seqs, of those rows that
    `keep` returns.
    """
    rows = _decode_jobs(text) if text else []
    if keep is not None:
        rows = keep(rows)
    for row in rows:
        job = row.job
        if claim is not None:
            _claim(job, claim, row.revision + 1)
        elif isinstance(mark := row.claim, float):
            _wake(job, mark, row.revision)
        elif mark is not None:
            if mark.id:
                _claim(job, Dispatch(mark.id, mark.date, mark.expiry), row.revision)
            else:
                _wake(job, mark.date, row.revision)
            if mark.slot is not None:
                job = started_at_once(job, mark.slot, mark.held)
                force_setattr(row, "job", job)
        if type(row.payload) is str:
            force_setattr(job, "payload", bytes.fromhex(row.payload))
        if type(row.result) is str:
            force_setattr(job, "result", bytes.fromhex(row.result))
    for column in ("payload", "result"):
        apart = {row.seq: row.job for row in rows if type(getattr(row, column)) is int}
        if apart:
            for seq, body in bytes_apart(column, list(apart)):
                force_setattr(apart[seq], column, body)
    return [row.job for row in rows]


def _claim(job: Job, made: Dispatch, revision: int) -> None:
    """Lay a claim over a job that was just read, and that nobody else has yet."""
    force_setattr(job, "status", Status.DISPATCHING)
    force_setattr(job, "revision", revision)
    force_setattr(job, "updated", made.date)
    force_setattr(job, "dispatcher", made)


def _wake(job: Job, since: float, revision: int) -> None:
    """Lay over a job that was just read that it was woken."""
    force_setattr(job, "status", Status.QUEUED)
    force_setattr(job, "revision", revision)
    force_setattr(job, "updated", since)


def workers_in(text: str | None) -> list[Worker]:
    """Read workers from the text."""
    return [
        replace(
            row.worker,
            last_pinged=row.last_pinged,
            is_dead=bool(row.is_dead),
            revision=row.revision,
            jobs=tuple(job_id for job_id, _ in row.jobs),
            places=row.places,
        )
        for row in (_decode_workers(text) if text else [])
    ]


def _document(job: Job) -> str:
    if job.payload is not None or job.result is not None:
        job = replace(job, payload=None, result=None, parents=b"")
    return _encode(job).decode()


def _ended(job: Job) -> float | None:
    """When a final job ended; one that was never closed properly counts from its last change."""
    if job.status not in FINAL:
        return None
    return job.updated if job.execution.ended is None else job.execution.ended
