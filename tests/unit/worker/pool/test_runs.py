"""What becomes of each run that a pool has in hand."""

from __future__ import annotations

from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Held, Report
from shunter.model.retry import Retry
from shunter.model.worker import Handler
from shunter.wire.messages import Assignment
from shunter.worker.pool.escalation import Push
from shunter.worker.pool.first_runs import is_first_run
from shunter.worker.pool.runs import Runs

RETRY = Retry(limit=2)
OOPS = Failure(ErrorKind.EXCEPTION, "ValueError: oops")


def job(name: str, *, attempt: int = 1, timeout: float | None = None) -> Assignment:
    return Assignment(name, attempt, "work", b"\xc0", timeout, None)


def runs() -> Runs:
    return Runs([Handler("work", timeout=5.0, retry=RETRY)], grace=1.0)


def test_a_run_ends_in_one_report_and_is_then_unknown() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)

    mine.end(key, result=b"1")
    mine.end(key, result=b"2")

    assert mine.take_output() == ([Report("a", 1, b"1")], [])
    assert mine.held() == []


def test_a_failure_carries_the_handlers_retry_policy() -> None:
    mine = runs()

    mine.end(mine.add(job("a"), now=0.0), failure=OOPS, log="said")

    assert mine.take_output()[0] == [Report("a", 1, None, OOPS, "said", RETRY)]


def test_a_run_that_was_forgotten_reports_nothing() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)

    assert mine.forget([key]) == [Held("a", 1)]
    mine.end(key, result=b"1")
    mine.advance(key, 1, 2)

    assert mine.take_output() == ([], [])


def test_a_cancel_for_another_attempt_is_ignored() -> None:
    mine = runs()
    mine.add(job("a", attempt=2), now=0.0)

    assert mine.cancel([Held("a", 1), Held("b", 1)]) == set()
    assert mine.stopping == {}


def test_a_second_cancel_does_not_begin_the_escalation_again() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.cancel([Held("a", 1)])
    assert mine.pushes([key], now=0.0) == [(key, Push.REQUEST)]

    assert mine.cancel([Held("a", 1)]) == set()
    assert mine.pushes([key], now=0.5) == [(key, Push.REQUEST)]
    assert mine.pushes([key], now=1.0) == [(key, Push.SIGTERM)]


def test_a_run_that_is_not_under_way_yet_is_pushed_when_it_is() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.cancel([Held("a", 1)])

    assert mine.pushes([], now=0.0) == []
    assert mine.pushes([key], now=9.0) == [(key, Push.REQUEST)]


def test_a_cancelled_run_that_completes_has_completed() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.cancel([Held("a", 1)])
    mine.pushes([key], now=0.0)

    mine.end(key, result=b"1")

    assert mine.take_output()[0] == [Report("a", 1, b"1")]


def test_a_run_past_its_time_has_timed_out_even_if_it_then_completes() -> None:
    mine = runs()
    key = mine.add(job("a", timeout=2.0), now=0.0)
    mine.expire([(key, 10.0)], now=11.9)
    assert mine.stopping == {}

    mine.expire([(key, 10.0)], now=12.0)
    mine.pushes([key], now=12.0)
    mine.end(key, result=b"1")

    failure = Failure(ErrorKind.TIMEOUT, "ran past its time-out of 2 s", ended_by="request")
    assert mine.take_output()[0] == [Report("a", 1, None, failure, "", RETRY)]


def test_the_handlers_timeout_counts_where_the_job_has_none() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)

    mine.expire([(key, 0.0)], now=4.9)
    assert mine.stopping == {}
    mine.expire([(key, 0.0)], now=5.0)

    assert mine.stopping.keys() == {key}


def test_a_cancel_that_came_first_is_not_turned_into_a_timeout() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.cancel([Held("a", 1)])
    mine.expire([(key, 0.0)], now=100.0)

    mine.end(key, failure=OOPS)

    error = mine.take_output()[0][0].error
    assert error is not None
    assert error.kind is ErrorKind.CANCELLED


