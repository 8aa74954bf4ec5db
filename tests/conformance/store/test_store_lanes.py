"""Claims under limits: never more at once than allowed, and nobody waits behind a full key."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from itertools import cycle, islice

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, jobs
from long_runs import IS_LONG
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.job import Status
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.lane_claim import LanePlace
from shunter.model.lifecycle import WorkerSlot
from shunter.model.limits_record import LaneCount
from shunter.model.place_guess import PlaceGuesses
from shunter.model.record import RecordKind
from shunter.store.port import Batch

BY_TENANT = JobLimits(limit=Limit(5, by="tenant", total=8))
FAIR = JobLimits(fair="tenant")


def of(tenant, count, *, limits=BY_TENANT, **changes):
    """Jobs of one tenant, in their lane."""
    keys = {"tenant": tenant}
    return jobs(count, tenant, keys=keys, lane=limits.lane(keys), **changes)


def claim_of(limits=BY_TENANT, *, limit=10, by="d-1", now=NOW, after=None, slots=True):
    started = tuple(WorkerSlot(f"w-{by}") for _ in range(limit)) if slots else ()
    plain = claim(limit=limit, by=by, now=now)
    return replace(plain, limits=limits, after=after, slots=started)


class Claimer:
    """Claims as a dispatcher does: by guesses where the last look allows it."""

    def __init__(self, store, limits, *, workers=("w-d-1",)):
        self._store, self._limits = store, limits
        self._slots = [WorkerSlot(it) for it in workers]
        self._guesses = PlaceGuesses()
        self.guessed = 0

    async def commit(self, limit, **parts):
        first = self._guesses.first("sum")
        guess = self._guesses.of("sum", self._limits, wanted=limit, now=NOW)
        self.guessed += guess is not None
        slots = tuple(islice(cycle(self._slots), limit))
        asked = replace(claim_of(self._limits, limit=limit), slots=slots, first=first, guess=guess)
        committed = await self._store.commit(Batch(now=NOW, claims=[asked], **parts))
        look = committed.looks["sum"]
        self._guesses.saw("sum", look.guess, started=len(committed.claimed[0]))
        return committed


def names(found):
    return [it.id for it in found]


def test_a_claim_in_lanes_ends_with_the_job_that_fills_it(run, store):
    run(store.insert(of("a", 3, payload=b"1234")))
    asked = replace(claim_of(limit=3), most_bytes=8)

    taken = [run(store.claim(asked)), run(store.claim(asked))]

    assert [len(some) for some in taken] == [2, 1]


def test_where_nothing_waits_nothing_is_held_back(run, store):
    committed = run(store.commit(Batch(now=NOW, claims=[claim_of()])))

    look = committed.looks["sum"]
    assert (committed.claimed, look.is_held_back, look.is_more) == ([[]], False, False)


def test_a_key_has_no_more_at_once_than_its_limit_and_all_no_more_than_the_total(run, store):
    run(store.insert([*of("a", 7), *of("b", 3)]))

    taken = run(store.claim(claim_of(limit=20)))

    assert Counter(it.keys["tenant"] for it in taken) == {"a": 5, "b": 3}
    assert {it.execution.limit_place for it in taken if it.lane == "tenant=a"} == set(range(5))
    assert sorted(it.execution.total_place for it in taken) == list(range(8))
    assert run(store.claim(claim_of())) == []
    assert run(store.get(names(taken), payload=True)) == taken


@pytest.mark.parametrize(
    "over",
    [
        lambda it: lifecycle.completed(it, it.attempt, result=b"\xc0", now=NOW),
        lambda it: lifecycle.returned(it, it.attempt, "full", now=NOW),
        lambda it: lifecycle.lost(it, it.attempt, "gone", now=NOW, jitter=0.0, max_losses=5),
        lambda it: lifecycle.cancelled(it, now=NOW, stoppable=False),
        lambda it: lifecycle.expired(it, now=NOW, jitter=0.0, max_losses=5),
    ],
)
def test_a_run_that_is_over_frees_its_places_by_the_write_that_ends_it(run, store, over):
    run(store.insert(of("a", 6)))
    taken = run(store.claim(claim_of()))
    freed = taken[2].execution

    assert run(store.replace([over(taken[2])])) == [True]
    [next_one] = run(store.claim(claim_of()))

    assert next_one.execution.limit_place == freed.limit_place
    assert run(store.claim(claim_of())) == []


def test_a_claim_that_is_not_started_yet_holds_its_places_until_it_is_released(run, store):
    run(store.insert(of("a", 6)))
    taken = run(store.claim(claim_of(slots=False)))

    assert {it.status for it in taken} == {Status.DISPATCHING}
    assert run(store.claim(claim_of())) == []
    started = lifecycle.started(taken[0], WorkerSlot("w-1"), now=NOW)
    released = lifecycle.released(taken[1], now=NOW)
    assert run(store.replace([started, released])) == [True, True]
    assert len(run(store.claim(claim_of()))) == 1


def test_who_waits_behind_many_of_a_full_key_is_claimed_next(run, store):
    count = 100 if IS_LONG else 1 if "Mongo" in type(store).__name__ else 20  # thousand
    for number in range(count):
        run(store.insert([replace(it, id=f"a-{number}-{it.id}") for it in of("a", 1000)]))
    run(store.insert([job("b", created=NOW + 1e6, keys={"tenant": "b"}, lane="tenant=b")]))

    assert {it.lane for it in run(store.claim(claim_of(limit=5)))} == {"tenant=a"}
    assert names(run(store.claim(claim_of(limit=5)))) == ["b"]


def test_whose_turn_it_is_has_the_next_place_behind_any_number_of_another_key(run, store):
    count = 100 if IS_LONG else 1  # thousand
    for number in range(count):
        many = of("a", 1000, limits=FAIR)
        run(store.insert([replace(it, id=f"a-{number}-{it.id}") for it in many]))
    first = run(store.commit(Batch(now=NOW, claims=[claim_of(FAIR, limit=5)])))
    run(store.insert([job("b", created=NOW + 1e6, keys={"tenant": "b"}, lane="tenant=b")]))

    turn = claim_of(FAIR, limit=1, after=first.looks["sum"].after)
    assert names(run(store.claim(turn))) == ["b"]


def test_keys_take_turns(run, store):
    run(store.insert([*of("a", 9, limits=FAIR), *of("b", 2, limits=FAIR)]))
    served, after = [], None
    for _ in range(5):
        done = run(store.commit(Batch(now=NOW, claims=[claim_of(FAIR, limit=1, after=after)])))
        served += names(done.claimed[0])
        after = done.looks["sum"].after

    assert served == ["a-0", "b-0", "a-1", "b-1", "a-2"]


def test_a_higher_priority_goes_before_turns(run, store):
    run(store.insert([*of("a", 3, limits=FAIR), *of("b", 1, limits=FAIR)]))
    urgent = job("urgent", keys={"tenant": "a"}, lane="tenant=a", priority=1)
    run(store.insert([urgent]))

    taken = run(store.claim(claim_of(FAIR, limit=2, after="tenant=a")))

    assert names(taken) == ["urgent", "b-0"]


def test_more_keys_than_one_look_holds_are_all_served(run, store):
    many = [job(f"j-{n:03}", keys={"tenant": f"{n:03}"}, lane=f"tenant={n:03}") for n in range(300)]
    run(store.insert(many))
    served, after = [], None
    for _ in range(6):
        done = run(store.commit(Batch(now=NOW, claims=[claim_of(FAIR, limit=60, after=after)])))
        served += names(done.claimed[0])
        after = done.looks["sum"].after

    assert sorted(served) == [it.id for it in many]


def test_jobs_in_no_lane_are_sorted_by_the_claim(run, store):
    run(store.insert(jobs(7, "a", keys={"tenant": "a"})))
    run(store.insert([job("b", created=NOW + 9, keys={"tenant": "b"}), job("none")]))

    taken = run(store.claim(claim_of()))

    assert {it.id: it.lane for it in taken if it.id in ("b", "none")} == {
        "b": "tenant=b",
        "none": "tenant=",
    }
    assert len(taken) == 7
    [waiting] = run(store.get(["a-6"]))
    assert (waiting.lane, waiting.revision) == ("tenant=a", 0)
    assert run(store.claim(claim())) == [], "a claim without limits got a job out of a lane"


def test_jobs_in_lanes_of_another_key_are_sorted_anew(run, store):
    run(store.insert(of("a", 3)))
    for at, lane in enumerate(("aa=1", "", "user=7")):
        run(store.insert([job(f"x-{at}", keys={"tenant": "x"}, lane=lane)]))

    for _ in range(3):
        run(store.claim(claim_of(limit=0)))
    taken = run(store.claim(claim_of()))

    assert Counter(it.lane for it in taken) == {"tenant=a": 3, "tenant=x": 3}
    everything = JobLimits()
    run(store.insert(of("late", 1)))
    run(store.claim(claim_of(everything, limit=0)))
    assert [it.lane for it in run(store.claim(claim_of(everything)))] == [""]


def test_a_token_is_taken_by_the_claim_and_the_next_one_is_told(run, store):
    limits = JobLimits(rate=Rate(60, per=60, by="tenant"))
    run(store.insert([*of("a", 3, limits=limits), *of("b", 1, limits=limits)]))

    first = run(store.commit(Batch(now=NOW, claims=[claim_of(limits)])))
    due = first.looks["sum"].due
    early = run(store.commit(Batch(now=NOW, claims=[claim_of(limits, now=due - 0.01)])))
    later = run(store.commit(Batch(now=NOW, claims=[claim_of(limits, now=due)])))

    assert sorted(names(first.claimed[0])) == ["a-0", "b-0"]
    assert NOW < due < NOW + 1
    assert early.claimed == [[]]
    assert early.looks["sum"].due == due
    assert names(later.claimed[0]) == ["a-1"]
    buckets = {it.name for it in run(store.records(RecordKind.RATE))}
    assert buckets == {"sum tenant=a", "sum tenant=b"}


def test_jobs_in_lanes_are_counted(run, store):
    run(store.insert([*of("a", 7), *of("b", 1), *jobs(2, type="other")]))
    assert run(store.oldest())["sum"] == NOW
    run(store.claim(claim_of()))

    assert run(store.lane_counts(limit=10)) == [
        LaneCount(type="sum", lane="tenant=a", running=5, waiting=2),
        LaneCount(type="sum", lane="tenant=b", running=1, waiting=0),
    ]
    assert len(run(store.lane_counts(limit=1))) == 1
    counts = {(it.type, it.status): it.count for it in run(store.backlog())}
    assert counts == {
        ("other", Status.QUEUED): 2,
        ("sum", Status.IN_PROGRESS): 6,
        ("sum", Status.QUEUED): 2,
    }


def test_several_stores_together_never_exceed_a_limit(run, database, opened):
    stores = [opened(), opened()]
    run(stores[0].insert([*of("a", 60), *of("b", 20)]))
    most = Counter()

    async def work(store, by):
        """Claim, check who runs, and end one job: what another store has ended may be gone."""
        idle = 0
        while idle < 4:
            mine = await store.claim(claim_of(limit=3, by=by))
            idle = 0 if mine else idle + 1
            counted = {it.lane: it.running for it in await store.lane_counts(limit=10)}
            for lane, running in counted.items():
                most[lane] = max(most[lane], running)
            most["all"] = max(most["all"], sum(counted.values()))
            done = [lifecycle.completed(it, 1, result=b"\xc0", now=NOW) for it in mine]
            assert await store.replace(done) == [True] * len(done)

    async def scene():
        await asyncio.gather(*(work(s, f"d-{at}-{n}") for at, s in enumerate(stores) for n in "ab"))

    run(scene())

    assert most["tenant=a"] <= 5
    assert most["all"] <= 8
    assert [it.status for it in run(stores[0].get(["a-59", "b-19"]))] == [Status.COMPLETED] * 2


@pytest.mark.parametrize("fair", ["", "tenant"])
def test_places_that_are_guessed_wrong_cost_a_look_and_no_job(run, database, opened, fair):
    limits = JobLimits(limit=Limit(60, by="tenant"), fair=fair)
    busy, other = opened(), opened()
    run(busy.insert([*of("a", 90, limits=limits), *of("b", 30, limits=limits)]))
    claimer = Claimer(busy, limits)
    taken = run(claimer.commit(4)).claimed[0]
    # on places that the first one takes for free
    run(other.claim(replace(claim_of(limits, limit=20), first=4)))

    for _ in range(40):
        taken += run(claimer.commit(4)).claimed[0]
    counted = {it.lane: it.running for it in run(busy.lane_counts(limit=10))}

    assert claimer.guessed > 4
    assert counted == {"tenant=a": 60, "tenant=b": 30}
    assert len(taken) == 70
    places = [(it.lane, it.execution.limit_place) for it in taken]
    assert len(set(places)) == len(places)


def test_while_there_is_plenty_of_room_jobs_start_in_order(run, store):
    limits = JobLimits(limit=Limit(1000, by="tenant", total=5000))
    run(store.insert([*of("a", 30, limits=limits), *of("b", 30, limits=limits)]))
    claimer = Claimer(store, limits)
    ended, found = [], []
    for _ in range(6):
        committed = run(claimer.commit(10, replacements=ended))
        [taken] = committed.claimed
        assert all(committed.replaced)
        ended = [lifecycle.completed(it, it.attempt, result=b"\xc0", now=NOW) for it in taken]
        found += taken

    assert len(found) == 60
    assert [it.created for it in found] == sorted(it.created for it in found)
    assert claimer.guessed == 5


@pytest.mark.parametrize(
    "limit", [Limit(40, by="tenant"), Limit(40), Limit(40, by="tenant", total=60)]
)
def test_jobs_that_start_by_a_guess_hold_the_places_that_they_are_said_to(run, store, limit):
    limits = JobLimits(limit=limit)
    run(store.insert([*of("a", 50, limits=limits), *of("b", 5, limits=limits)]))
    claimer = Claimer(store, limits, workers=("w-1", "w-2"))

    taken = run(claimer.commit(3)).claimed[0] + run(claimer.commit(8)).claimed[0]
    rest = run(store.claim(claim_of(limits, limit=60)))

    assert claimer.guessed == 1
    assert run(store.get(names(taken), payload=True)) == taken
    assert {it.execution.worker_id for it in taken} == {"w-1", "w-2"}
    held = [(it.lane, it.execution.limit_place) for it in taken + rest]
    totals = [it.execution.total_place for it in taken + rest]
    is_all = limit.total or not limit.by
    assert len(set(totals if is_all else held)) == len(held)
    assert len(held) == (45 if limit.by else 40)


def test_numbers_go_on_behind_those_that_a_batch_has_given(run, store):
    limits = JobLimits(limit=Limit(1000, by="tenant", total=1000))

    def more(at):
        made = of("a", 5, limits=limits)
        return [replace(it, id=f"{at}-{it.id}", created=it.created + at) for it in made]

    run(store.insert(more(0)))
    claimer = Claimer(store, limits)
    [taken] = run(claimer.commit(2)).claimed
    for at in range(1, 4):  # a part of each claim waits for what the same batch stores
        taken += run(claimer.commit(6, inserts=more(at))).claimed[0]

    assert claimer.guessed == 3
    assert [it.execution.total_place for it in taken] == list(range(len(taken)))


def test_a_claim_by_a_guess_says_whether_others_wait(run, store):
    limits = JobLimits(limit=Limit(1000, by="tenant"))
    run(store.insert(of("a", 9, limits=limits)))
    claimer = Claimer(store, limits)
    run(claimer.commit(4))

    unknown = run(claimer.commit(9, inserts=of("b", 1, limits=limits)))
    after = run(claimer.commit(9))
    last = run(claimer.commit(9))

    assert (len(unknown.claimed[0]) < 6, unknown.looks["sum"].is_more) in (
        (True, True),  # a lane that the guess knows nothing of
        (False, False),  # or a look at once
    )
    assert len(unknown.claimed[0]) + len(after.claimed[0]) == 6
    look = last.looks["sum"]
    assert (look.is_more, look.is_held_back, look.guess is None) == (False, False, False)


def test_a_new_job_starts_on_a_place_that_was_guessed_or_else_waits(run, store):
    queued = of("a", 3)
    run(store.insert(queued[:1]))
    [first] = run(store.claim(claim_of()))
    number = first.execution.limit_place
    slot = WorkerSlot("w-1")

    def started(it, place):
        mine = lifecycle.claimed(it, dispatcher_id="d-1", now=NOW)
        return lifecycle.started(lifecycle.occupying(mine, place), slot, now=NOW)

    taken, free = LanePlace(number, 7), LanePlace((number + 1) % 5, 6)
    new = [started(queued[1], taken), started(queued[2], free)]
    otherwise = {it.id: it for it in queued[1:]}
    batch = Batch(now=NOW, inserts=new, otherwise=otherwise)
    committed = run(store.commit(batch))
    again = run(store.commit(Batch(now=NOW, inserts=new, otherwise=otherwise)))

    assert committed.inserted[0] is queued[1], "its place was another's"
    assert committed.inserted[1] is new[1]
    stored = run(store.get(names(new), payload=True))
    assert stored == [queued[1], new[1]]
    assert again.inserted == stored, "they are stored once"


def test_several_stores_together_never_exceed_a_rate(run, database, opened):
    limits = JobLimits(rate=Rate(10, per=10))
    stores = [opened(), opened()]
    run(stores[0].insert(of("a", 60, limits=limits)))

    async def scene():
        started = 0
        for step in range(12):
            now = NOW + step * 0.5
            found = await asyncio.gather(
                *(s.claim(claim_of(limits, by=f"d-{at}", now=now)) for at, s in enumerate(stores))
            )
            started += sum(map(len, found))
        return started

    assert 3 <= run(scene()) <= 6


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
def test_a_claim_cut_off_anywhere_and_offered_again_takes_what_is_allowed_once(
    run, databases, is_done
):
    limits = JobLimits(limit=Limit(2, by="tenant"), rate=Rate(10, per=10, by="tenant"))

    async def scene(database, at):
        store = database.store()
        await store.open()
        try:
            await store.insert([*jobs(3, "b", keys={"tenant": "b"}), *of("a", 3, limits=limits)])
            loss = database.lose(store, at=at, is_done=is_done)
            batch = Batch(now=NOW, claims=[claim_of(limits)])
            for _ in range(10):
                with contextlib.suppress(StoreError):
                    committed = await store.commit(batch)
                    break
            [due] = {float(it.document) for it in await store.records(RecordKind.RATE)}
            counted = {it.lane: it.running for it in await store.lane_counts(limit=5)}
            return sorted(names(committed.claimed[0])), due, counted, loss.have_happened
        finally:
            await store.close()

    database, at, was_lost = databases(), 0, True
    while was_lost:
        claimed, due, counted, was_lost = run(scene(database, at))
        assert claimed == ["a-0", "b-0"], f"write {at}"
        assert due == NOW - 0.5 + 10.5 / 10
        assert counted == {"tenant=a": 1, "tenant=b": 1}
        database, at = databases(), at + 1
    assert at >= 3, "too few writes were lost"
