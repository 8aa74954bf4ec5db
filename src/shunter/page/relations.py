"""The panel of a job's relations: what it waits for, and what waits for it."""

from __future__ import annotations

from shunter.model.job import Job
from shunter.model.workflow import JobEdge
from shunter.page.system_look import SystemLook
from shunter.page.view import Data, PageRequest
from shunter.store.search import JobSearch

SHOWN = 50


async def read_relations(look: SystemLook, asked: PageRequest, job: Job) -> Data | None:
    """Return both sides of a job, as far as whoever asks may see them; None if it has none."""
    if job.when is None and job.run is None and not job.dependents:
        return None
    store = look.ports.dispatcher.store

    async def read() -> tuple[list[JobEdge], list[JobEdge]]:
        above = [] if job.when is None else await store.parents([job.id], limit=SHOWN + 1)
        return above, await store.dependents([job.id], limit=SHOWN + 1)

    above, below = await look.once(("relations", job.id), read)
    if not above and not below:
        return None
    ids = {*(it.parent for it in above[:SHOWN]), *(it.child for it in below[:SHOWN])}
    wanted = JobSearch(
        ids=tuple(sorted(ids)), namespace=asked.scope.listed(), limit=len(ids), most=len(ids)
    )
    known = {it.id: it for it in (await look.search(wanted)).jobs}

    def side(names: list[str]) -> list[tuple[str, Job | None]]:
        """One side; of a job that is purged there is the id, for those who may see all."""
        seen = names[:SHOWN] if asked.scope.sees_all else [it for it in names if it in known]
        return [(name, known.get(name)) for name in seen]

    return {
        "when": job.when,
        "parents": side([it.parent for it in above]),
        "children": side([it.child for it in below]),
        "are_more": (len(above) > SHOWN, len(below) > SHOWN),
    }
