"""Whole graphs, done batch by batch as a dispatcher does: nothing is left behind, nothing twice."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job
from shunter.model import lifecycle
from shunter.model.job import Status, When
from shunter.model.lifecycle import WorkerSlot
from shunter.model.queue_order import rank
from shunter.model.workflow import JobEdge, JobGraph
from shunter.store.port import Batch

TYPES = ("sum", "mean", "max")
JOBS = 60
"""In a graph, of which there are two."""


def graph(chance, prefix):
    """Jobs each of which waits for up to three before it."""
    jobs, edges = [], []
    for at in range(JOBS):
        name = f"{prefix}-{at:02}"
        count = min(at, chance.choice([0, 1, 1, 2, 3]))
        parents = chance.sample([it.id for it in jobs], count)
        edges += [JobEdge(name, parent, at=number) for number, parent in enumerate(parents)]
        waits = {"status": Status.WAITING, "when": When.ALL_OK} if parents else {}
        jobs.append(job(name, type=chance.choice(TYPES), created=NOW + at, **waits))
    parents = {edge.parent for edge in edges}
    marked = [replace(it, dependents=it.id in parents) for it in jobs]
    return JobGraph(jobs=tuple(marked), edges=tuple(edges))


@pytest.mark.parametrize("seed", range(8))
def test_every_job_is_started_once_and_none_waits_for_long(run, opened, seed):
    chance, stores = random.Random(seed), (opened(), opened())
    graphs = [graph(chance, prefix) for prefix in "ab"]
    edges = [edge for it in graphs for edge in it.edges]
    run(stores[0].commit(Batch(now=NOW, graphs=graphs)))
    under_way, started, completed = [], [], set()
    ranks = {it.id: rank(it) for each in graphs for it in each.jobs}

    while len(completed) < 2 * JOBS:
        store = stores[chance.random() < 0.3]
        chance.shuffle(under_way)
        ending = under_way[: chance.randrange(len(under_way) + 1)]
        del under_way[: len(ending)]
        done = [lifecycle.completed(it, it.attempt, result=b"\xc0", now=NOW) for it in ending]
        types = tuple(chance.sample(TYPES, chance.choice([1, 3])))
        wish = claim(*types, limit=chance.choice([1, 4, 30]))
        wish = replace(wish, slots=(WorkerSlot("w-1"),) * wish.limit)
        batch = Batch(
            now=NOW,
            replacements=[replace(it, payload=None) for it in done],
            tells=1000,
            claims=[wish] if chance.random() < 0.8 else [],
            may_hold=store is stores[0] and chance.random() < 0.8,
        )

        committed = run(store.commit(batch))

        assert all(committed.replaced)
        completed |= {it.id for it in done}
        taken = [it for some in committed.claimed for it in some]
        assert [ranks[it.id] for it in taken] == sorted(ranks[it.id] for it in taken)
        under_way += taken
        started += [it.id for it in taken]
        if store is stores[0] and batch.claims and len(taken) < wish.limit:
            waits = {edge.child for edge in edges if edge.parent not in completed}
            left = {
                it.id
                for each in graphs
                for it in each.jobs
                if it.type in types and it.id not in waits and it.id not in started
            }
            assert not left, "it could have been claimed"

    assert sorted(started) == sorted(ranks)
    assert run(stores[0]._connection.tellings.find().to_list()) == []
    found = run(stores[1].get(list(ranks)))
    assert {(it.status, it.attempt) for it in found} == {(Status.COMPLETED, 1)}
