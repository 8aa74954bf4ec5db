"""How answers that clients hand out as they came are written as JSON (`json_record.py`). Pure."""

from __future__ import annotations

from typing import Any

from shunter.model.job import Status
from shunter.model.json_record import JsonRecord, plain_document


class OutcomeRecord(JsonRecord):
    """How a job ended."""

    __slots__ = ()

    status: Status
    result: bytes | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a dict that `json.dumps` takes: status as a word, result decoded."""
        result = None if self.result is None else plain_document(self.result)
        return {**super().as_dict(), "status": self.status.word, "result": result}


class StandingRecord(JsonRecord):
    """How many jobs stand where."""

    __slots__ = ()

    dispatcher_id: str
    backlog: tuple[tuple[str, Status, int], ...]
    counters: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return it as a dict that `json.dumps` takes, with each status as a word."""
        return {
            "dispatcher_id": self.dispatcher_id,
            "backlog": [
                {"type": job_type, "status": status.word, "jobs": count}
                for job_type, status, count in self.backlog
            ],
            "counters": dict(self.counters),
        }
