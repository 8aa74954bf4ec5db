"""The panel of a job's kept steps: what it does not do again."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from shunter.model.document import sealed_data_at
from shunter.model.job import Job
from shunter.model.journal import EntryKind, JournalEntry
from shunter.page.system_look import SystemLook
from shunter.page.view import Data, PageRequest
from shunter.wire.tagged_values import tagged_document

SHOWN = 50
SHOWN_CHARACTERS = 200


class StepRow(Struct, frozen=True):
    """One step: when it was kept, how long it took, in which run, and its result as text."""

    name: str
    at: float
    seconds: float
    attempt: int
    result: str


async def read_steps(look: SystemLook, asked: PageRequest, job: Job) -> Data | None:
    """Return the steps that a job has kept, the last ones; None if it has none."""
    store = look.ports.dispatcher.store

    async def read() -> list[JournalEntry]:
        found: list[JournalEntry] = []
        while True:
            after = found[-1].key if found else ""
            page = await store.journal(job.id, EntryKind.STEP, after=after)
            found += page.entries
            if not page.is_more:
                return found

    kept = [] if job.attempt == 0 else await look.once(("steps", job.id), read)
    if not kept:
        return None
    rows = [step_row(it) for it in sorted(kept, key=lambda it: it.at)[-SHOWN:]]
    return {"steps": rows, "left_out": len(kept) - len(rows)}


def step_row(entry: JournalEntry) -> StepRow:
    """Return a step as it is shown."""
    if sealed_data_at(entry.body) is not None:
        text = f"encrypted, {len(entry.body):,} bytes"
    else:
        text = msgspec.json.encode(tagged_document(entry.body)).decode()
    cut = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return StepRow(entry.key, entry.at, entry.seconds, max(0, entry.attempt), cut)
