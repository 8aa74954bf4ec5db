"""What a client reads of jobs whose app has a codec: outcomes and records, opened if they can be.

A result that can't be opened is an error of the one who asked for it. A text that can't be opened
says so in its place, and a record keeps what can't be opened as it is: a list of jobs with many
keys is still a list.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from shunter.codec import (
    Codec,
    CodecContext,
    SealedField,
    is_sealed,
    label_of,
    open_document,
    open_text,
    seal,
    shown_sealed,
)
from shunter.errors import CodecError, JobRefused
from shunter.model.job import Failure, Job
from shunter.model.journal import EntryKind, JournalEntry
from shunter.model.unique import Then, Unique
from shunter.wire.messages import Outcome


def sealed_payload(codec: Codec | None, payload: bytes, job_id: str, job_type: str) -> bytes:
    """Return a payload as it is to be sent; one that is sealed already stays as it is."""
    if codec is None or is_sealed(payload):
        return payload
    return seal(codec, payload, CodecContext(SealedField.PAYLOAD, job_id, job_type))


def sealed_signal(codec: Codec | None, value: bytes, job_id: str) -> bytes:
    """Return the value of a signal as it is to be sent."""
    if codec is None:
        return value
    return seal(codec, value, CodecContext(SealedField.SIGNAL, job_id))


def opened_chunk(codec: Codec | None, chunk: bytes, job_id: str) -> Any:
    """Return the value of a chunk, or raise a CodecError."""
    return msgspec.msgpack.decode(_opened(codec, chunk, CodecContext(SealedField.CHUNK, job_id)))


_ENTRY_FIELDS = {EntryKind.STEP: SealedField.STEP, EntryKind.SIGNAL: SealedField.SIGNAL}


def opened_entry(codec: Codec | None, entry: JournalEntry) -> JournalEntry:
    """Return what a job has kept, opened if it can be."""
    field = _ENTRY_FIELDS.get(entry.kind)
    if codec is None or field is None:
        return entry
    with suppress(Exception):
        body = _opened(codec, entry.body, CodecContext(field, entry.job_id))
        return replace(entry, body=body)
    return entry


def sealed_entry(codec: Codec | None, entry: JournalEntry, job_id: str) -> JournalEntry:
    """Return what a job has kept as another job may have it; it was opened, if it could be."""
    if codec is None:
        return replace(entry, job_id=job_id)
    body = entry.body
    if is_sealed(body):
        raise CodecError(
            f"step {entry.key!r} of job {entry.job_id} is encrypted with key {label_of(body)!r}, "
            "which this codec can't open; give it that key"
        )
    sealed = seal(codec, body, CodecContext(_ENTRY_FIELDS[entry.kind], job_id))
    return replace(entry, job_id=job_id, body=sealed)


def check_unique(unique: Unique, job_id: str) -> None:
    """Raise JobRefused if sealed arguments can't be treated so: they are those of one job alone."""
    if unique.then == Then.REPLACE:
        raise JobRefused(
            job_id,
            "unique.then",
            "found replace, and with a codec arguments are sealed for one job alone; "
            "use postpone, or let the handler read what is current",
        )


def opened_payload(codec: Codec | None, payload: bytes, job_id: str, job_type: str) -> bytes:
    """Return a payload as its client made it, or raise a CodecError."""
    return _opened(codec, payload, CodecContext(SealedField.PAYLOAD, job_id, job_type))


def opened_result(codec: Codec | None, result: bytes, job_id: str) -> bytes:
    """Return a result as its handler made it, or raise a CodecError."""
    return _opened(codec, result, CodecContext(SealedField.RESULT, job_id))


def opened_text(codec: Codec | None, text: str, job_id: str, field: SealedField) -> str:
    """Return a text in its handler's words."""
    return text if codec is None else open_text(codec, text, CodecContext(field, job_id))


def opened_outcome(codec: Codec | None, outcome: Outcome) -> Outcome:
    """Return how a job ended, or raise a CodecError if that is a result nobody here can open."""
    result, error = outcome.result, outcome.error
    if result is not None and is_sealed(result):
        result = opened_result(codec, result, outcome.job_id)
    if error is not None and codec is not None:
        error = _changed_failure(
            error, lambda text, field: opened_text(codec, text, outcome.job_id, field)
        )
    if result is outcome.result and error is outcome.error:
        return outcome
    return Outcome(outcome.job_id, outcome.status, result, error)


def opened_job(codec: Codec | None, job: Job) -> Job:
    """Return a record with all that can be opened."""
    if codec is None:
        return job
    payload, result = job.payload, job.result
    with suppress(Exception):
        payload = payload and opened_payload(codec, payload, job.id, job.type)
    with suppress(Exception):
        result = result and opened_result(codec, result, job.id)

    return _with_texts(
        replace(job, payload=payload, result=result),
        lambda text, field: opened_text(codec, text, job.id, field),
    )


def shown_job(job: Job) -> Job:
    """Return a record with what could not be opened of its texts made short."""
    return _with_texts(job, lambda text, _: shown_sealed(text))


def is_same_call(codec: Codec | None, sent: bytes, holder: Job, *, job_id: str, type: str) -> bool:  # noqa: A002
    """True if a job that holds an id or a unique key is of the same type and arguments.

    Dispatchers compare bytes, and the same arguments are other bytes each time they are sealed.
    """
    if holder.type != type or holder.payload is None:
        return False
    try:
        mine = opened_payload(codec, sent, job_id, type)
        return mine == opened_payload(codec, holder.payload, holder.id, type)
    except CodecError:
        return False


def _with_texts(job: Job, change: Callable[[str, SealedField], str]) -> Job:
    return replace(
        job,
        error=job.error and _changed_failure(job.error, change),
        log=change(job.log, SealedField.LOG),
        progress=job.progress
        and replace(job.progress, note=change(job.progress.note, SealedField.NOTE)),
        history=tuple(
            replace(past, message=change(past.message, SealedField.MESSAGE)) for past in job.history
        ),
    )


def _changed_failure(error: Failure, change: Callable[[str, SealedField], str]) -> Failure:
    return replace(
        error,
        message=change(error.message, SealedField.MESSAGE),
        traceback=change(error.traceback, SealedField.TRACEBACK),
    )


def _opened(codec: Codec | None, document: bytes, context: CodecContext) -> bytes:
    if not is_sealed(document):
        return document
    if codec is None:
        label = label_of(document)
        raise CodecError(
            f"the {context.field} of job {context.job_id} is encrypted with key {label!r}, and "
            "this client has no codec; give it the app's: Client(codec=app.codec), or --app to a "
            "command",
            label=label,
        )
    return open_document(codec, document, context)
