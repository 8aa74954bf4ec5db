"""How graphs lie in the file, and what older versions wrote of jobs that were woken."""

from __future__ import annotations

from conformance.store.given import NOW, claim, job, running
from conformance.store.telling import LATER, complete, wait
from shunter.model import lifecycle
from shunter.model.job import Status, When
from shunter.model.lifecycle import WorkerSlot
from shunter.model.workflow import JobEdge, JobGraph
from shunter.store.port import Batch


def test_jobs_that_can_run_together_lie_together_and_are_claimed_as_they_were_submitted(run, store):
    names = ["a1", "a2", "b1", "b2"]
    jobs = [
        job(name, created=NOW + at * 1e-6, dependents=True)
        if name.endswith("1")
        else job(name, created=NOW + at * 1e-6, status=Status.WAITING, when=When.ALL_OK)
        for at, name in enumerate(names)
    ]
    edges = (JobEdge("a2", "a1"), JobEdge("b2", "b1"))
    run(store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=tuple(jobs), edges=edges)])))

    rows = run(store._read(lambda it: it.execute("SELECT id FROM jobs ORDER BY seq").fetchall()))
    assert [name for (name,) in rows] == ["a1", "b1", "a2", "b2"]

    [first] = run(store.claim(claim(limit=1)))
    run(store.replace([lifecycle.started(first, WorkerSlot("w-1"), now=NOW)]))
    run(complete(store, "a1"))
    assert [it.id for it in run(store.claim(claim(limit=9)))] == ["a2", "b1"]


def test_a_job_that_an_earlier_version_has_woken_is_read_as_such(run, store):
    run(running(store, "a"))
    parked = run(wait(store, "a"))
    run(complete(store, "a"))
    older = f'{{"id":"","date":{LATER},"expiry":{LATER}}}'

    def rewrite(connection):
        connection.execute("UPDATE jobs SET claim = ? WHERE id = 'child'", (older,))

    run(store._write(rewrite))

    woken = lifecycle.woken(parked, now=LATER)
    assert run(store.get(["child"], payload=True)) == [woken]
