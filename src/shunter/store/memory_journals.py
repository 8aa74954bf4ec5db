"""What jobs keep beside their records, in dictionaries."""

from __future__ import annotations

from shunter.model.job import Job, Status
from shunter.model.journal import (
    COPIED,
    SENT,
    EntryKind,
    JournalEntry,
    JournalPage,
    in_pages,
)


class MemoryJournals:
    """Entries by job, and then by kind and key."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[tuple[EntryKind, str], JournalEntry]] = {}

    def enter(self, entry: JournalEntry, job: Job | None) -> bool:
        """Keep an entry if its job is as it must be."""
        kept, name = self._entries.get(entry.job_id, {}), (entry.kind, entry.key)
        if entry.attempt == COPIED:
            is_fit = job is None
        elif entry.attempt == SENT:
            is_fit = job is not None and not job.status.is_final
        else:
            is_running = job is not None and job.status is Status.IN_PROGRESS
            is_fit = is_running and job is not None and job.attempt == entry.attempt
        if not is_fit:
            return False
        is_first = entry.attempt in (COPIED, SENT) and name in kept
        self._entries.setdefault(entry.job_id, {})[name] = kept[name] if is_first else entry
        return True

    def page(self, job_id: str, kind: EntryKind, after: str, most_bytes: int) -> JournalPage:
        """Return entries of one kind by rising keys."""
        kept = self._entries.get(job_id, {})
        keys = sorted(key for of, key in kept if of is kind and key > after)
        return in_pages((kept[kind, key] for key in keys), limit=most_bytes)

    def forget(self, job_id: str) -> None:
        """Drop all that a job has kept."""
        self._entries.pop(job_id, None)
