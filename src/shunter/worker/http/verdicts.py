"""What a dispatcher's answer to a report means for the report. Pure."""

from __future__ import annotations

from enum import Enum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Report

UNKNOWN_WORKER = "unknown_worker"
SHOWN_CHARACTERS = 500

_LATER = {401, 408, 425, 429}
"""A key may be so new that this dispatcher has not read it yet."""

_UNACCEPTABLE = {400, 413, 422}


class Verdict(Enum):
    """What becomes of a report."""

    TAKEN = "it is committed"
    DROPPED = "it does not count and never will"
    AGAIN = "nobody has decided on it; try again"
    UNKNOWN = "this dispatcher does not know us; register, then try again"
    LESSENED = "it can't be taken as it is; say so in its place"


class HttpError(Struct, frozen=True):
    """The part of an error document that we go by."""

    code: str = ""
    message: str = ""
    field: str | None = None


class _Faulty(Struct, frozen=True):
    error: HttpError = HttpError()


def fault_in(body: bytes) -> HttpError:
    """Read an error document; whatever else it is, it says nothing but itself."""
    try:
        return msgspec.json.decode(body, type=_Faulty).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return HttpError(message=body[:SHOWN_CHARACTERS].decode(errors="replace"))


def verdict_on(report: Report, status: int, fault: HttpError) -> Verdict:
    """Decide by the status, and by the words of a refusal."""
    if 200 <= status < 300:
        return Verdict.TAKEN
    if fault.code == UNKNOWN_WORKER or (status == 404 and fault.field == "worker_id"):
        return Verdict.UNKNOWN
    if status >= 500 or status < 400 or status in _LATER:
        return Verdict.AGAIN
    if status in _UNACCEPTABLE and lessened(report, fault) != report:
        return Verdict.LESSENED
    return Verdict.DROPPED


def lessened(report: Report, fault: HttpError) -> Report:
    """Return a report that fits anywhere: that the result, or the traceback, was not taken.

    What a dispatcher of an earlier version does not know is left out first, and without a word: the
    handler's retries, then the log.
    """
    if report.retry is not None and fault.field == "retry":
        return replace(report, retry=None)
    if report.log:
        return replace(report, log="")
    if report.error is not None:
        return replace(report, error=replace(report.error, traceback=""))
    message = f"the dispatcher does not take its result: {fault.message[:SHOWN_CHARACTERS]}"
    return replace(report, result=None, error=Failure(ErrorKind.REFUSED, message))
