"""What an exception from a handler becomes in the job's record.

Whatever a handler raises, also what can't be printed, gives a failure of bounded size.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from shunter.context import Fail, Snooze
from shunter.errors import StepRefused
from shunter.model.job import ErrorKind, Failure
from shunter.model.retry import Retry

MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 16 << 10

_OWN_FOLDERS = (str(Path(__file__).parent), str(Path(__file__).parents[1] / "handler"))
_LEADING_FOLDERS = (*_OWN_FOLDERS, str(Path(traceback.__file__).parent / "asyncio"))


def failure_of(error: BaseException, *policies: Retry | None) -> Failure:
    """Describe what a handler raised, and whether another try makes sense.

    That is up to the first of these policies that names classes of errors.
    """
    if isinstance(error, Snooze):
        message = _shortened(str(error), MESSAGE_LIMIT)
        return Failure(ErrorKind.SNOOZED, message, wait=error.seconds)
    if isinstance(error, Fail):
        message = _shortened(_text(error) or "its handler gave no reason", MESSAGE_LIMIT)
        return Failure(ErrorKind.EXCEPTION, message, _traceback(error), is_final=True)
    policy = next((policy for policy in policies if policy and policy.has_classes), None)
    is_final = isinstance(error, StepRefused)
    is_final = is_final or (policy is not None and not policy.covers(error))
    return Failure(ErrorKind.EXCEPTION, _message(error), _traceback(error), is_final=is_final)


def _message(error: BaseException) -> str:
    name, text = type(error).__name__, _text(error)
    if isinstance(error, MemoryError):
        text = f"out of memory; {text}" if text else "out of memory"
    return _shortened(f"{name}: {text}" if text else name, MESSAGE_LIMIT)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "(its message can't be printed)"


def _traceback(error: BaseException) -> str:
    try:
        trace = _of_the_handler(error.__traceback__)
        told = traceback.TracebackException(type(error), error, trace)
        _leave_out_own_frames(told)
        lines = list(told.format())
    except BaseException:
        return ""
    return _shortened("".join(lines), TRACEBACK_LIMIT)


def _of_the_handler(trace: TracebackType | None) -> TracebackType | None:
    """Skip the frames that led to the handler."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_LEADING_FOLDERS):
        trace = trace.tb_next
    return trace


def _leave_out_own_frames(told: traceback.TracebackException) -> None:
    """Leave out what lies between arounds and the handler, also of what led to the error."""
    todo: list[traceback.TracebackException | None] = [told]
    while todo:
        if (each := todo.pop()) is None:
            continue
        users = [frame for frame in each.stack if not frame.filename.startswith(_OWN_FOLDERS)]
        if users:
            each.stack[:] = users
        todo += [each.__cause__, each.__context__, *(each.exceptions or ())]


def _shortened(text: str, limit: int) -> str:
    text = text.encode(errors="replace").decode()
    if len(text) <= limit:
        return text
    head, tail = limit // 4, limit - limit // 4
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[-tail:]}"
