"""A result reaches a dispatcher, however long that takes and whichever it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from system.http_worker.conftest import StartWorker
from system.http_worker.fake_dispatcher import LEASE, FakeDispatcher
from system.witness import runs_in
from system.yard import WITNESS_APP, Yard, free_port, until

QUIET = LEASE / 3
"""Less than after which a worker registers again by itself, and so finds another dispatcher."""


@pytest.fixture
def another() -> Iterator[FakeDispatcher]:
    """A second dispatcher, which the test starts when it likes."""
    fake = FakeDispatcher()
    yield fake
    fake.close()


def times(fake: FakeDispatcher, job_id: str) -> int:
    return [job for job, _ in fake.reports].count(job_id)


def test_a_report_is_repeated_until_somebody_decides(shared: FakeDispatcher) -> None:
    shared.will_answer(503, 500, 429, 408)

    shared.offer("patient", "add", 1, 2)

    until(lambda: times(shared, "patient") == 5)
    assert {said["result"] for job, said in shared.reports if job == "patient"} == {3}
    until(lambda: shared.look("patient") == 404)


@pytest.mark.parametrize(("status", "code"), [(409, "stale_attempt"), (404, "not_found")])
def test_a_report_that_does_not_count_is_forgotten(
    shared: FakeDispatcher, status: int, code: str
) -> None:
    job_id = f"refused-{status}"
    shared.will_answer(status, code=code)

    shared.offer(job_id, "add", 1, 2)

    shared.report_on(job_id)
    until(lambda: shared.look(job_id) == 404)
    assert times(shared, job_id) == 1


def test_a_result_that_is_too_large_fails_its_job(shared: FakeDispatcher) -> None:
    shared.will_answer(413, code="too_large")

    shared.offer("vast", "blob", 0.25)

    until(lambda: times(shared, "vast") == 2)
    said = shared.report_on("vast")
    assert (said["status"], said["error"]["kind"]) == ("f", "refused")
    assert "too_large" in said["error"]["message"]
    assert "result" not in said


def test_a_result_over_our_own_limit_fails_its_job(shared: FakeDispatcher) -> None:
    shared.offer("vaster", "blob", 1.5)

    said = shared.report_on("vaster")
    assert said["error"]["kind"] == "refused"
    assert "store the result elsewhere" in said["error"]["message"]


def test_many_reports_go_out_side_by_side(shared: FakeDispatcher) -> None:
    """Two of ten are refused again and again; the others pass them by."""
    shared.will_answer(*[503] * 2)
    names = [f"many-{number}" for number in range(10)]
    for name in names:
        until(lambda name=name: shared.offer(name, "add", 1, 1).status_code == 202)

    for name in names:
        assert shared.report_on(name)["result"] == 2
    for name in names:
        until(lambda name=name: shared.look(name) == 404)


def test_a_result_survives_its_dispatcher_again_and_again(
    dispatcher: FakeDispatcher, start_worker: StartWorker, yard: Yard
) -> None:
    worker = start_worker(dispatcher)
    dispatcher.offer("lasting", "work", 7, 0.5, lease=None)
    until(lambda: "lasting" in runs_in(yard.witness))

    dispatcher.stop()
    until(lambda: worker.logged(action="report"), what="a report in vain")
    dispatcher.will_answer(503, 503)
    dispatcher.start()
    until(lambda: times(dispatcher, "lasting") == 2)
    dispatcher.stop()
    dispatcher.answers.clear()
    dispatcher.start()

    until(lambda: times(dispatcher, "lasting") == 3)
    until(lambda: dispatcher.look("lasting", lease=None) == 404)
    assert dispatcher.report_on("lasting")["result"] == 7
    assert len(runs_in(yard.witness)["lasting"]) == 1
    assert len(worker.logged(action="report")) <= 3


def test_a_result_goes_to_another_dispatcher_when_its_own_is_gone(
    dispatcher: FakeDispatcher, another: FakeDispatcher, start_worker: StartWorker
) -> None:
    start_worker(dispatcher, another)
    dispatcher.offer("moving", "work", 7, 0.5)
    another.start()
    dispatcher.stop()

    assert another.report_on("moving", within=QUIET)["result"] == 7
    assert another.report_on("moving")["worker_id"] == "w-fake"


def test_a_dispatcher_that_comes_back_elsewhere_gets_the_result(
    dispatcher: FakeDispatcher, another: FakeDispatcher, start_worker: StartWorker
) -> None:
    """Both are down for a while, then the second one comes."""
    worker = start_worker(dispatcher, another)
    dispatcher.offer("moving", "add", 1, 2, lease=None)
    dispatcher.report_on("moving")
    dispatcher.offer("last", "work", 7, 0.5, lease=None)
    dispatcher.stop()
    until(lambda: worker.logged(action="report"))

    another.start()

    assert another.report_on("last")["result"] == 7


# ---- registering


def test_it_registers_at_the_first_that_answers(
    dispatcher: FakeDispatcher, start_worker: StartWorker
) -> None:
    start_worker(f"http://127.0.0.1:{free_port()}", dispatcher)

    dispatcher.await_introduction()


def test_it_listens_where_it_is_told_and_says_how_to_call_it(
    dispatcher: FakeDispatcher, yard: Yard
) -> None:
    port = free_port()
    config = yard.config(
        "named",
        {"worker.http.hostname": "localhost", "worker.http.dispatchers": [f"{dispatcher.url}/"]},
    )
    words = ["worker", "--http", "--app", WITNESS_APP, "--listen", f"127.0.0.1:{port}"]
    yard.process([*words, "--config", str(config)], "named")

    assert dispatcher.health_check().status_code == 200
    said = dispatcher.registrations[0]
    assert (said["hostname"], said["port"]) == ("localhost", port)


def test_it_waits_for_a_dispatcher_and_complains_once(
    another: FakeDispatcher, start_worker: StartWorker
) -> None:
    worker = start_worker(another)
    (complaint,) = until(lambda: worker.logged(action="register"))
    assert "start a dispatcher" in complaint["event"]
    assert str(another.port) in complaint["found"]

    another.registration_answers.extend([503, 503, 503])
    another.start()

    another.await_introduction()
    assert another.log.count("register") == 4
    lines = until(lambda: worker.logged(action="register")[1:] and worker.logged(action="register"))
    assert [line["level"] for line in lines] == ["warning", "info"]


def test_it_registers_again_when_a_dispatcher_does_not_know_it(
    dispatcher: FakeDispatcher, start_worker: StartWorker
) -> None:
    start_worker(dispatcher)
    dispatcher.health_check()
    dispatcher.will_answer(409, code="unknown_worker")

    dispatcher.offer("orphan", "add", 1, 2)

    until(lambda: len(dispatcher.registrations) == 2, within=QUIET)
    until(lambda: times(dispatcher, "orphan") == 2)
    until(lambda: dispatcher.look("orphan") == 404)


def test_it_registers_again_when_it_is_not_called_for_a_while(
    dispatcher: FakeDispatcher, start_worker: StartWorker
) -> None:
    start_worker(dispatcher)
    dispatcher.health_check(lease=3.0)

    until(lambda: len(dispatcher.registrations) >= 2)
    assert dispatcher.registrations[0] == dispatcher.registrations[-1]
