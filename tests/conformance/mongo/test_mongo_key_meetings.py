"""Jobs that meet one with their key, and an answer that is lost: the outcome is the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.mongo.losing import Losses
from conformance.store.given import NOW, job
from conformance.store.test_store_unique import LONG, complete, keyed, start
from shunter.errors import StoreError
from shunter.model.unique import Unique
from shunter.store.port import Batch, JobQuery

MOST_WRITES = 30


def other_key(name, key, **rule):
    until = NOW + rule.pop("wait", 50.0)
    unique = Unique(key, **rule)
    return job(name, unique_key=key, unique=unique, not_before=until, wait_until=until)


async def given(store):
    """A job that has kept its key long enough, one to be replaced, and one to be postponed."""
    await store.insert([keyed("ended", during="running")])
    await complete(store, await start(store))
    first = replace(other_key("replaced", "r", then="replace", wait=5.0), payload=LONG[::-1])
    await store.insert([first, other_key("postponed", "p", then="postpone", wait=5.0)])
    new = [
        keyed("new", during="running"),
        replace(other_key("replacing", "r", then="replace"), payload=LONG),
        other_key("postponing", "p", then="postpone"),
    ]
    return Batch(now=NOW, inserts=new)


async def seen(store, committed):
    answers = [(it.id, it.payload, it.wait_until) for it in committed.inserted]
    ids = [it.id for it in await store.find(JobQuery(limit=100))]
    stored = await store.get(sorted(ids), payload=True)
    return answers, [(it.id, it.payload, it.wait_until, it.unique_key) for it in stored]


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("patience", [10.0, 0.0], ids=["within one commit", "by committing again"])
def test_wherever_an_answer_is_lost_the_outcome_is_the_same(run, opened, patience, is_done):
    async def lose(store, at):
        batch = await given(store)
        losses = Losses(store, at=at, is_done=is_done)
        while True:
            try:
                committed = await store.commit(batch)
                break
            except StoreError:
                assert patience == 0.0
        found, has_happened = await seen(store, committed), losses.have_happened
        await cleaner._connection.jobs.delete_many({})
        return found, has_happened

    cleaner = opened()

    expected, _ = run(lose(opened(), MOST_WRITES))
    assert [it[0] for it in expected[0]] == ["new", "replaced", "postponed"]
    assert expected[0][1][1] == LONG
    for at in range(MOST_WRITES):
        found, has_happened = run(lose(opened(patience=patience), at))
        assert found == expected, at
        if not has_happened:
            return
    raise AssertionError("there are more writes than that")
