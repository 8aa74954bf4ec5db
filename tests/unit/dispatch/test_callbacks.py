"""Which dispatcher calls back for a job, when, and what it makes of the answer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shunter.dispatch import sweep
from shunter.dispatch.arrivals import CallbackAttempted
from shunter.dispatch.callbacks import READ_AT_ONCE
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.intake import IntakeRules
from shunter.dispatch.rules import CallbackRules
from shunter.model import callback
from shunter.model.allowed_hosts import allowed_hosts
from shunter.model.job import Callback, Job, Status
from shunter.model.report import Report
from shunter.model.retry import Retry
from shunter.store.port import Batch
from shunter.testing.finish import finish

URL = "http://127.0.0.1/done"
RULES = CallbackRules(max_tries=3, timeout=10.0, at_once=16, waits=Retry(delay=2.0, jitter=0.0))
TAKEN_FOR = RULES.timeout + callback.MARGIN_SECONDS


class Calls:
    """A CallbackLink that only writes down what it shall do."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.made: list[tuple[str, int]] = []
        self.url: str | None = URL
        dispatcher.serve_callbacks(self)

    def call(self, job: Job) -> None:
        assert job.callback is not None
        assert self.url in (None, job.callback.url)
        self.made.append((job.id, job.callback.tries))

    def answer(self, job_id: str, tries: int = 1, error: str | None = None) -> None:
        self.dispatcher.callback_attempted(job_id, tries, error)


def given(scene: Any, name: str = "d-1", **rules: Any) -> Calls:
    """A dispatcher of the scene with these rules, whose calls are written down."""
    dispatcher = scene.another_dispatcher(name, callbacks=replace(RULES, **rules))
    if name == "d-1":
        scene.dispatcher = dispatcher
    return Calls(dispatcher)


def end(scene: Any, *ids: str) -> None:
    """Let jobs with a callback complete."""
    scene.worker("w-1", slots=len(ids))
    scene.submit(*ids, callback=Callback(URL))
    scene.report("w-1", *(Report(job_id, 1, result=b"\x01") for job_id in ids))


def look(scene: Any, calls: Calls) -> None:
    """Do what a dispatcher does every 0.1 s."""
    finish(sweep.ring_alarms(calls.dispatcher))
    scene.turns(calls.dispatcher)


def state(scene: Any, job_id: str = "j-1") -> Callback:
    found = scene.job(job_id).callback
    assert isinstance(found, Callback)
    return found


def test_who_ends_a_job_calls_back_at_once(scene: Any) -> None:
    calls = given(scene)

    end(scene, "j-1")

    assert calls.made == [("j-1", 1)]
    assert state(scene).due == scene.clock() + TAKEN_FOR
    calls.answer("j-1")
    scene.turns()
    assert state(scene) == Callback(URL, delivered=True, tries=1)
    assert scene.dispatcher.counters["callbacks_delivered"] == 1


def test_a_job_without_a_callback_is_left_alone(scene: Any) -> None:
    calls = given(scene)
    scene.worker("w-1")
    scene.submit("j-1")
    scene.report("w-1", Report("j-1", 1, result=b"\x01"))

    look(scene, calls)

    assert calls.made == []


def test_a_cancelled_job_calls_back(scene: Any) -> None:
    calls = given(scene)
    scene.submit("j-1", callback=Callback(URL))

    scene.dispatcher.cancel(["j-1"], lambda receipts: None)
    scene.turns()

    assert scene.job("j-1").status is Status.CANCELLED
    assert calls.made == [("j-1", 1)]


