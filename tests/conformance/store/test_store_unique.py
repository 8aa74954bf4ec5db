"""Unique keys with a rule: when they are given up, and what a second job makes of the first."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job
from shunter.errors import UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.job import Callback, Status
from shunter.model.lifecycle import WorkerSlot
from shunter.model.unique import Unique
from shunter.store.port import Batch, JobQuery

LONG = bytes(range(256)) * 12_000
"""A payload that a store may keep apart."""


def keyed(name, *, at=NOW, wait=None, **rule):
    """A job with the key k and a rule, submitted then, to wait so many seconds."""
    until = None if wait is None else at + wait
    payload = rule.pop("payload", b"\x01")
    return job(
        name,
        created=at,
        updated=at,
        unique_key="k",
        unique=Unique("k", **rule),
        payload=payload,
        not_before=until,
        wait_until=until,
    )


async def start(store):
    """Claim and start what waits; return it."""
    [taken] = await store.claim(claim())
    started = lifecycle.started(taken, WorkerSlot("w-1"), now=NOW + 1)
    assert await store.replace([started]) == [True]
    return started


async def complete(store, started):
    done = lifecycle.completed(started, started.attempt, result=b"\x07", now=NOW + 2)
    assert await store.replace([done]) == [True]
    return done


@pytest.mark.parametrize(
    ("rule", "kept_at"),
    [
        ({}, ["queued", "claimed", "started", "ended"]),
        ({"during": "queued"}, ["queued", "claimed"]),
        ({"during": "running"}, ["queued", "claimed", "started"]),
        ({"during": "queued", "within": 100.0}, ["queued", "claimed", "started", "ended"]),
        ({"within": 100.0}, ["queued", "claimed", "started", "ended"]),
        ({"within": 0.5}, ["queued", "claimed", "started"]),
    ],
)
def test_a_job_keeps_its_key_as_long_as_its_rule_says(run, store, rule, kept_at):
    second = keyed("second", at=NOW + 3, **rule)

    async def stands(stage):
        """Bring the first job to this stage, and return what is said to the second."""
        name = f"first-{stage}"
        await store.insert([keyed(name, **rule)])
        if stage == "claimed":
            await store.claim(claim())
        elif stage != "queued":
            started = await start(store)
            if stage == "ended":
                await complete(store, started)
        [answer] = await store.insert([second])
        return "kept" if answer.id == name else "new"

    for stage in ("queued", "claimed", "started", "ended"):
        expected = "kept" if stage in kept_at else "new"
        assert run(stands(stage)) == expected, stage
        run(clear(store))


async def clear(store):
    """End and purge everything."""
    for found in await store.find(JobQuery(limit=100)):
        if not found.status.is_final:
            assert await store.replace([lifecycle.cancelled(found, now=NOW, stoppable=False)]) == [
                True
            ]
    await store.purge(ended_before=NOW + 1000, limit=100)
    assert await store.find(JobQuery()) == []


def test_a_key_is_free_when_its_time_is_over(run, store):
    run(store.insert([keyed("first", within=10.0)]))
    run(complete(store, run(start(store))))

    [early] = run(store.insert([keyed("early", at=NOW + 9, within=10.0)]))
    [late] = run(store.insert([keyed("late", at=NOW + 10, within=10.0)]))
    [later] = run(store.insert([keyed("later", at=NOW + 11, within=10.0)]))

    assert (early.id, late.id, later.id) == ("first", "late", "late")


def test_a_job_that_gave_up_its_key_is_the_same_but_for_that(run, store):
    callback = Callback("http://127.0.0.1/done")
    first = replace(keyed("first", during="running"), callback=callback)
    run(store.insert([first]))
    done = run(complete(store, run(start(store))))

    run(store.insert([keyed("second")]))

    [now] = run(store.get(["first"], payload=True))
    assert now == replace(done, unique_key=None, revision=done.revision + 1, payload=b"\x01")
    assert run(store.purge(ended_before=NOW + 1000, limit=9)) == 0  # it has yet to call back
    told = replace(now, callback=replace(callback, delivered=True), revision=now.revision + 1)
    assert run(store.commit(Batch(now=NOW, deliveries=[told]))).delivered == [True]
    assert run(store.purge(ended_before=NOW + 1000, limit=9)) == 1
    [kept] = run(store.insert([keyed("third")]))
    assert kept.id == "second"


def test_a_job_that_gave_up_its_key_while_it_runs_goes_on(run, store):
    run(store.insert([keyed("first", during="queued")]))
    started = run(start(store))

    [second] = run(store.insert([keyed("second", during="queued")]))

    assert second.id == "second"
    done = lifecycle.completed(started, 1, result=b"\x07", now=NOW + 2)
    assert run(store.replace([done])) == [False]  # another write came first, so it is read again
    [now] = run(store.get(["first"]))
    assert now == replace(started, unique_key=None, revision=started.revision + 1, payload=None)
    again = lifecycle.completed(now, 1, result=b"\x07", now=NOW + 2)
    assert run(store.replace([again])) == [True]
    [kept] = run(store.insert([keyed("third", during="queued")]))
    assert kept.id == "second"


@pytest.mark.parametrize("payload", [b"\x02", LONG], ids=["short", "long"])
@pytest.mark.parametrize("before", [b"\x01", LONG[::-1]], ids=["from short", "from long"])
def test_a_waiting_job_gets_the_payload_and_the_delay_of_the_second(run, store, before, payload):
    run(store.insert([keyed("first", then="replace", payload=before, wait=5.0)]))
    second = keyed("second", at=NOW + 1, then="replace", payload=payload, wait=60.0)

    [answer] = run(store.insert([second]))

    assert (answer.id, answer.payload, answer.revision) == ("first", payload, 1)
    assert (answer.not_before, answer.wait_until) == (NOW + 61, NOW + 61)
    assert run(store.get(["first", "second"], payload=True)) == [answer, None]
    assert run(store.next_alarm()) == NOW + 61
    [due] = run(store.alarms(now=NOW + 61, limit=9))
    run(store.replace([lifecycle.came_due(due, now=NOW + 61)]))
    [taken] = run(store.claim(claim()))
    assert (taken.id, taken.payload) == ("first", payload)


def test_a_waiting_job_may_be_replaced_by_one_that_need_not_wait(run, store):
    run(store.insert([keyed("first", then="replace", wait=500.0)]))

    run(store.insert([keyed("second", then="replace", payload=b"\x02")]))

    assert [(it.id, it.payload) for it in run(store.claim(claim()))] == [("first", b"\x02")]


def test_a_claimed_job_is_put_back_when_it_is_replaced(run, store):
    run(store.insert([keyed("first", then="replace")]))
    [taken] = run(store.claim(claim()))

    [answer] = run(store.insert([keyed("second", then="replace", payload=b"\x02")]))

    assert (answer.id, answer.status, answer.dispatcher) == ("first", Status.QUEUED, None)
    late = lifecycle.started(taken, WorkerSlot("w-1"), now=NOW)
    assert run(store.replace([late])) == [False]
    assert [it.payload for it in run(store.claim(claim()))] == [b"\x02"]


def test_a_job_that_runs_can_t_be_replaced(run, store):
    rule = {"then": "replace", "during": "running"}
    run(store.insert([keyed("first", **rule)]))
    run(start(store))

    [same, other] = run(
        store.insert([keyed("same", **rule), keyed("other", payload=b"\x02", **rule)])
    )

    assert same.id == "first"
    assert isinstance(other, UniqueKeyTaken)
    assert run(store.get(["first"], payload=True))[0].payload == b"\x01"


def test_a_waiting_job_is_postponed_and_never_the_other_way(run, store):
    run(store.insert([keyed("first", then="postpone", wait=10.0)]))

    [later] = run(store.insert([keyed("second", at=NOW + 5, then="postpone", wait=10.0)]))
    [sooner] = run(store.insert([keyed("third", at=NOW + 6, then="postpone", wait=1.0)]))

    assert (later.id, later.wait_until, later.payload) == ("first", NOW + 15, b"\x01")
    assert sooner == later
    assert run(store.get(["first"], payload=True)) == [later]


def test_a_second_of_another_type_is_refused_whatever_the_rule(run, store):
    run(store.insert([keyed("first", then="replace")]))

    for then in ("keep", "replace", "postpone"):
        [answer] = run(store.insert([replace(keyed("second", then=then, wait=9.0), type="other")]))
        assert isinstance(answer, UniqueKeyTaken)


def test_a_replaced_job_is_still_known_by_its_id(run, store):
    first = keyed("first", then="replace")
    run(store.insert([first, keyed("second", then="replace", payload=b"\x02")]))

    [again] = run(store.insert([first]))

    assert (again.id, again.payload) == ("first", b"\x02")


def test_in_one_batch_the_last_replacement_counts(run, store):
    batch = [keyed(f"job-{at}", then="replace", payload=bytes([at])) for at in range(30)]

    answers = run(store.insert(batch))

    assert {it.id for it in answers} == {"job-0"}
    assert [it.payload for it in run(store.claim(claim()))] == [bytes([29])]


def test_in_one_batch_a_free_key_is_taken_once(run, store):
    run(store.insert([keyed("old", during="queued")]))
    run(start(store))

    answers = run(store.insert([keyed(f"job-{at}", during="queued") for at in range(30)]))

    assert {it.id for it in answers} == {"job-0"}


def test_of_several_stores_that_meet_one_key_each_is_answered_and_one_job_is_queued(
    run, database, opened
):
    stores = [opened() for _ in range(3)]

    async def submit(store, name):
        answers = []
        for at in range(12):
            second = keyed(f"{name}-{at}", then="replace", payload=f"\xa5{name}-{at:02}".encode())
            answers += await store.insert([second])
        return answers

    async def starting(store, runs):
        while len(runs) < 5:
            if taken := await store.claim(claim()):
                runs.append(taken[0])
                started = lifecycle.started(taken[0], WorkerSlot("w-1"), now=NOW)
                if not (await store.replace([started]))[0]:
                    runs.pop()  # it was replaced meanwhile
            else:
                await asyncio.sleep(0)
                if len(done) == 2:
                    return

    done: list[str] = []

    async def submitting(store, name):
        answers = await submit(store, name)
        done.append(name)
        return answers

    async def scene():
        runs: list = []
        async with asyncio.TaskGroup() as group:
            mine = group.create_task(submitting(stores[0], "a"))
            others = group.create_task(submitting(stores[1], "b"))
            group.create_task(starting(stores[2], runs))
        return mine.result() + others.result(), runs

    answers, runs = run(scene())

    assert not [it for it in answers if isinstance(it, UniqueKeyTaken)]
    assert len({it.id for it in runs}) == len(runs), "a job was started twice"
    listed = run(stores[0].find(JobQuery(limit=100)))
    assert {it.id for it in answers} == {it.id for it in listed}
    assert len([it for it in listed if it.status is Status.QUEUED]) <= 1
    assert len([it for it in listed if it.unique_key is not None]) <= 2
