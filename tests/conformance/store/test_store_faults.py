"""A commit that is cut off anywhere, is offered again, and a database that can't be reached."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, worker
from conformance.store.world import APART, OVERLAPPING, given_world, stored, told, undisturbed
from shunter.errors import StoreError
from shunter.model.job_limits import JobLimits, Limit
from shunter.model.journal import EntryKind
from shunter.model.presence import Presence
from shunter.model.record import Record, RecordKind
from shunter.store.port import Batch, JobQuery, Store
from shunter.store.search import JobSearch, RunSearch, SearchableStore

MOST_WRITES = 60


def calls_of(store):
    """Every call that a dispatcher makes, each harmless."""
    return {
        "commit": lambda: store.commit(Batch(now=NOW, inserts=[job("late")], renewed=["w"])),
        "insert": lambda: store.insert([job("late")]),
        "claim": lambda: store.claim(claim("nothing")),
        "replace": lambda: store.replace([job("unknown", revision=1)]),
        "get": lambda: store.get(["one"], payload=True),
        "revisions": lambda: store.revisions(["one"]),
        "journal": lambda: store.journal("one", EntryKind.STEP),
        "search": lambda: store.search(JobSearch()),
        "depths": lambda: store.depths(most=5),
        "queue_look": lambda: store.queue_look(job("one"), most=5, deep=5),
        "runs": lambda: store.runs(RunSearch()),
        "presences": store.presences,
        "records": lambda: store.records(RecordKind.KEY),
        "swap_records": lambda: store.swap_records(
            [Record(kind=RecordKind.KEY, name="x", revision=99, document=b"{}")]
        ),
        "find": lambda: store.find(JobQuery()),
        "held_by": lambda: store.held_by(["w"]),
        "alarms": lambda: store.alarms(now=NOW, limit=5),
        "due_callbacks": lambda: store.due_callbacks(now=NOW, limit=5),
        "due_dependents": lambda: store.due_dependents(limit=5),
        "dependents": lambda: store.dependents(["one"], limit=5),
        "parents": lambda: store.parents(["one"], limit=5),
        "standings": lambda: store.standings(["one"]),
        "overdue": lambda: store.overdue(now=NOW, limit=5),
        "next_alarm": store.next_alarm,
        "backlog": store.backlog,
        "oldest": store.oldest,
        "lane_counts": lambda: store.lane_counts(limit=5),
        "claim with limits": lambda: store.claim(
            replace(claim("nothing"), limits=JobLimits(limit=Limit(1)))
        ),
        "purge": lambda: store.purge(ended_before=0.0, limit=5),
        "put_workers": lambda: store.put_workers([worker("w")]),
        "renew": lambda: store.renew(["w"], now=NOW),
        "workers": lambda: store.workers(["w"]),
        "swap_workers": lambda: store.swap_workers([worker("w", revision=99)]),
        "meet": lambda: store.meet(Presence(dispatcher_id="d", clock=NOW, host="h", uptime=1.0)),
        "remove_workers": lambda: store.remove_workers([worker("w", revision=99)]),
    }


def test_every_call_that_a_store_has_is_tried():
    class Named:
        """Notes which methods are asked for."""

        def __init__(self):
            self.asked = set()

        def __getattr__(self, name):
            self.asked.add(name)
            return lambda *arguments, **options: None

    named = Named()
    for call in calls_of(named).values():
        call()

    methods = {
        name
        for each in (Store, SearchableStore)
        for name, member in vars(each).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    assert methods - named.asked == {"open", "close", "watch"}, "these have tests of their own"


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("claims", [APART, OVERLAPPING], ids=["together", "in order"])
def test_a_commit_cut_off_anywhere_and_offered_again_is_done_once(run, databases, claims, is_done):
    async def scene(database, at):
        store, witness = database.store(), database.store()
        await store.open()
        await witness.open()
        try:
            batch = await given_world(store, claims)
            before = await stored(witness)
            loss = database.lose(store, at=at, is_done=is_done)
            failures = []
            while True:
                try:
                    committed = await store.commit(batch)
                    break
                except StoreError as error:
                    failures.append(error)
                    left = await stored(witness)
                    if database.is_atomic and left not in (before, expected[1]):
                        raise AssertionError(
                            f"a part of the batch was left by write {at}"
                        ) from error
                assert len(failures) < 10, failures
            return told(batch, committed), await stored(witness), loss.have_happened
        finally:
            await store.close()
            await witness.close()

    async def undisturbed_scene(database):
        store = database.store()
        await store.open()
        try:
            return await undisturbed(store, claims)
        finally:
            await store.close()

    database = databases()
    expected = run(undisturbed_scene(database))
    for at in range(MOST_WRITES):
        outcome, left, was_lost = run(scene(databases(), at))
        assert outcome == expected[0], f"the answer to write {at} was lost"
        assert left == expected[1], f"the answer to write {at} was lost"
        if not was_lost:
            break
    else:
        raise AssertionError("the batch never came to its end")
    assert at >= database.fewest_writes, "there are fewer writes than parts"


def test_a_failed_commit_harms_nobody_who_commits_beside_it(run, database, opened):
    store = opened()

    async def scene():
        database.lose(store, at=3, is_done=False)
        batches = [Batch(now=NOW, inserts=[job(f"job-{at}")], renewed=["w"]) for at in range(4)]
        answers = await asyncio.gather(*map(store.commit, batches), return_exceptions=True)
        failed = [b for b, answer in zip(batches, answers, strict=True) if answer.__class__ in FAIL]
        for batch in failed:
            await store.commit(batch)
        return await store.find(JobQuery())

    FAIL = {StoreError, *StoreError.__subclasses__()}  # noqa: N806

    assert len(run(scene())) == 4


@pytest.mark.usefixtures("lost_sockets")
def test_while_the_database_is_away_every_call_is_a_store_error(run, database, opened):
    store = opened()
    run(store.insert([job("one")]))

    async def scene():
        wrong = {}
        with database.cut_off():
            for name, call in calls_of(store).items():
                try:
                    answer = await asyncio.wait_for(call(), 20.0)
                except StoreError:
                    continue
                except Exception as error:
                    wrong[name] = repr(error)
                else:
                    wrong[name] = answer
        return wrong

    assert run(scene()) == {}


@pytest.mark.usefixtures("lost_sockets")
def test_when_the_database_is_back_every_call_works_without_opening_anew(run, database, opened):
    store = opened()
    run(store.insert([job("one")]))

    async def scene():
        with database.cut_off(), pytest.raises(StoreError):
            await store.insert([job("two")])
        for call in calls_of(store).values():
            deadline = asyncio.get_running_loop().time() + 15.0
            while True:
                try:
                    await call()
                    break
                except StoreError:
                    assert asyncio.get_running_loop().time() < deadline
                    await asyncio.sleep(0.1)
        return await store.get(["one", "late"])

    assert all(run(scene()))


@pytest.mark.usefixtures("lost_sockets")
def test_watching_ends_with_a_store_error_if_at_all(run, database, opened):
    store = opened()

    async def scene():
        watching = asyncio.get_running_loop().create_task(store.watch(lambda: None))
        await asyncio.sleep(0.2)
        with database.cut_off():
            await asyncio.sleep(1.0)
        await asyncio.sleep(0.1)
        watching.cancel()
        await asyncio.wait([watching])
        return None if watching.cancelled() else watching.exception()

    error = run(scene())

    assert error is None or isinstance(error, StoreError)


def test_a_store_that_is_not_open_says_so_by_a_store_error(run, database):
    store = database.store()
    for name, call in calls_of(store).items():
        with pytest.raises(StoreError):
            run(_awaited(call))
        assert name
    run(store.open())
    run(store.close())
    for call in calls_of(store).values():
        with pytest.raises(StoreError):
            run(_awaited(call))


async def _awaited(call):
    return await call()
