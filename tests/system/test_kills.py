"""Kills in the middle of work: every job ends exactly once, and no two runs of it overlap.

The witness is a file that handlers write to, outside of everything that Shunter keeps.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

import psutil

from long_runs import IS_LONG
from shunter.client import Client, SubmittedJob
from shunter.model.job import Status
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, Process, Yard, until

LEASE = {
    "lease__heartbeat": 0.3,
    "lease__worker_gives_up": 2.0,
    "lease__kill_within": 0.5,
    "lease__dispatcher_takes_over": 3.0,
}


COUNT = 1000 if IS_LONG else 150


def test_hundreds_of_jobs_end_once_each_though_the_dispatcher_is_killed_again_and_again(
    yard: Yard,
) -> None:
    station = yard.dispatcher(**LEASE)
    yard.worker(station)
    yard.worker(station)
    client = yard.client(station)
    jobs = client.submit_many("work", [(number, 8.0 / COUNT) for number in range(COUNT)])

    for done in (COUNT * tenths // 10 for tenths in (1, 3, 5, 7)):
        until(lambda done=done: _ended(yard) >= done, what=f"{done} runs have ended")
        station.restart()

    assert [job.result(PATIENCE) for job in jobs] == list(range(COUNT))
    _check_all_completed_once(yard, client, jobs)


def test_killed_workers_and_children_lose_no_job(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    workers = [yard.worker(station) for _ in range(3)]
    client = yard.client(station)
    jobs = client.submit_many("work", [(number, 0.02) for number in range(250)])
    chance = random.Random(7)

    until(lambda: _ended(yard) >= 30)
    workers[0].kill()
    for done in (60, 90, 120, 150):
        until(lambda done=done: _ended(yard) >= done)
        os.kill(chance.choice(_children(workers[1])), signal.SIGKILL)
    workers[1].kill()
    workers.append(yard.worker(station))

    assert [job.result(PATIENCE) for job in jobs] == list(range(250))
    _check_all_completed_once(yard, client, jobs)


def test_everything_is_killed_at_random_and_every_job_still_ends_once(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    workers = [yard.worker(station) for _ in range(2)]
    client = yard.client(station)
    jobs = client.submit_many("work", [(number, 0.02) for number in range(180)])
    chance = random.Random(11)

    def kill_a_worker() -> None:
        workers.pop(0).kill()
        workers.append(yard.worker(station))

    def kill_a_child() -> None:
        if children := _children(workers[-1]):
            os.kill(chance.choice(children), signal.SIGKILL)

    kills: list[Callable[[], object]] = [station.restart, kill_a_worker, kill_a_child] * 2
    chance.shuffle(kills)
    for number, kill in enumerate(kills):
        until(lambda number=number: _ended(yard) >= 24 * (number + 1))
        kill()

    assert [job.result(PATIENCE) for job in jobs] == list(range(180))
    _check_all_completed_once(yard, client, jobs)


def test_jobs_whose_submission_was_confirmed_are_there_after_a_kill(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    client = yard.client(station)
    submitted: list[SubmittedJob] = []
    for _ in range(3):
        submitted += client.submit_many("add", [(number, 1) for number in range(200)])
        station.restart()

    yard.worker(station)

    assert [job.result(PATIENCE) for job in submitted] == [n + 1 for n in range(200)] * 3


def test_a_job_that_kills_its_process_each_time_fails_and_others_go_on(yard: Yard) -> None:
    station = yard.dispatcher(dispatcher__jobs__max_losses=3, **LEASE)
    yard.worker(station)
    client = yard.client(station)

    poison = client.submit("die")
    others = client.submit_many("work", [(number, 0.02) for number in range(60)])

    assert [job.result(PATIENCE) for job in others] == list(range(60))
    outcome = poison.wait(PATIENCE)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert outcome.error.kind == "lost"
    assert "max_losses" in outcome.error.message
    assert "SIGKILL" in outcome.error.message
    story = client.job(poison.id)
    # one that waits too long for a new process is given back, which counts for nothing
    ended = [past for past in story.history if past.outcome != "returned"]
    assert (story.losses, len(ended)) == (3, 3)
    assert story.attempt == len(story.history)
    assert len(runs_in(yard.witness)[poison.id]) == 3


def test_a_job_whose_process_died_is_run_again(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    yard.worker(station)
    client = yard.client(station)

    job = client.submit("die_once")

    assert job.result(PATIENCE) == 2
    first = client.job(job.id).history[0]
    assert first.outcome == "lost"
    assert "SIGKILL" in first.message


def test_children_die_with_a_killed_worker(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    worker = yard.worker(station)
    job = yard.client(station).submit("work", 1, 60.0)
    until(lambda: job.id in runs_in(yard.witness))
    children = _children(worker)
    assert children

    worker.kill()

    until(lambda: not any(psutil.pid_exists(pid) for pid in children), what="children are gone")


def test_sigterm_lets_a_worker_finish_what_runs_and_return_what_waits(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    worker = yard.worker(station, worker__grace_seconds=20.0)
    client = yard.client(station)
    jobs = [client.submit("attempt_of", seconds) for seconds in (3.0, 3.0, 0.1, 0.1, 0.1, 0.1)]
    until(lambda: len(runs_in(yard.witness)) == 2, what="both slots are at work")

    code = worker.terminate()

    assert code == 0
    ran = set(runs_in(yard.witness))
    assert len(ran) == 2
    assert all(client.job(job_id).status is Status.COMPLETED for job_id in ran)
    assert [w.state for w in client.workers()] == ["resigned"]
    yard.worker(station)
    assert [job.result(PATIENCE) for job in jobs]
    assert all(client.job(job.id).losses == 0 for job in jobs)
    _check_all_completed_once(yard, client, jobs)


def test_sigterm_returns_at_once_what_does_not_end_within_the_grace(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE | {"lease__dispatcher_takes_over": 30.0})
    worker = yard.worker(station, worker__grace_seconds=0.3, worker__kill_grace_seconds=0.2)
    client = yard.client(station)
    job = client.submit("attempt_of", 60.0, later=0.1)
    until(lambda: job.id in runs_in(yard.witness))

    assert worker.terminate() == 0

    until(lambda: job.status() is Status.QUEUED, what="it is queued again")
    story = client.job(job.id)
    assert story.losses == 0
    assert story.history[0].outcome == "returned"
    yard.worker(station)
    assert job.result(PATIENCE) == 2
    assert overlaps(yard.witness) == []


def test_a_dispatcher_leaves_at_sigterm_with_exit_code_0(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    worker = yard.worker(station)
    client = yard.client(station)
    jobs = client.submit_many("work", [(number, 0.01) for number in range(200)])
    until(lambda: _ended(yard) >= 20)

    assert station.process.terminate() == 0

    station.start()
    assert [job.result(PATIENCE) for job in jobs] == list(range(200))
    assert worker.is_alive
    _check_all_completed_once(yard, client, jobs)


def _check_all_completed_once(yard: Yard, client: Client, jobs: list[SubmittedJob]) -> None:
    """Every job completed, with one result, after runs of which no two overlapped."""
    deadline = time.monotonic() + PATIENCE
    words: Counter[str] = Counter()
    while time.monotonic() < deadline:
        words = Counter()
        for _, status, count in client.standing().backlog:
            words[status.word] += count
        if words.total() == words["completed"]:
            break
    assert words == {"completed": len(jobs)}
    assert overlaps(yard.witness) == []
    runs = runs_in(yard.witness)
    assert set(runs) == {job.id for job in jobs}
    stories = client.jobs(job_ids=tuple(job.id for job in jobs))
    assert all(runs[s.id][-1].has_ended and s.result is not None for s in stories)
    assert all(s.attempt >= runs[s.id][-1].attempt for s in stories)


def _ended(yard: Yard) -> int:
    return sum(run.has_ended for runs in runs_in(yard.witness).values() for run in runs)


def _children(worker: Process) -> list[int]:
    return [child.pid for child in psutil.Process(worker.pid).children(recursive=True)]
