"""How one run of a job reads its payload and says what came of it, with the app's codec or without.

All that a handler says is sealed: its result, its errors with their tracebacks, what it prints
and its notes. Words of Shunter's own stay readable, and so does the kind of a failure.
What a codec raises is the run's failure: for good if it is a CodecError, and else to be tried
again as the job's retries allow. Must not know processes or sockets. Spec: docs/spec/codec.md.
"""

from __future__ import annotations

from msgspec.structs import replace

from shunter.app import App
from shunter.codec import (
    CodecContext,
    SealedField,
    is_sealed,
    label_of,
    open_document,
    open_text,
    seal,
)
from shunter.codec import seal_text as sealed_text
from shunter.errors import AppError, CodecError
from shunter.model.job import ErrorKind, Failure
from shunter.model.journal import LiveLog, encode_live_log
from shunter.model.limits import MAX_NOTE_BYTES
from shunter.wire.messages import Outcome

MAX_TEXT_BYTES = 44_000
"""So much of an error is sealed that its base64 fits into a report over HTTP (`http/offers.py`)."""

_NOTE_BYTES = MAX_NOTE_BYTES * 3 // 4 - 256
"""So much of a note is sealed that it still fits when it is written in base64."""


class RunSeal:
    """Seals what one run says. Without a codec it changes nothing."""

    __slots__ = ("_codec", "_job_id", "_job_type", "_may_be_plain")

    def __init__(self, app: App, job_id: str, job_type: str) -> None:
        self._codec, self._may_be_plain = app.codec, app.accept_plain or app.codec is None
        self._job_id, self._job_type = job_id, job_type

    def opened(self, payload: bytes) -> bytes | Failure:
        """Return the payload as its client made it, or why the run can't begin."""
        if not is_sealed(payload):
            if self._may_be_plain:
                return payload
            return _refused(
                "the payload came unencrypted, and this worker's app has a codec; submit it with "
                "Client(codec=...) or shunter submit --app, or let the app take it: "
                "App(codec=..., accept_plain=True)"
            )
        if self._codec is None:
            return _refused(
                f"the payload is encrypted with key {label_of(payload)!r}, and this worker's app "
                "has no codec; give it one that has this key: App(codec=...)"
            )
        context = CodecContext(SealedField.PAYLOAD, self._job_id, self._job_type)
        try:
            return open_document(self._codec, payload, context)
        except CodecError as error:
            return _refused(str(error))
        except Exception as error:
            return self._broken("decode the payload", error)

    def result(self, result: bytes) -> bytes | Failure:
        """Return the result as it may leave the worker, or why it can't."""
        if self._codec is None:
            return result
        try:
            return seal(self._codec, result, CodecContext(SealedField.RESULT, self._job_id))
        except CodecError as error:
            return _refused(str(error))
        except Exception as error:
            return self._broken("encode the result", error)

    def document(self, document: bytes, field: SealedField) -> bytes:
        """Return a result of a step, or a chunk, as it may leave the worker, or raise AppError."""
        if self._codec is None:
            return document
        try:
            return seal(self._codec, document, CodecContext(field, self._job_id))
        except Exception as error:
            raise AppError(self._broken(f"encode the {field}", error).message) from None

    def opened_document(self, document: bytes, field: SealedField) -> bytes:
        """Return what was kept as it was before it was sealed, or raise AppError."""
        if not is_sealed(document):
            return document
        if self._codec is None:
            raise AppError(
                f"it is encrypted with key {label_of(document)!r}, and this worker's app has no "
                "codec; give it one that has this key: App(codec=...)"
            )
        try:
            return open_document(self._codec, document, CodecContext(field, self._job_id))
        except Exception as error:
            raise AppError(self._broken(f"decode the {field}", error).message) from None

    def payload(self, payload: bytes, job_id: str, job_type: str) -> bytes:
        """Return the arguments of another job as they may leave the worker, or raise AppError."""
        if self._codec is None:
            return payload
        context = CodecContext(SealedField.PAYLOAD, job_id, job_type)
        try:
            return seal(self._codec, payload, context)
        except Exception as error:
            raise AppError(self._broken("encode the payload", error).message) from None

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return how another job of this app ended, opened, or raise AppError."""
        result, error, codec = outcome.result, outcome.error, self._codec
        if codec is None:
            return outcome
        if result is not None and is_sealed(result):
            context = CodecContext(SealedField.RESULT, outcome.job_id)
            try:
                result = open_document(codec, result, context)
            except Exception as fault:
                raise AppError(self._broken("decode the result", fault).message) from None
        if error is not None:
            context = CodecContext(SealedField.MESSAGE, outcome.job_id)
            error = replace(error, message=open_text(codec, error.message, context))
        return replace(outcome, result=result, error=error)

    def parent_result(self, job_id: str, result: bytes) -> bytes:
        """Return the result of another job as its handler returned it, or raise a CodecError."""
        if not is_sealed(result):
            return result
        if self._codec is None:
            raise CodecError(
                f"the result of job {job_id} is encrypted with key {label_of(result)!r}, and this "
                "worker's app has no codec; give it one that has this key: App(codec=...)"
            )
        return open_document(self._codec, result, CodecContext(SealedField.RESULT, job_id))

    def failure(self, failure: Failure) -> Failure:
        """Return a failure in a handler's words as it may leave the worker."""
        if self._codec is None:
            return failure
        return replace(
            failure,
            message=self._text(SealedField.MESSAGE, cut(failure.message, MAX_TEXT_BYTES)),
            traceback=self._text(SealedField.TRACEBACK, cut(failure.traceback, MAX_TEXT_BYTES)),
        )

    def message(self, text: str) -> str:
        """Return the message of a failure as its handler said it, as far as it can be opened."""
        if self._codec is None:
            return text
        return open_text(self._codec, text, CodecContext(SealedField.MESSAGE, self._job_id))

    def log(self, text: str) -> str:
        """Return what a handler printed as it may leave the worker."""
        return text if self._codec is None else self._text(SealedField.LOG, text)

    def live_log(self, log: LiveLog) -> bytes:
        """Return the end of what a handler has printed so far as it may leave the worker."""
        return encode_live_log(replace(log, text=self.log(log.text)))

    def note(self, note: str) -> str:
        """Return the note of a progress as it may leave the worker, within its limit."""
        if self._codec is None:
            return cut(note, MAX_NOTE_BYTES)
        sealed = self._text(SealedField.NOTE, cut(note, _NOTE_BYTES))
        return sealed if len(sealed) <= MAX_NOTE_BYTES else ""

    def _text(self, field: SealedField, text: str) -> str:
        assert self._codec is not None
        try:
            return sealed_text(self._codec, text, CodecContext(field, self._job_id))
        except Exception as error:
            return self._broken(f"encode the {field}", error).message

    def _broken(self, step: str, error: Exception) -> Failure:
        what = f"{type(error).__name__}: {error}"
        message = f"{type(self._codec).__name__} could not {step}, it raised {what}"
        return Failure(ErrorKind.EXCEPTION, cut(message, MAX_NOTE_BYTES))


def cut(text: str, most: int) -> str:
    """Return the beginning that fits into so many bytes, of whole characters."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")


def _refused(message: str) -> Failure:
    return Failure(ErrorKind.REFUSED, message)
