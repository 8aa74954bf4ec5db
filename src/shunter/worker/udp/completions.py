"""How the end of a run is told to a dispatcher, in a packet that has little room. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from shunter.codec import is_sealed_text
from shunter.model.document import NIL
from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Report
from shunter.wire.udp.methods import CompletedTask, Packed, PerformTask
from shunter.wire.udp.packets import PacketReason

MESSAGE_CHARACTERS = 600
"""What is left of an error: it fits, whatever its characters take, since most take one byte."""
SHORTEST_CHARACTERS = 80


def completion(task: PerformTask, report: Report) -> CompletedTask:
    """Write how a task ended, under the names that it came with."""
    if (error := report.error) is not None:
        told = failed(task, shown_failure(error))
        completed = replace(told, is_final=error.is_final or None, wait=error.wait)
    else:
        nothing = report.result is None or report.result == NIL
        completed = CompletedTask(
            task_id=task.task_id,
            attempt=task.attempt,
            result=None if nothing else Packed(report.result or NIL),
        )
    if task.attempt is None or report.waited is None or report.ran is None:
        return completed  # who sends no attempt is another's dispatcher, and expects no more
    return replace(completed, waited=round(report.waited, 6), ran=round(report.ran, 6))


def failed(task: PerformTask, message: str, *, most: int = MESSAGE_CHARACTERS) -> CompletedTask:
    """Write that a task failed, with as much of the message as `most` allows."""
    kept = message if len(message) <= most else f"{message[: most - 3]}..."
    return CompletedTask(task_id=task.task_id, attempt=task.attempt, error=kept)


def smaller(task: PerformTask, completed: CompletedTask, reason: str) -> CompletedTask | None:
    """Return what to send instead of a completion that no packet holds, while there is less.

    How long it took is the first that is left out.
    """
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
