"""Which jobs a person asks for: from the fields of the form to a search, and back to an address.

Pure. What can't be read is left out and said, so that a page is always shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from msgspec import Struct

from shunter.model.identity import is_name
from shunter.model.job import Status
from shunter.model.scope import JobScope
from shunter.store.search import JobSearch

MOST_CHARACTERS = 512
PAGE = 50

STATUSES = {
    "queued": Status.QUEUED,
    "delayed": Status.QUEUED,
    "waiting": Status.WAITING,
    "dispatching": Status.DISPATCHING,
    "in progress": Status.IN_PROGRESS,
    "completed": Status.COMPLETED,
    "failed": Status.FAILED,
    "cancelled": Status.CANCELLED,
}
"""What can be chosen, in the words in which jobs are shown. Of those that are queued, the ones that
could run now are told from those that wait for a time; waiting jobs wait for jobs or a signal."""

LABELS = {"since": "created from", "until": "created until"}

FIELDS = (
    "status",
    "type",
    "worker",
    "schedule",
    "workflow",
    "run",
    "since",
    "until",
    "error",
    "key",
)


class JobFilter(Struct, frozen=True):
    """What was asked for, as it was written; `faults` are what could not be understood."""

    status: str = ""
    type: str = ""
    worker: str = ""
    schedule: str = ""
    workflow: str = ""
    run: str = ""
    since: str = ""
    until: str = ""
    error: str = ""
    key: str = ""
    faults: tuple[str, ...] = ()

    @property
    def asked(self) -> dict[str, str]:
        """The fields that have something in them."""
        return {name: text for name in FIELDS if (text := getattr(self, name))}

    def address(self, **more: str) -> str:
        """Return the query of a page with this filter."""
        return urlencode({**self.asked, **more})

    def search(self, scope: JobScope, *, after: str | None = None, limit: int = PAGE) -> JobSearch:
        """Return what to ask a store."""
        return JobSearch(
            status=STATUSES.get(self.status),
            is_delayed=self.status == "delayed",
            type=self.type or None,
            worker_id=self.worker or None,
            namespace=scope.listed(),
            workflow=self.workflow or None,
            run=self.run or None,
            text=self.error or None,
            key=self.key or None,
            key_prefix=f"schedule/{self.schedule}/" if self.schedule and not self.key else None,
            created_from=_moment(self.since),
            created_until=_moment(self.until),
            after=after,
            limit=limit,
        )


def filter_of(query: Mapping[str, str]) -> JobFilter:
    """Read the fields of a form or an address."""
    asked = {name: query.get(name, "").strip()[:MOST_CHARACTERS] for name in FIELDS}
    faults = []
    if asked["status"] and asked["status"] not in STATUSES:
        faults.append(f"status: choose one of {', '.join(STATUSES)}")
        asked["status"] = ""
    for name in ("type", "worker", "schedule"):
        if asked[name] and not is_name(asked[name]):
            faults.append(f"{name}: nothing can have that name")
            asked[name] = ""
    for name in ("since", "until"):
        if asked[name] and _moment(asked[name]) is None:
            faults.append(f"{LABELS[name]}: write 2026-05-31 14:00, in UTC")
            asked[name] = ""
    return JobFilter(**asked, faults=tuple(faults))


def is_cursor(text: str) -> bool:
    """True if a text can be where a page ended."""
    return 0 < len(text) <= MOST_CHARACTERS


def _moment(text: str) -> float | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
