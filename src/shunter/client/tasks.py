"""Which tasks of a UDP client are under way, and what the notices about them mean. Pure.

A notice of success wants to be confirmed, and a confirmation says that the client has the result.
So a notice about a task that is not known here is left alone: a client that was started anew on
the same address may still be about to ask for it. One that comes again, also under another
transmission id, is confirmed again and changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum

from shunter.model.job import ErrorKind, Failure, Status
from shunter.wire.messages import Outcome
from shunter.wire.udp.methods import NotifyTask

MAX_ENDED = 100_000
"""So many ended tasks are remembered, to confirm a notice that comes once more."""

TaskName = int | str


class NoticeVerdict(Enum):
    """What to do about a notice."""

    SETTLE = "the task has ended: confirm, and tell whoever waits"
    AGAIN = "that is known already: confirm"
    UNKNOWN = "no task of ours: leave it alone"


class Tasks:
    """The tasks of one client, by their ids there."""

    def __init__(self, *, max_ended: int = MAX_ENDED) -> None:
        self._under_way: set[TaskName] = set()
        self._ended: OrderedDict[TaskName, None] = OrderedDict()
        self._max_ended = max_ended

    def __len__(self) -> int:
        return len(self._under_way)

    def add(self, task_id: TaskName) -> bool:
        """Note a task; False where one of this id is under way already."""
        if task_id in self._under_way:
            return False
        self._ended.pop(task_id, None)
        self._under_way.add(task_id)
        return True

    def drop(self, task_id: TaskName) -> None:
        """Forget a task that was not accepted."""
        self._under_way.discard(task_id)

    def notified(self, notice: NotifyTask) -> NoticeVerdict:
        """Judge a notice, and note the end of its task."""
        task_id = notice.task_id
        if task_id in self._under_way:
            self._under_way.remove(task_id)
            self._ended[task_id] = None
            if len(self._ended) > self._max_ended:
                self._ended.popitem(last=False)
            return NoticeVerdict.SETTLE
        return NoticeVerdict.AGAIN if task_id in self._ended else NoticeVerdict.UNKNOWN


def outcome_of(notice: NotifyTask) -> Outcome:
    """Say how a task ended in the words that all clients use."""
    task_id, message = str(notice.task_id), notice.error or ""
    match notice.status:
        case "success" if not message:
            result = None if notice.result is None else bytes(notice.result)
            return Outcome(task_id, Status.COMPLETED, result)
        case "success":
            message = f"it is done, but its result did not come: {message}"
            return Outcome(task_id, Status.COMPLETED, None, Failure(ErrorKind.REFUSED, message))
        case "failed_post":
            return Outcome(task_id, Status.FAILED, None, Failure(ErrorKind.UNPLACED, message))
        case _:
            message = message or "the dispatcher did not say why; look at its log"
            return Outcome(task_id, Status.FAILED, None, Failure(ErrorKind.EXCEPTION, message))
