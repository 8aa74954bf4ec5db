"""Jobs, workers and claims as the store's tests need them: valid, short, and easy to vary."""

from __future__ import annotations

from typing import Any

from shunter.model import lifecycle
from shunter.model.job import Failure, Job
from shunter.model.lifecycle import WorkerSlot
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.store.port import Claim, Store

NOW = 1_700_000_000.25


def job(name: str, **changes: Any) -> Job:
    fields = {"type": "sum", "created": NOW, "updated": NOW, "payload": b"\x93\x01\x02\x03"}
    return Job(id=name, **(fields | changes))


def jobs(count: int, prefix: str = "job", **changes: Any) -> list[Job]:
    """Jobs in the order of their creation, a millisecond apart."""
    return [
        job(f"{prefix}-{number}", created=NOW + number / 1000, updated=NOW, **changes)
        for number in range(count)
    ]


def claim(*types: str, limit: int = 10, by: str = "d-1", now: float = NOW) -> Claim:
    return Claim(
        dispatcher_id=by,
        types=types or ("sum",),
        limit=limit,
        now=now,
        expiry=lifecycle.claim_expiry(now, 0.0),
    )


def worker(name: str, **changes: Any) -> Worker:
    fields: dict[str, Any] = {
        "kind": WorkerKind.FULL,
        "hostname": "host",
        "port": 0,
        "handlers": (Handler("sum"),),
        "max_jobs": 2,
        "registered": NOW,
        "last_pinged": NOW,
    }
    return Worker(id=name, **(fields | changes))


async def running(store: Store, name: str, *, on: str = "w-1", **changes: Any) -> Job:
    """A job that was inserted, claimed and started, as the store has it."""
    started = lifecycle.started(await claimed(store, name, **changes), WorkerSlot(on), now=NOW)
    assert await store.replace([started]) == [True]
    return started


async def claimed(store: Store, name: str, **changes: Any) -> Job:
    """A job that was inserted and claimed."""
    given = job(name, type=f"type-of-{name}", **changes)
    await store.insert([given])
    [taken] = await store.claim(claim(given.type))
    return taken


async def placed(store: Store, name: str, *, place: int, on: str = "w-1") -> Job:
    """A job that was started on a place of its own."""
    started = lifecycle.started(await claimed(store, name), WorkerSlot(on, place=place), now=NOW)
    assert await store.replace([started]) == [True]
    return started


async def ended(store: Store, name: str, *, at: float = NOW, **changes: Any) -> Job:
    """A job that completed."""
    started = await running(store, name, **changes)
    done = lifecycle.completed(started, started.attempt, result=b"\xa2ok", now=at)
    assert await store.replace([done]) == [True]
    return done


def failure(message: str = "it broke") -> Failure:
    return Failure(lifecycle.ErrorKind.EXCEPTION, message)
