"""The PING/PONG peers, without sockets and without waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shunter.model.report import Held
from shunter.wire.frames import PING, READY
from shunter.wire.pingpong import (
    BrokerWatch,
    JobForgotten,
    JoinedQueue,
    LeftQueue,
    PlainWorkers,
    Reopen,
    ResultArrived,
    SendPing,
    SendPong,
    SendReady,
    UnexpectedResultArrived,
)

JOB = Held("j-1", 1)
W = b"worker"


def workers() -> PlainWorkers:
    return PlainWorkers(expire_after=3.0)


def busy_worker(now: float = 0.0) -> PlainWorkers:
    plain = workers()
    plain.received(W, READY, now=now)
    plain.sent(W, JOB, now=now)
    return plain


def test_a_worker_says_ready_pings_every_second_and_reopens_after_n_timeouts() -> None:
    watch = BrokerWatch(broker_timeout=1.0, n_timeouts=3)

    assert watch.opened(now=10.0) == [SendReady()]
    assert watch.tick(now=10.5) == []
    assert watch.tick(now=11.0) == [SendPing()]
    assert watch.tick(now=11.5) == []
    assert watch.tick(now=13.0) == [Reopen(3.0)]


def test_any_message_shows_that_the_broker_lives() -> None:
    watch = BrokerWatch(broker_timeout=1.0, n_timeouts=3)
    watch.opened(now=0.0)

    watch.heard(now=2.5)

    assert watch.tick(now=5.0) == [SendPing()]
    assert watch.tick(now=5.5) == [Reopen(3.0)]


def test_one_unanswered_ping_is_enough_where_a_fellow_has_spoken_since() -> None:
    watch = BrokerWatch(broker_timeout=0.5, n_timeouts=6)
    watch.opened(now=0.0)

    assert watch.tick(now=1.4, fellow_heard_at=1.3) == [SendPing()]
    assert watch.tick(now=1.6, fellow_heard_at=0.9) == []
    assert watch.tick(now=1.6, fellow_heard_at=1.3) == [Reopen(1.6)]


def test_ready_registers_and_is_answered_pong() -> None:
    assert workers().received(W, READY, now=0.0) == [JoinedQueue(W), SendPong(W)]


def test_ping_is_answered_pong_and_puts_an_unknown_worker_into_the_queue() -> None:
    plain = workers()

    assert plain.received(W, PING, now=0.0) == [JoinedQueue(W), SendPong(W)]
    assert plain.received(W, PING, now=1.0) == [SendPong(W)]


def test_a_result_goes_to_its_job_and_puts_the_worker_back() -> None:
    plain = busy_worker()

    assert plain.received(W, b"42", now=9.0) == [ResultArrived(W, JOB, b"42"), JoinedQueue(W)]


def test_an_idle_worker_expires_and_any_message_renews_it() -> None:
    plain = workers()
    plain.received(W, READY, now=0.0)
    plain.received(W, PING, now=2.0)

    assert plain.tick(now=4.9) == []
    assert plain.tick(now=5.0) == [LeftQueue(W)]
    assert plain.received(W, PING, now=6.0) == [JoinedQueue(W), SendPong(W)]


def test_a_busy_worker_never_expires() -> None:
    assert busy_worker().tick(now=1e6) == []


def test_ready_from_a_busy_worker_means_that_it_has_lost_its_job() -> None:
    effects = busy_worker().received(W, READY, now=0.001)

    assert effects == [
        JobForgotten(W, JOB, "worker said READY while busy"),
        JoinedQueue(W),
        SendPong(W),
    ]


def test_a_late_ping_from_a_busy_worker_means_that_it_has_lost_its_job() -> None:
    effects = busy_worker().received(W, PING, now=1.0)

    assert [type(effect) for effect in effects] == [JobForgotten, JoinedQueue, SendPong]


def test_a_ping_that_may_have_crossed_the_job_keeps_the_worker_out_of_the_queue() -> None:
    plain = busy_worker()

    crossed = plain.received(W, PING, now=0.01)

    assert [type(effect) for effect in crossed] == [JobForgotten, SendPong]
    assert plain.received(W, b"42", now=0.5) == [UnexpectedResultArrived(W, b"42"), JoinedQueue(W)]


def test_a_worker_in_doubt_that_pings_again_is_idle_after_all() -> None:
    plain = busy_worker()
    plain.received(W, PING, now=0.01)

    assert plain.received(W, PING, now=1.0) == [JoinedQueue(W), SendPong(W)]


def test_a_result_from_nobody_we_know_is_unasked() -> None:
    assert workers().received(W, b"42", now=0.0) == [UnexpectedResultArrived(W, b"42")]


def test_a_worker_whose_job_was_taken_away_is_unknown_until_it_speaks() -> None:
    plain = busy_worker()

    assert not plain.gave_up(W, Held("j-1", 2))
    assert plain.gave_up(W, JOB)
    assert plain.received(W, b"late", now=9.0) == [UnexpectedResultArrived(W, b"late")]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([READY, PING, b"result", b"<job>", b"<tick>"]),
            st.floats(0, 2),
        ),
        max_size=60,
    )
)
def test_whatever_is_said_a_worker_never_has_two_jobs_and_no_result_is_misattributed(
    script: list[tuple[bytes, float]],
) -> None:
    """The witness is a worker that does its jobs in order, however its PINGs may cross them."""
    plain, now, is_ready, count = workers(), 0.0, False, 0
    given_jobs: list[Held] = []
    for what, gap in script:
        now += gap
        if what == b"<job>":
            if is_ready:
                count += 1
                held = Held(f"j-{count}", 1)
                plain.sent(W, held, now=now)
                given_jobs.append(held)
                is_ready = False
            continue
        effects = plain.tick(now=now) if what == b"<tick>" else plain.received(W, what, now=now)
        for effect in effects:
            match effect:
                case JoinedQueue():
                    assert not is_ready
                    is_ready = True
                case LeftQueue():
                    assert is_ready
                    is_ready = False
                case ResultArrived(_, job, _):
                    assert job == given_jobs[-1]
                case _:
                    pass


def test_a_ping_says_nothing_about_a_large_job_that_may_still_be_on_its_way() -> None:
    plain = workers()
    plain.received(W, READY, now=0.0)
    plain.sent(W, JOB, now=0.0, size=1_000_000)

    assert plain.received(W, PING, now=9.9) == [SendPong(W)]
    assert plain.received(W, PING, now=10.0)[0] == JobForgotten(
        W, JOB, "worker said PING while busy"
    )


def test_a_ready_says_that_a_large_job_never_came() -> None:
    plain = workers()
    plain.received(W, READY, now=0.0)
    plain.sent(W, JOB, now=0.0, size=1_000_000)

    assert plain.received(W, READY, now=1.0)[0] == JobForgotten(
        W, JOB, "worker said READY while busy"
    )
