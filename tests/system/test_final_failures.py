"""`@app.on_final_failure` for ends that only a dispatcher sees, with real kills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.client import Client, SubmittedJob
from shunter.errors import JobFailed
from shunter.model.identity import hook_name
from shunter.model.job import Job, Status
from system.witness import whole_lines
from system.yard import PATIENCE, QUICK_LEASE, Process, Station, Yard, until

APP = f"{Path(__file__).parent / 'given_up_app.py'}:app"
LEASE = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}

Start = Callable[[Yard, Station], Process]


def over_zeromq(yard: Yard, station: Station) -> Process:
    return yard.worker(station, app=APP, slots=1, worker__kill_grace_seconds=0.2)


def over_http(yard: Yard, station: Station) -> Process:
    return yard.http_worker(station, app=APP, slots=1, worker__kill_grace_seconds=0.2)


def over_udp(yard: Yard, station: Station) -> Process:
    config = yard.config("calculator", {"worker.max_jobs": 1, "worker.kill_grace_seconds": 0.2})
    where = f"127.0.0.1:{station.udp_port}"
    words = ["calculator", "--app", APP, "--config", str(config), "--dispatcher", where]
    return yard.process(words, "calculator")


def said(yard: Yard, *words: object) -> list[list[str]]:
    """Return what the witness heard that begins with these words."""
    lines = [line.split() for line in whole_lines(yard.witness)]
    return [line for line in lines if line[: len(words)] == [str(word) for word in words]]


def kind_of_failure(job: SubmittedJob) -> str:
    with pytest.raises(JobFailed) as failed:
        job.result(PATIENCE)
    return failed.value.kind


def call_of(client: Client, job: SubmittedJob) -> Status:
    """Wait until the hook of a job has been called, and return how that ended."""
    name = client.job(job.id).hook_job
    assert name == hook_name(job.id)

    def ended() -> list[Job]:
        return [it for it in client.jobs(job_ids=[name]) if it.status.is_final]

    (call,) = until(ended)
    return call.status


@pytest.mark.parametrize("losses", ["at_most_once", "the last that may be"])
def test_it_is_called_elsewhere_when_the_whole_worker_is_killed(
    yard: Yard, store_url: str, losses: str
) -> None:
    most = 5 if losses == "at_most_once" else 1
    station = yard.dispatcher(store__url=store_url, dispatcher__jobs__max_losses=most, **LEASE)
    first, client = over_zeromq(yard, station), yard.client(station)
    effects = "at_most_once" if losses == "at_most_once" else None
    job = client.with_options(effects=effects).submit("hang")
    until(lambda: said(yard, "begins", job.id))

    first.kill()
    assert kind_of_failure(job) == "lost"
    over_zeromq(yard, station)

    assert call_of(client, job) is Status.COMPLETED
    assert said(yard, "given-up") == [["given-up", job.id, "hang", "1", "lost"]]
    assert client.job(job.id).status is Status.FAILED


@pytest.mark.parametrize("start", [over_zeromq, over_http, over_udp])
def test_it_is_called_for_a_child_that_had_to_be_killed_after_its_time_out(
    yard: Yard, start: Start
) -> None:
    station = yard.dispatcher(**LEASE)
    start(yard, station)
    client = yard.client(station)
    job = client.with_options(timeout=0.5).submit("hang")

    kind = kind_of_failure(job)

    assert call_of(client, job) is Status.COMPLETED
    assert said(yard, "given-up") == [["given-up", job.id, "hang", "1", kind]]
    assert client.submit("add", 1, 2).result(PATIENCE) == 3


@pytest.mark.parametrize("start", [over_http, over_udp])
def test_it_is_called_by_workers_of_all_kinds_for_a_child_that_died_and_once_by_a_run_itself(
    yard: Yard, start: Start
) -> None:
    station = yard.dispatcher(dispatcher__jobs__max_losses=1, **LEASE)
    start(yard, station)
    client = yard.client(station)
    job, told = client.submit("perish"), client.submit("refuse")

    kind = kind_of_failure(job)
    assert kind_of_failure(told) == "exception"

    assert call_of(client, job) is Status.COMPLETED
    assert said(yard, "given-up", job.id) == [["given-up", job.id, "perish", "1", kind]]
    assert said(yard, "given-up", told.id) == [["given-up", told.id, "refuse", "1", "ValueError"]]
    assert client.job(told.id).hook_job is None


def test_it_is_called_for_a_job_that_nobody_took_in_time_once_there_is_a_worker_again(
    yard: Yard, store_url: str
) -> None:
    station = yard.dispatcher(store__url=store_url, **LEASE)
    client, worker = yard.client(station), over_zeromq(yard, station)
    assert client.submit("add", 1, 2).result(PATIENCE) == 3
    assert worker.terminate() == 0
    job = client.with_options(expires_in=0.3).submit("add", 1, 2)

    assert kind_of_failure(job) == "unplaced"
    over_zeromq(yard, station)

    assert call_of(client, job) is Status.COMPLETED
    assert said(yard, "given-up") == [["given-up", job.id, "add", "0", "unplaced"]]


def test_a_dispatcher_that_is_killed_as_soon_as_a_job_has_ended_leaves_the_call_to_the_next(
    yard: Yard, store_url: str
) -> None:
    station = yard.dispatcher(store__url=store_url, **LEASE)
    worker, client = over_zeromq(yard, station), yard.client(station)
    job = client.with_options(effects="at_most_once").submit("hang")
    until(lambda: said(yard, "begins", job.id))
    worker.kill()

    assert kind_of_failure(job) == "lost"
    station.restart()
    over_zeromq(yard, station)

    assert call_of(client, job) is Status.COMPLETED
    assert len(said(yard, "given-up", job.id)) == 1


def test_a_dispatcher_that_comes_after_the_worker_died_knows_that_it_had_a_hook(
    yard: Yard, store_url: str
) -> None:
    station = yard.dispatcher(store__url=store_url, **LEASE)
    worker, client = over_zeromq(yard, station), yard.client(station)
    job = client.with_options(effects="at_most_once").submit("hang")
    until(lambda: said(yard, "begins", job.id))

    worker.kill()
    station.restart()

    assert kind_of_failure(job) == "lost"
    over_zeromq(yard, station)
    assert call_of(client, job) is Status.COMPLETED


def test_a_call_whose_worker_is_killed_is_made_again(yard: Yard, store_url: str) -> None:
    (yard.folder / "slow").touch()
    station = yard.dispatcher(store__url=store_url, **LEASE)
    worker, client = over_zeromq(yard, station), yard.client(station)
    job = client.with_options(timeout=0.5).submit("hang")
    assert kind_of_failure(job) == "timeout"
    until(lambda: said(yard, "given-up", job.id))

    worker.kill()
    (yard.folder / "slow").unlink()
    over_zeromq(yard, station)

    assert call_of(client, job) is Status.COMPLETED
    assert len(said(yard, "given-up", job.id)) == 2


def test_shunter_job_says_who_has_called_the_hook_and_the_call_can_be_rerun(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    client = yard.client(station)
    over_zeromq(yard, station)
    job = client.with_options(effects="at_most_once").submit("perish")
    told = client.submit("refuse")
    assert kind_of_failure(job) == "lost"
    assert kind_of_failure(told) == "exception"
    assert call_of(client, job) is Status.COMPLETED

    shown = yard.shunter("job", job.id, station=station).stdout
    assert f"called by job final-failure/{job.id}: completed" in " ".join(shown.split())
    assert "was called by its last run" in yard.shunter("job", told.id, station=station).stdout
    assert hook_name(job.id) in yard.shunter("jobs", station=station).stdout

    again = yard.shunter("rerun", hook_name(job.id), station=station)
    assert again.returncode == 0, again.stderr
    until(lambda: len(said(yard, "given-up", job.id)) == 2)


def test_calls_can_be_paused_by_their_own_type(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    client = yard.client(station)
    over_zeromq(yard, station)
    assert yard.shunter("pause", "final-failure/perish", station=station).returncode == 0
    job = client.with_options(effects="at_most_once").submit("perish")
    assert kind_of_failure(job) == "lost"
    name = hook_name(job.id)
    until(lambda: client.jobs(job_ids=[name]))
    assert client.submit("add", 1, 2).result(PATIENCE) == 3
    assert client.job(name).status is Status.QUEUED

    assert yard.shunter("resume", "final-failure/perish", station=station).returncode == 0

    assert call_of(client, job) is Status.COMPLETED


def test_each_of_many_failures_is_told_while_dispatchers_and_workers_are_killed(
    yard: Yard, store_url: str
) -> None:
    stations = [yard.dispatcher(name, store__url=store_url, **LEASE) for name in ("one", "two")]
    workers = [yard.worker(*stations, app=APP, slots=2) for _ in range(2)]
    client = yard.client(*stations)
    jobs = client.with_options(effects="at_most_once").submit_many("perish", [()] * 60)
    for round_ in range(3):
        until(lambda n=round_: len(said(yard, "given-up")) >= 5 * (n + 1))  # type: ignore[misc]
        stations[round_ % 2].restart()
        workers[round_ % 2].kill()
        workers[round_ % 2] = yard.worker(*stations, app=APP, slots=2)

    until(lambda: {job.id for job in jobs} == {line[1] for line in said(yard, "given-up")})

    for job in jobs:
        assert client.job(job.id).status is Status.FAILED
        assert call_of(client, job) is Status.COMPLETED