def test_a_run_that_died_is_lost_with_its_cause_and_log() -> None:
    mine = runs()

    mine.die(mine.add(job("a"), now=0.0), "the process was ended by SIGSEGV", "said")

    failure = Failure(ErrorKind.LOST, "the process was ended by SIGSEGV")
    assert mine.take_output()[0] == [Report("a", 1, None, failure, "said", RETRY)]


def test_a_run_that_died_by_our_own_kill_says_why_it_was_stopped() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.cancel([Held("a", 1)])
    for now in (0.0, 1.0, 2.0):
        mine.pushes([key], now=now)

    mine.die(key, "the process was killed to end job a", "")

    failure = Failure(ErrorKind.CANCELLED, "cancelled on request", ended_by="SIGKILL")
    assert mine.take_output()[0][0].error == failure


def test_a_run_cancelled_in_the_queue_never_started() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.cancel([Held("a", 1)])

    mine.drop_unstarted(key, now=3.0)

    failure = Failure(ErrorKind.CANCELLED, "cancelled before it started")
    assert mine.take_output()[0][0].error == failure
    assert mine.stopping == {}


def test_a_report_says_how_long_the_job_waited_here_and_how_long_it_ran() -> None:
    mine = runs()
    key = mine.add(job("a"), now=10.0)

    mine.advance(key, 1, 2, begun=10.5)
    mine.end(key, result=b"1", lasted=(10.5, 3.0))

    reports, advances = mine.take_output()
    assert (reports[0].waited, reports[0].ran) == (0.5, 3.0)
    assert advances[0].waited == 0.5


def test_a_run_cancelled_in_the_queue_has_only_waited() -> None:
    mine = runs()
    key = mine.add(job("a"), now=1.0)
    mine.cancel([Held("a", 1)])

    mine.drop_unstarted(key, now=3.0)

    report = mine.take_output()[0][0]
    assert (report.waited, report.ran) == (2.0, 0.0)


def test_a_run_that_is_blamed_and_goes_on_is_forgiven_until_it_is_pushed() -> None:
    mine = runs()
    blamed, pushed, cancelled = (mine.add(job(name), now=0.0) for name in "abc")
    mine.blame(blamed, "it blocked")
    mine.blame(pushed, "it blocked")
    mine.cancel([Held("c", 1)])
    for now in (0.0, 1.0):
        mine.pushes([pushed], now=now)

    for key in (blamed, pushed, cancelled):
        mine.forgive(key)

    assert mine.stopping.keys() == {pushed, cancelled}


def test_a_cancelled_run_is_not_also_blamed() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.cancel([Held("a", 1)])

    mine.blame(key, "it blocked")

    assert mine.stopping[key].kind is ErrorKind.CANCELLED


def test_where_a_run_was_when_its_process_died_is_told() -> None:
    mine = runs()
    key = mine.add(job("a"), now=0.0)
    mine.blame(key, "it blocked")
    for now in (0.0, 1.0, 2.0):
        mine.pushes([key], now=now)

    mine.die(key, "killed", "said", traceback="line 3")

    failure = Failure(ErrorKind.EXCEPTION, "it blocked", "line 3", "SIGKILL")
    assert mine.take_output()[0][0].error == failure


def test_only_the_key_of_a_first_run_says_that_nothing_is_kept() -> None:
    mine = runs()
    begun = {"rerun-from-a-step"}

    first = mine.add(job("a"), now=0.0, begun=begun)
    others = [
        mine.add(job("a", attempt=2), now=0.0, begun=begun),
        mine.add(job("rerun-from-a-step"), now=0.0, begun=begun),
        mine.add(job("of-a-worker-without-journals"), now=0.0),
    ]

    assert is_first_run(first)
    assert not any(is_first_run(key) for key in others)


def test_keys_are_in_the_order_in_which_jobs_came_first_runs_or_not() -> None:
    mine = runs()

    keys = [mine.add(job("a", attempt=at), now=0.0, begun=()) for at in (1, 2, 1, 1, 2)]

    assert keys == sorted(set(keys))
