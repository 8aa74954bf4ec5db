"""A job that waits for others, and the end of those, as tests of telling dependents need them."""

from __future__ import annotations

from typing import Any

from conformance.store.given import NOW, job
from shunter.model import lifecycle
from shunter.model.job import Job, Status, When
from shunter.model.workflow import JobEdge, JobGraph
from shunter.store.port import Batch, Committed, Store

LATER = NOW + 5


async def wait(store: Store, *parents: str, **changes: Any) -> Job:
    """Let a job wait for these."""
    child = job("child", **({"status": Status.WAITING, "when": When.ALL_OK} | changes))
    edges = tuple(JobEdge("child", name) for name in parents)
    await store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=(child,), edges=edges)]))
    return child


async def completing(store: Store, *names: str, tells: int = 10) -> Batch:
    """The batch that completes jobs in progress as they are stored."""
    held = [it for it in await store.get(names) if it is not None]
    done = [lifecycle.completed(it, it.attempt, result=b"\xc0", now=LATER) for it in held]
    return Batch(now=LATER, replacements=done, tells=tells)


async def complete(store: Store, *names: str, tells: int = 10) -> Committed:
    return await store.commit(await completing(store, *names, tells=tells))


async def due(store: Store) -> list[str]:
    return [it.id for it in await store.due_dependents(limit=9)]