def test_a_failed_call_is_made_again_after_a_growing_wait_and_given_up_in_the_end(
    scene: Any,
) -> None:
    calls = given(scene)
    end(scene, "j-1")

    for tries, wait in ((1, 2.0), (2, 4.0)):
        calls.answer("j-1", tries, "answered with 500")
        scene.turns()
        assert state(scene).due == scene.clock() + wait
        assert state(scene).error == "answered with 500"
        scene.clock.advance(wait - 0.1)
        look(scene, calls)
        assert len(calls.made) == tries
        scene.clock.advance(0.1)
        look(scene, calls)
        assert calls.made[-1] == ("j-1", tries + 1)
    calls.answer("j-1", 3, "answered with 503")
    scene.turns()

    assert (state(scene).due, state(scene).delivered, state(scene).tries) == (None, False, 3)
    assert "given up after 3 tries" in state(scene).error
    assert "503" in state(scene).error
    counters = scene.dispatcher.counters
    assert (counters["callbacks_failed"], counters["callbacks_given_up"]) == (2, 1)


def test_no_more_calls_are_under_way_than_may_be_at_once(scene: Any) -> None:
    calls = given(scene)

    end(scene, *(f"j-{number}" for number in range(10)))

    assert len(calls.made) == 4
    look(scene, calls)
    assert len(calls.made) == 4
    first, second, *_ = calls.made
    calls.answer(*first)
    calls.answer(*second, "no")
    scene.turns()
    assert len(calls.made) == 2 + 6, "a host that answers gets a place more for each answer"


def test_many_are_called_for_one_after_the_other_without_waiting_for_the_next_look(
    scene: Any,
) -> None:
    calls = given(scene)
    end(scene, *(f"j-{number}" for number in range(50)))

    answered = 0
    while answered < len(calls.made):
        calls.answer(*calls.made[answered])
        answered += 1
        scene.turns()

    assert sorted(job_id for job_id, _ in calls.made) == sorted(f"j-{n}" for n in range(50))
    assert all(state(scene, f"j-{number}").delivered for number in range(50))


def test_two_dispatchers_that_find_the_same_callbacks_make_each_call_once(scene: Any) -> None:
    end(scene, *(f"j-{number}" for number in range(8)))
    one, two = given(scene), given(scene, "d-2")
    due = finish(scene.store.due_callbacks(now=scene.clock(), limit=99))
    one.dispatcher.offer_callbacks(due)
    two.dispatcher.offer_callbacks(due)

    answered: set[str] = set()
    while one.dispatcher.has_work or two.dispatcher.has_work:
        for calls in (one, two):
            scene.turns(calls.dispatcher)
            for job_id, tries in calls.made:
                if job_id not in answered:
                    calls.answer(job_id, tries)
                    answered.add(job_id)

    made = [job_id for job_id, _ in one.made + two.made]
    assert one.made
    assert two.made
    assert sorted(made) == [f"j-{number}" for number in range(8)]


def test_a_callback_that_is_found_again_while_it_is_being_made_is_not_made_twice(
    scene: Any,
) -> None:
    end(scene, "j-1")
    calls = given(scene)
    due = finish(scene.store.due_callbacks(now=scene.clock(), limit=9))

    for _ in range(3):
        calls.dispatcher.offer_callbacks(due)
        scene.turns(calls.dispatcher)
    calls.answer("j-1")
    calls.dispatcher.offer_callbacks(due)
    scene.turns(calls.dispatcher)
    calls.dispatcher.offer_callbacks(due)
    scene.turns(calls.dispatcher)

    assert calls.made == [("j-1", 1)]
    assert state(scene).delivered


def test_when_a_dispatcher_dies_during_a_call_another_one_makes_it(scene: Any) -> None:
    dead, alive = given(scene), given(scene, "d-2")
    end(scene, "j-1")
    assert dead.made == [("j-1", 1)]

    scene.clock.advance(TAKEN_FOR - 0.1)
    look(scene, alive)
    assert alive.made == []
    scene.clock.advance(0.1)
    look(scene, alive)

    assert alive.made == [("j-1", 2)]


def test_a_success_that_is_heard_of_after_another_has_taken_over_counts(scene: Any) -> None:
    slow, other = given(scene), given(scene, "d-2")
    end(scene, "j-1")
    scene.clock.advance(TAKEN_FOR)
    look(scene, other)

    slow.answer("j-1", 1)
    scene.turns()

    assert state(scene).delivered
    other.answer("j-1", 2, "broke off")
    scene.turns(other.dispatcher)
    assert state(scene).delivered
    assert not other.dispatcher.has_work


