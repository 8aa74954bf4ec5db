"""A store with jobs in every stage, and a batch that does everything at once to them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, jobs, worker
from shunter.errors import JobRefused, UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.job import Job, Status
from shunter.model.journal import SENT, EntryKind, JournalEntry, JournalPage
from shunter.model.lifecycle import WorkerSlot
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome
from shunter.store.port import Batch, Claim, Committed, JobQuery, Store

BIG = bytes(100_000)  # too big to stand in a document

APART = [replace(claim(limit=3), slots=(WorkerSlot("w-3"),) * 3), claim("other", limit=9)]
OVERLAPPING = [claim(limit=3), claim("sum", "other", limit=9)]


async def given_world(store: Store, claims: list[Claim] = OVERLAPPING) -> Batch:
    """Fill the store, and return the batch.

    Where its claims have no type in common, its parts may be under way at the same time.
    """
    await store.insert([*jobs(6, "old"), job("taken", type="other", unique_key="k")])
    waiting = JobGraph(
        jobs=(
            job("awaited", type="graph", dependents=True),
            job("parked", type="graph", status=Status.WAITING),
        ),
        edges=(JobEdge("parked", "awaited"),),
    )
    await store.commit(Batch(now=NOW, graphs=[waiting]))
    claimed = await store.claim(claim(limit=5))
    started = [lifecycle.started(it, WorkerSlot("w-1"), now=NOW) for it in claimed]
    assert all(await store.replace(started[:4]))
    step = lifecycle.progressed(started[2], 1, done=1, total=2, now=NOW)
    return Batch(
        now=NOW + 1,
        workers=[worker("w-1"), worker("w-2")],
        renewed=("w-1",),
        replacements=[
            lifecycle.completed(started[0], 1, result=b"small", now=NOW),
            lifecycle.completed(started[1], 1, result=BIG, now=NOW),
            step,
            lifecycle.completed(step, 1, result=b"", now=NOW),
            replace(started[3], revision=9, log="stale"),
            lifecycle.released(claimed[4], now=NOW),
        ],
        inserts=[
            job("new", created=NOW + 1),
            job("big", payload=BIG, created=NOW + 2),
            job("same", type="other", unique_key="k"),
            job("refused", payload=b"\xc0", unique_key="k"),
            job("twice", unique_key="l", created=NOW + 3),
            job("thrice", unique_key="l", created=NOW + 4),
            lifecycle.started(
                lifecycle.claimed(job("fast"), dispatcher_id="d", now=NOW), WorkerSlot("w"), now=NOW
            ),
        ],
        graphs=[
            JobGraph(
                jobs=(
                    job("root", type="graph", dependents=True),
                    job("leaf", type="graph", status=Status.WAITING, payload=BIG),
                ),
                edges=(JobEdge("leaf", "root"), JobEdge("leaf", "taken")),
            ),
            JobGraph(jobs=(job("orphan", type="graph"),), edges=(JobEdge("orphan", "nobody"),)),
        ],
        outcomes=[JobEdge("parked", "awaited", ParentOutcome.COMPLETED)],
        claims=claims,
        entries=[entry(started[0].id), entry(started[3].id), entry("gone"), entry("old-5", SENT)],
    )


def entry(job_id: str, attempt: int = 1) -> JournalEntry:
    kind = EntryKind.STEP if attempt else EntryKind.SIGNAL
    return JournalEntry(job_id=job_id, kind=kind, key="pay", attempt=attempt, at=NOW, body=b"\xc0")


def told(batch: Batch, committed: Committed) -> tuple[Any, ...]:
    """All that a caller learns from a commit, in a form that can be compared."""
    inserted = [
        "refused"
        if isinstance(stored, UniqueKeyTaken)
        else ("mine" if stored is offered else stored.id)
        for offered, stored in zip(batch.inserts, committed.inserted, strict=True)
    ]
    claimed = [[(it.id, it.revision, it.payload) for it in part] for part in committed.claimed]
    graphs = [
        "refused" if isinstance(planted, JobRefused) else [it.id for it in planted]
        for planted in committed.graphs
    ]
    return inserted, committed.replaced, claimed, graphs, committed.entered


async def stored(
    store: Store,
) -> tuple[list[Job | None], list[Worker], list[JobEdge], list[JournalPage]]:
    """All that is in a store."""
    found = await store.find(JobQuery(limit=100))
    ids = sorted(it.id for it in found)
    edges = await store.dependents(ids, limit=100)
    journals = [await store.journal(name, kind) for name in ids for kind in EntryKind]
    return await store.get(ids, payload=True), await store.workers(), edges, journals


async def undisturbed(store: Store, claims: list[Claim] = OVERLAPPING) -> tuple[Any, ...]:
    """What is told and stored if nothing goes wrong."""
    batch = await given_world(store, claims)
    committed = await store.commit(batch)
    return told(batch, committed), await stored(store)
