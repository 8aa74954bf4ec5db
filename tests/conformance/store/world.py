"""A store with jobs in every stage, and a batch that does everything at once to them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, jobs, worker
from shunter.errors import UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.job import Job
from shunter.model.lifecycle import Berth
from shunter.model.worker import Worker
from shunter.store.port import Batch, Claim, Committed, JobQuery, Store

BIG = bytes(100_000)  # too big to stand in a document

APART = [replace(claim(limit=3), berths=(Berth("w-3"),) * 3), claim("other", limit=9)]
OVERLAPPING = [claim(limit=3), claim("sum", "other", limit=9)]


async def given_world(store: Store, claims: list[Claim] = OVERLAPPING) -> Batch:
    """Fill the store, and return the batch.

    Where its claims have no type in common, its parts may be under way at the same time.
    """
    await store.insert([*jobs(6, "old"), job("taken", type="other", unique_key="k")])
    claimed = await store.claim(claim(limit=5))
    started = [lifecycle.started(it, Berth("w-1"), now=NOW) for it in claimed]
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
                lifecycle.claimed(job("fast"), dispatcher_id="d", now=NOW), Berth("w"), now=NOW
            ),
        ],
        claims=claims,
    )


def told(batch: Batch, committed: Committed) -> tuple[Any, ...]:
    """All that a caller learns from a commit, in a form that can be compared."""
    inserted = [
        "refused"
        if isinstance(stored, UniqueKeyTaken)
        else ("mine" if stored is offered else stored.id)
        for offered, stored in zip(batch.inserts, committed.inserted, strict=True)
    ]
    claimed = [[(it.id, it.revision, it.payload) for it in part] for part in committed.claimed]
    return inserted, committed.replaced, claimed


async def stored(store: Store) -> tuple[list[Job | None], list[Worker]]:
    """All that is in a store."""
    found = await store.find(JobQuery(limit=100))
    ids = sorted(it.id for it in found)
    return await store.get(ids, payload=True), await store.workers()


async def undisturbed(store: Store, claims: list[Claim] = OVERLAPPING) -> tuple[Any, ...]:
    """What is told and stored if nothing goes wrong."""
    batch = await given_world(store, claims)
    committed = await store.commit(batch)
    return told(batch, committed), await stored(store)
