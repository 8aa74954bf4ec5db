"""What a client wants done, and what it is told about that.

All protocols say the same; `wire/` writes these values as they are, as arrays. What makes a
submission acceptable is decided in `dispatch/intake.py`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from shunter.model.job import Callback
from shunter.model.journal import JournalEntry
from shunter.model.json_record import JsonRecord, plain_document
from shunter.model.retry import Retry
from shunter.model.unique import Unique


class Submission(JsonRecord, Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A job that a client wants done. What is None is decided by the handler's defaults.

    `journal` are steps and signals that a rerun takes over from the first job.
    `rerun_of` names an ended job whose work is to be done again (`resubmission.py`). `traceparent`
    is the span that it was submitted in, as W3C writes it. `after` are ids of jobs that it waits
    for, `when` on which outcomes of theirs it runs (`workflow.py`). `awaited_by` are parked jobs
    that waited for the job of which this is a rerun, and are to wait for this one, too.
    """

    id: str
    type: str
    payload: bytes
    priority: int | None = None
    timeout: float | None = None
    retry: Retry | None = None
    delay: float | None = None
    not_before: float | None = None
    unique_key: str | None = None
    workflow: str | None = None
    run: str | None = None
    callback: Callback | None = None
    reply: bool = True
    place_within: float | None = None
    scheduled: float | None = None
    effects: str | None = None
    unique: Unique | None = None
    rerun_of: str | None = None
    traceparent: str | None = None
    keys: dict[str, str] | None = None
    after: tuple[str, ...] | None = None
    when: str | None = None

    journal: tuple[JournalEntry, ...] | None = None
    awaited_by: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what is said as a dict that `json.dumps` takes, with the payload decoded."""
        plain = super().as_dict()
        said = {name: it for name, it in plain.items() if it is not None and name != "payload"}
        return said | ({"payload": plain_document(self.payload)} if self.payload else {})


class Receipt(JsonRecord, Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What became of one submission: the id of its job, or the field at fault and the reason."""

    job_id: str
    field: str = ""
    reason: str = ""
