"""What an app has around its handlers, with real workers: setups, arounds, hooks, effects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.client import Client, SubmittedJob
from shunter.errors import JobFailed
from shunter.model.identity import hook_name
from shunter.model.job import Status
from system.witness import whole_lines
from system.yard import PATIENCE, QUICK_LEASE, Process, Station, Yard, until

APP = f"{Path(__file__).parent / 'surrounded_app.py'}:app"


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    return shared_yard.dispatcher(**{k.replace(".", "__"): v for k, v in QUICK_LEASE.items()})


@pytest.fixture(scope="module")
def client(shared_yard: Yard, station: Station) -> Client:
    return shared_yard.client(station)


@pytest.fixture(scope="module")
def steady(shared_yard: Yard, station: Station) -> Process:
    """A worker that all tests may use, and none may end."""
    return shared_yard.worker(station, app=APP)


@pytest.fixture
def shut(shared_yard: Yard) -> Iterator[Path]:
    """Setups fail while this file exists."""
    path = shared_yard.folder / "shut"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def told(yard: Yard, *words: object) -> list[list[str]]:
    """Return what the witness heard that begins with these words."""
    lines = [line.split() for line in whole_lines(yard.witness)]
    return [line for line in lines if line[: len(words)] == [str(word) for word in words]]


def kind_of_failure(job: SubmittedJob) -> str:
    with pytest.raises(JobFailed) as failed:
        job.result(PATIENCE)
    return failed.value.kind


def test_a_worker_whose_setup_fails_takes_no_jobs_says_so_once_and_tries_again(
    shared_yard: Yard, station: Station, client: Client, shut: Path
) -> None:
    job = client.submit("pids")
    worker = shared_yard.worker(station, app=APP, slots=1)
    before = len(told(shared_yard, "tries"))

    until(lambda: len(told(shared_yard, "tries")) >= before + 3, what="three tries")

    (line,) = worker.logged(action="setup")
    assert "setup 'database' (surrounded_app.py:" in line["reason"]
    assert "ConnectionError: the database is shut (raised at surrounded_app.py:" in line["reason"]
    assert client.job(job.id).attempt == 0
    shut.unlink()
    assert len(job.result(PATIENCE)) == 2
    assert worker.logged(action="setup")[-1]["event"] == "setups are open again"
    assert worker.terminate() == 0


def test_a_worker_whose_setup_fails_leaves_when_it_is_told(
    shared_yard: Yard, station: Station, shut: Path
) -> None:
    worker = shared_yard.worker(station, app=APP, slots=1)
    until(lambda: worker.logged(action="setup"))

    assert worker.terminate() == 0


def test_what_setups_yield_is_made_once_in_each_child_and_closed_at_its_end(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    worker = shared_yard.worker(station, app=APP, slots=1)
    found = [client.submit("pids").result(PATIENCE) for _ in range(2)]
    found += [job.result(PATIENCE) for job in client.submit_many("pids_later", [1, 2])]

    assert all(given == own for given, own in found)
    assert worker.terminate() == 0
    for pid in {own for _, own in found}:
        assert len(told(shared_yard, "tries", pid)) == 1
        assert [len(told(shared_yard, word, pid)) for word in ("leaves", "closes")] == [1, 1]


def test_only_errors_that_the_handler_names_are_tried_again_and_the_last_is_told_once(
    shared_yard: Yard, client: Client, steady: Process
) -> None:
    jobs = {what: client.submit("raises", what) for what in ("disk", "rights", "value", "fail")}

    assert {kind_of_failure(job) for job in jobs.values()} == {"exception"}
    attempts = {what: client.job(job.id).attempt for what, job in jobs.items()}
    assert attempts == {"disk": 3, "rights": 1, "value": 1, "fail": 1}
    assert [told(shared_yard, "given-up", job.id)[0][2:] for job in jobs.values()] == [
        ["3", "OSError"],
        ["1", "PermissionError"],
        ["1", "ValueError"],
        ["1", "Fail"],
    ]
    assert len(told(shared_yard, "given-up")) == 4
    assert len(told(shared_yard, "around", jobs["disk"].id, "OSError")) == 3


def test_a_job_that_snoozes_comes_back_without_blame(
    shared_yard: Yard, client: Client, steady: Process
) -> None:
    job = client.submit("raises", "snooze")

    assert job.result(PATIENCE) == 3
    record = client.job(job.id)
    assert (record.failures, record.snoozes) == (0, 2)
    assert told(shared_yard, "around", job.id)[-1][2] == "3"
    levels = [line["level"] for line in until(lambda: steady.logged(job=job.id))]
    assert levels == ["info", "info"]  # nothing to mend


def test_a_payment_is_not_made_twice_though_its_process_dies(
    shared_yard: Yard, client: Client, steady: Process
) -> None:
    assert client.submit("pay", "well").result(PATIENCE) == "well"
    job = client.submit("pay", "die")

    assert kind_of_failure(job) == "lost"
    assert len(told(shared_yard, "pays", job.id)) == 1
    until(lambda: told(shared_yard, "given-up", job.id) == [["given-up", job.id, "1", "lost"]])


def test_a_time_out_is_told_once_by_another_process_and_its_end_does_not_wait_for_that(
    shared_yard: Yard, client: Client, steady: Process
) -> None:
    job = client.with_options(timeout=0.2).submit("pay", "hang")

    assert kind_of_failure(job) == "timeout"
    until(lambda: told(shared_yard, "given-up", job.id) == [["given-up", job.id, "1", "timeout"]])
    until(lambda: client.job(hook_name(job.id)).status is Status.COMPLETED)


@pytest.mark.parametrize("end", ["kill", "resign"])
def test_a_payment_is_not_made_twice_though_its_worker_goes(yard: Yard, end: str) -> None:
    station = yard.dispatcher(**{k.replace(".", "__"): v for k, v in QUICK_LEASE.items()})
    first = yard.worker(station, app=APP, slots=1, worker__grace_seconds=0.1)
    client = yard.client(station)
    job = client.submit("pay", "hang")
    until(lambda: told(yard, "pays", job.id))
    behind = client.submit("pay", "well")

    yard.worker(station, app=APP, slots=1)
    first.kill() if end == "kill" else first.terminate()

    assert kind_of_failure(job) == "lost"
    assert behind.result(PATIENCE) == "well"
    assert len(told(yard, "pays", job.id)) == 1


def test_jobs_that_share_a_process_have_the_same_around_them(yard: Yard) -> None:
    (yard.folder / "shared").touch()
    station = yard.dispatcher()
    worker = yard.worker(station, app=APP, slots=1)
    client = yard.client(station)

    plain = client.submit("pids_together")
    given, own = plain.result(PATIENCE)
    assert client.submit("pids_later_together", 1).result(PATIENCE) == [given, own]
    jobs = {what: client.submit("raises_together", what) for what in ("disk", "value", "fail")}
    refused = client.submit("pids_together", "nonsense")
    assert {kind_of_failure(job) for job in jobs.values()} == {"exception"}
    assert kind_of_failure(refused) == "refused"

    assert given == own
    assert {what: client.job(job.id).attempt for what, job in jobs.items()} == {
        "disk": 3,
        "value": 1,
        "fail": 1,
    }
    assert len(told(yard, "given-up")) == 4
    assert told(yard, "given-up", refused.id) == [["given-up", refused.id, "1", "AppError"]]
    assert len(told(yard, "around", jobs["disk"].id, "OSError")) == 3
    assert len(told(yard, "around", plain.id)) == 1
    assert client.submit("raises_together", "snooze").result(PATIENCE) == 3
    lost = client.submit("pay_together", "die")
    assert kind_of_failure(lost) == "lost"
    assert len(told(yard, "pays", lost.id)) == 1
    until(lambda: told(yard, "given-up", lost.id) == [["given-up", lost.id, "1", "lost"]])
    last = client.submit("pids_together").result(PATIENCE)[1]
    assert worker.terminate() == 0
    assert [len(told(yard, word, last)) for word in ("tries", "leaves", "closes")] == [1, 1, 1]
