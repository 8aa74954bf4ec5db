"""How the end of a run is told to a dispatcher, in a packet that has little room. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import asdict, replace

from shunter.codec import is_sealed_text
from shunter.model.document import NIL
from shunter.model.job import ErrorKind, Failure
from shunter.model.job_log import end_of_log
from shunter.model.journal import LiveLog
from shunter.model.report import Report
from shunter.wire.udp.methods import CompletedTask, Packed, PerformTask, TaskLog, TaskRetry
from shunter.wire.udp.packets import PacketReason

MESSAGE_CHARACTERS = 600
"""What is left of an error: it fits, whatever its characters take, since most take one byte."""
SHORTEST_CHARACTERS = 80


def completion(task: PerformTask, report: Report, *, most_log: int = 0) -> CompletedTask:
    """Write how a task ended, under the names that it came with, and the end of its log."""
    if (error := report.error) is not None:
        told = failed(task, shown_failure(error))
        completed = replace(
            told,
            is_final=error.is_final or None,
            is_told=error.is_told or None,
            wait=error.wait,
        )
    else:
        nothing = report.result is None or report.result == NIL
        completed = CompletedTask(
            task_id=task.task_id,
            attempt=task.attempt,
            result=None if nothing else Packed(report.result or NIL),
        )
    if task.attempt is None:
        return completed  # who sends no attempt is another's dispatcher, and expects no more
    is_raised = report.error is not None and report.error.kind is ErrorKind.EXCEPTION
    if is_raised and report.retry is not None:  # any other error looks alike to a dispatcher
        completed = replace(completed, retry=TaskRetry(**asdict(report.retry.without_classes)))
    if report.waited is not None and report.ran is not None:
        completed = replace(completed, waited=round(report.waited, 6), ran=round(report.ran, 6))
    return _with_log(completed, report.log, most=most_log)


def task_logs(task: PerformTask, log: LiveLog) -> Iterator[TaskLog]:
    """Yield what to tell of the log of a task, ever less of it; an encrypted one can't be cut."""
    told = log
    while told.text:
        start = told.start or None
        yield TaskLog(task_id=task.task_id, attempt=task.attempt, log=told.text, start=start)
        if is_sealed_text(log.text):
            return
        raw = told.text.encode()
        told = end_of_log(raw, printed=told.start + len(raw), most=len(raw) // 2)


def _with_log(completed: CompletedTask, log: str, *, most: int) -> CompletedTask:
    """Return a completion with the end of a log, if it has one that may be cut."""
    if not log or not most or is_sealed_text(log):
        return completed
    raw = log.encode()
    end = end_of_log(raw, printed=len(raw), most=most)
    return replace(completed, log=end.text, start=end.start or None)


def failed(task: PerformTask, message: str, *, most: int = MESSAGE_CHARACTERS) -> CompletedTask:
    """Write that a task failed, with as much of the message as `most` allows."""
    kept = message if len(message) <= most else f"{message[: most - 3]}..."
    return CompletedTask(task_id=task.task_id, attempt=task.attempt, error=kept)


def smaller(task: PerformTask, completed: CompletedTask, reason: str) -> CompletedTask | None:
    """Return what to send instead of a completion that no packet holds, while there is less.

    The log is the first that is left out, and how long it took the second.
    """
    if completed.log is not None:
        raw, start = completed.log.encode(), completed.start or 0
        end = end_of_log(raw, printed=start + len(raw), most=len(raw) // 2)
        is_short = len(raw) <= SHORTEST_CHARACTERS
        log = LiveLog(0, "") if is_short else end
        return replace(completed, log=log.text or None, start=log.start or None)
    if completed.ran is not None:
        return replace(completed, waited=None, ran=None)
    if completed.error is None:
        return failed(
            task, f"the result does not fit: {reason}; store it elsewhere and return its address"
        )
    if len(completed.error) <= SHORTEST_CHARACTERS:
        return None
    shorter = failed(
        task, completed.error, most=max(len(completed.error) // 2, SHORTEST_CHARACTERS)
    )
    return replace(completed, error=shorter.error)


def after_refusal(
    task: PerformTask, completed: CompletedTask, code: str, message: str
) -> CompletedTask | None:
    """Return what to send after a refusal: a result that can't be read becomes an error, once."""
    if completed.error is not None or code not in set(PacketReason):
        return None
    return failed(task, f"the dispatcher can't read the result: {message}")


def shown_failure(failure: Failure) -> str:
    """Say what went wrong: the kind unless it is the usual one, the message, what was raised."""
    is_usual = failure.kind is ErrorKind.EXCEPTION
    text = failure.message if is_usual else f"{failure.kind}: {failure.message}"
    if failure.ended_by:
        text += f" (ended by {failure.ended_by})"
    last = failure.traceback.rstrip().rpartition("\n")[2].strip()
    if last and last not in failure.message and not is_sealed_text(last):
        text += f" [{last}]"
    return text