def test_a_failure_that_is_heard_of_after_another_has_taken_over_is_dropped(scene: Any) -> None:
    slow, other = given(scene), given(scene, "d-2")
    end(scene, "j-1")
    scene.clock.advance(TAKEN_FOR)
    look(scene, other)
    taken = state(scene)

    slow.answer("j-1", 1, "too late")
    scene.turns()

    assert state(scene) == taken
    assert not scene.dispatcher.has_work


def test_who_never_says_how_its_last_call_went_has_made_it(scene: Any) -> None:
    given(scene)
    end(scene, "j-1")
    for name in ("d-2", "d-3"):
        scene.clock.advance(TAKEN_FOR)
        look(scene, given(scene, name))
    assert state(scene).tries == 3

    scene.clock.advance(TAKEN_FOR)
    look(scene, given(scene, "d-4"))

    assert state(scene).due is None
    assert "nobody knows how it ended" in state(scene).error


def test_a_dispatcher_that_makes_no_calls_leaves_them_to_others(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1", callback=Callback(URL))
    scene.report("w-1", Report("j-1", 1, result=b"\x01"))

    finish(sweep.ring_alarms(scene.dispatcher))
    scene.turns()
    assert state(scene) == Callback(URL, due=scene.clock())
    other = given(scene, "d-2")
    look(scene, other)

    assert other.made == [("j-1", 1)]


def test_a_dispatcher_that_stops_takes_no_more_calls(scene: Any) -> None:
    calls = given(scene)
    end(scene, *(f"j-{number}" for number in range(6)))
    calls.dispatcher.serve_callbacks(None)

    calls.answer(*calls.made[0])
    scene.turns()
    look(scene, calls)

    assert len(calls.made) == 4
    assert state(scene, calls.made[0][0]).delivered
    assert not scene.dispatcher.has_work


def test_a_thousand_due_callbacks_hold_up_no_alarm(scene: Any) -> None:
    calls = given(scene)
    owing = [
        Job(
            id=f"o-{number}",
            type="t",
            created=0.0,
            updated=0.0,
            status=Status.COMPLETED,
            callback=Callback(URL, due=1.0),
        )
        for number in range(1000)
    ]
    finish(scene.store.commit(Batch(now=0.0, inserts=owing)))
    scene.worker("w-1")
    scene.submit("j-1", delay=5.0)

    scene.clock.advance(5.0)
    look(scene, calls)

    assert scene.runs() == [("w-1", "j-1")]
    assert len(calls.made) == 4


def test_others_are_looked_for_while_one_host_has_all_the_places_that_it_may_have(
    scene: Any,
) -> None:
    calls = given(scene)
    assert calls.dispatcher.state.callbacks.appetite == READ_AT_ONCE

    end(scene, *(f"j-{number}" for number in range(20)))

    assert len(calls.made) == 4
    assert calls.dispatcher.state.callbacks.appetite == READ_AT_ONCE, "there may be other hosts"


@pytest.mark.parametrize("seconds", [-3600.0, -0.5])
def test_a_clock_that_is_set_back_delays_a_callback_and_breaks_nothing(
    scene: Any, seconds: float
) -> None:
    end(scene, "j-1")
    calls = given(scene)
    due = finish(scene.store.due_callbacks(now=scene.clock(), limit=9))
    calls.dispatcher.offer_callbacks(due)
    now = scene.clock()
    calls.dispatcher.now = lambda: now + seconds

    scene.turns(calls.dispatcher)
    assert calls.made == []
    calls.dispatcher.now = scene.clock
    look(scene, calls)

    assert calls.made == [("j-1", 1)]


# ---- submissions


def test_a_callback_to_a_host_that_is_not_allowed_is_refused(scene: Any) -> None:
    [receipt] = scene.submit("j-1", callback=Callback("http://10.0.0.1/x"))

    assert receipt.field == "callback.url"
    assert "calls to 10.0.0.1 are not allowed" in receipt.reason
    assert "callbacks.allowed_hosts" in receipt.reason
    assert finish(scene.store.get(["j-1"])) == [None]


def test_who_may_be_called_is_a_setting(scene: Any) -> None:
    intake = IntakeRules(callback_hosts=allowed_hosts(("hooks.example.com",)))
    scene.dispatcher = scene.another_dispatcher("d-1", intake=intake)

    [accepted] = scene.submit("j-1", callback=Callback("https://hooks.example.com/x"))
    [refused] = scene.submit("j-2", callback=Callback(URL))

    assert accepted.reason == ""
    assert "allowed are hooks.example.com" in refused.reason


def test_a_client_can_ask_for_a_callback_but_not_say_how_far_it_has_come(scene: Any) -> None:
    made_up = Callback(URL, delivered=True, due=1.0, tries=99, error="x")

    scene.submit("j-1", callback=made_up)

    assert state(scene) == Callback(URL)


# ---- hosts that are slow


def test_what_is_due_for_a_host_that_hangs_is_put_off_so_that_others_are_found(scene: Any) -> None:
    calls = given(scene)
    owing = [
        Job(
            id=f"o-{number}",
            type="t",
            created=0.0,
            updated=0.0,
            status=Status.COMPLETED,
            callback=Callback(URL, due=1.0),
        )
        for number in range(1000)
    ]
    other = replace(owing[0], id="other", callback=Callback("http://127.0.0.2/x", due=2.0))
    finish(scene.store.commit(Batch(now=0.0, inserts=[*owing, other])))
    calls.url = None
    look(scene, calls)
    assert len(calls.made) == 4

    scene.clock.advance(1.0)
    for _ in range(5):
        look(scene, calls)

    assert ("other", 1) in calls.made
    assert len(calls.made) == 5
    assert state(scene, "o-999").tries == 0
    assert state(scene, "o-999").due > scene.clock() + 1.0
    assert not scene.dispatcher.has_work


def ended(job_id: str, url: str) -> Job:
    return Job(
        id=job_id,
        type="t",
        created=0.0,
        updated=0.0,
        status=Status.COMPLETED,
        callback=Callback(url, due=1.0),
    )


def test_a_scheme_may_have_places_of_its_own(scene: Any) -> None:
    calls = given(scene, at_once_by_scheme={"udp": 200})
    calls.url = None
    owed = [ended(f"v-{port}", f"udp://127.0.0.1:{port}/1") for port in range(5000, 5100)]
    finish(scene.store.commit(Batch(now=0.0, inserts=owed)))
    look(scene, calls)
    assert len(calls.made) == 100

    end(scene, "j-1")

    assert calls.made[100:] == [("j-1", 1)]


@pytest.mark.parametrize(("error", "is_delivered"), [(None, True), ("no answer", False)])
def test_what_a_gateway_called_for_unasked_is_written(
    scene: Any, error: str | None, is_delivered: bool
) -> None:
    calls = given(scene)
    job = ended("u-1", "udp://127.0.0.1:4000/1")
    finish(scene.store.commit(Batch(now=0.0, inserts=[job])))

    calls.dispatcher.callbacks_attempted([CallbackAttempted("u-1", 0, error, job=job)])
    scene.turns(calls.dispatcher)

    assert state(scene, "u-1").delivered is is_delivered
    assert state(scene, "u-1").error == (error or "")


def test_what_was_called_for_unasked_is_decided_by_the_store_where_it_has_changed(
    scene: Any,
) -> None:
    calls, rival = given(scene), given(scene, "d-2")
    rival.url = None
    job = ended("u-1", "udp://127.0.0.1:4000/1")
    finish(scene.store.commit(Batch(now=0.0, inserts=[job])))
    look(scene, rival)
    assert rival.made == [("u-1", 1)]

    calls.dispatcher.callbacks_attempted([CallbackAttempted("u-1", 0, None, job=job)])
    scene.turns(calls.dispatcher)

    assert state(scene, "u-1").delivered
