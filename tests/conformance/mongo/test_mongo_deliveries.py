"""Callbacks on MongoDB: a write whose answer was lost is recognised, and done once."""

from __future__ import annotations

import pytest

from conformance.mongo.losing import Losses
from conformance.store.given import NOW, ended
from shunter.errors import StoreError
from shunter.model import callback
from shunter.model.job import Callback
from shunter.store.port import Batch

HOOK = Callback("http://127.0.0.1/done")


def taken(run, store, *names):
    """Jobs that ended, as they are when a dispatcher takes their next call for itself."""
    owing = [run(ended(store, name, callback=HOOK)) for name in names]
    return [callback.calling(job, now=NOW, seconds=10) for job in owing]


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("patience", [10.0, 0.0], ids=["within one commit", "by committing again"])
def test_wherever_an_answer_is_lost_a_delivery_is_written_once(run, opened, patience, is_done):
    store = opened(patience=patience)
    one, two, late = taken(run, store, "one", "two", "late")
    run(store.commit(Batch(now=NOW, deliveries=[late])))
    losses = Losses(store, at=0, is_done=is_done)
    batch = Batch(now=NOW, deliveries=[one, late, two])

    try:
        delivered = run(store.commit(batch)).delivered
    except StoreError:
        assert not patience
        delivered = run(store.commit(batch)).delivered

    assert losses.have_happened
    assert delivered == [True, False, True]
    stored = run(store.get(["one", "two", "late"]))
    assert [job.revision for job in stored] == [one.revision, two.revision, late.revision]
    assert [job.callback.tries for job in stored] == [1, 1, 1]


def test_a_delivery_that_was_overtaken_after_its_answer_was_lost_counts_as_refused(run, opened):
    store, rival = opened(patience=0.0), opened()
    [mine] = taken(run, store, "one")
    Losses(store, at=0, is_done=True)
    batch = Batch(now=NOW, deliveries=[mine])
    with pytest.raises(StoreError):
        run(store.commit(batch))
    theirs = callback.calling(mine, now=mine.callback.due, seconds=10)
    assert run(rival.commit(Batch(now=NOW, deliveries=[theirs]))).delivered == [True]

    assert run(store.commit(batch)).delivered == [False]
    [stored] = run(rival.get(["one"]))
    assert stored.callback == theirs.callback


def test_a_delivery_finds_each_job_by_its_id(run, store):
    taken(run, store, "one", "two")
    query = {"_id": {"$in": ["one", "two"]}, "status": {"$in": ["c", "f", "x"]}}
    update = {"update": "jobs", "updates": [{"q": query, "u": {"$set": {"x": 1}}, "multi": True}]}

    plan = str(run(store._connection.database.command({"explain": update})))

    assert "'indexName': '_id_'" in plan
    assert "COLLSCAN" not in plan
