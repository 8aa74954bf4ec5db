"""What a claim writes is what it returns, whatever the jobs had before and get now."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.mongo.losing import Losses
from conformance.store.given import NOW, claim, job, jobs
from shunter.model.job import Effects, ErrorKind, Execution, Failure, PastAttempt, Progress
from shunter.model.lifecycle import WorkerSlot
from shunter.store.mongo import claim_writes

SLOT = WorkerSlot("w-1", expiry_grace=1.0, at_most_once=frozenset({"sum"}), version="2")
OTHER = WorkerSlot("w-2", presumed_dead_after=60.0)
RICH = {
    "attempt": 3,
    "revision": 9,
    "version": "1",
    "priority": 0,
    "error": Failure(ErrorKind.LOST, "it was lost"),
    "progress": Progress(NOW, 1, 2, "half"),
    "execution": Execution(worker_id="w-9", sent=NOW, timeout=5.0, limit_place=None),
    "history": (PastAttempt(3, "w-9", NOW, NOW, "lost"),),
    "effects": Effects.AT_MOST_ONCE,
    "place_within": 9.0,
    "place_by": NOW + 9,
}


@pytest.fixture(params=[1, 1000], ids=["together", "each"])
def store(request, opened, monkeypatch):
    monkeypatch.setattr(claim_writes, "FEWEST_A_GROUP", request.param)
    return opened()


@pytest.mark.parametrize("slots", [(), (SLOT,) * 8, (SLOT, OTHER) * 4])
def test_what_is_stored_is_what_was_returned(run, store, slots):
    given = [*jobs(3), job("rich", **RICH), job("big", payload=b"\xc4" * 100_000)]
    run(store.insert(given))

    taken = run(store.claim(replace(claim(limit=8), slots=slots)))

    assert {it.id for it in taken} == {it.id for it in given}
    assert run(store.get([it.id for it in taken], payload=True)) == taken
    assert run(store.overdue(now=NOW + 99, limit=9)) == []
    assert {it.status for it in run(store.backlog())} == {taken[0].status}
    assert run(store.claim(claim())) == []
    alarms = {it.id for it in run(store.alarms(now=NOW + 1e6, limit=9))}
    expiries = {it.id for it in taken if not slots or it.execution.expiry is not None}
    assert alarms == expiries


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
def test_a_lost_answer_takes_no_job_twice(run, store, is_done):
    run(store.insert(jobs(3)))
    Losses(store, at=0, is_done=is_done)

    taken = run(store.claim(replace(claim(limit=2), slots=(SLOT, OTHER))))

    assert [(it.id, it.attempt) for it in taken] == [("job-0", 1), ("job-1", 1)]
    assert run(store.get(["job-0", "job-1"], payload=True)) == taken


def test_a_job_that_changed_since_it_was_seen_is_not_taken(run, store, opened, monkeypatch):
    other = opened()
    run(store.insert(jobs(2)))
    write = claim_writes.ClaimWrites.write

    async def late(self, connection):
        monkeypatch.setattr(claim_writes.ClaimWrites, "write", write)
        [job] = await other.claim(claim(limit=1, by="d-2"))
        back = replace(job, status="q", dispatcher=None, revision=job.revision + 1)
        assert await other.replace([back]) == [True]
        return await write(self, connection)

    monkeypatch.setattr(claim_writes.ClaimWrites, "write", late)

    [taken] = run(store.claim(claim(limit=1)))

    assert (taken.id, taken.revision) != ("job-0", 1), "that revision is another one's"
    assert run(store.get([taken.id], payload=True)) == [taken]
