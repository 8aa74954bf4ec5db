"""Steps, sleeps, signals, children and streams in real processes, on each store."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from long_runs import IS_LONG
from shunter.errors import JobRefused
from shunter.model.job import Status
from system.witness import whole_lines
from system.yard import PATIENCE, QUICK_LEASE, Yard, until

STEPS_APP = f"{Path(__file__).parent / 'steps_app.py'}:app"
SEEDS = range(50 if IS_LONG else 2)
LEASE = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}


def done_in(yard: Yard) -> Counter[tuple[str, str]]:
    """How often each step of each job was done, as the witness has it."""
    lines = whole_lines(yard.witness)
    return Counter((step, job_id) for step, job_id, _ in map(str.split, lines))


def test_a_killed_run_does_not_repeat_its_kept_steps_and_parked_jobs_go_on(
    yard: Yard, store_url: str
) -> None:
    station = yard.dispatcher(store__url=store_url)
    yard.worker(station, app=STEPS_APP)
    client = yard.client(station)

    killed = {
        client.submit(kind, Random(seed).random() * 0.2, seed % 2 == 0): 2 - (seed % 2 == 0)
        for kind in ("three", "three-async")
        for seed in SEEDS
    }
    sleeping, waiting = client.submit("nap", 0.5), client.submit("approval")
    reading = client.submit("book", 20)
    client.signal(waiting.id, "approved", "early", id="one")
    client.signal(waiting.id, "approved", "late", id="one")
    story, restarts = client.submit("story", 40), list[int]()
    streamed = list(story.stream(on_restart=restarts.append, timeout=PATIENCE))

    for job in killed:
        assert len(job.result(PATIENCE)) == 3
    assert waiting.result(PATIENCE) == "early"
    assert [it.split()[0] for it in sleeping.result(PATIENCE)] == ["first", "second"]
    assert reading.result(PATIENCE) == sum(number * number for number in range(20))
    seen = done_in(yard)
    for job, thirds in killed.items():
        assert (seen["first", job.id], seen["second", job.id]) == (1, 1)
        assert seen["third", job.id] == thirds, "the first run died inside it"
    assert (seen["first", sleeping.id], seen["second", sleeping.id]) == (1, 1)
    assert list(sleeping.stream()) == ["slept", "woke"]
    last = client.job(story.id).attempt
    kept = [chunk for chunk in streamed if chunk.startswith(f"{last}:")]
    assert kept == [f"{last}:{number}" for number in range(40)]
    assert (restarts == [0]) is (len(streamed) > 40)
    records = [client.job(job.id) for job in (sleeping, waiting, reading)]
    assert [(it.failures, it.losses, it.snoozes) for it in records] == [(0, 0, 0)] * 3
    with pytest.raises(JobRefused, match="can't take the signal"):
        client.signal(waiting.id, "approved")


def test_a_worker_that_was_stopped_past_its_lease_keeps_no_step(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    first = yard.worker(station, app=STEPS_APP, slots=1)
    client = yard.client(station)
    job = client.submit("stopped")
    until(lambda: done_in(yard)["begins", job.id] == 1)

    first.signal(signal.SIGSTOP)
    os.kill(_watchdog_of(first.pid), signal.SIGSTOP)
    yard.worker(station, app=STEPS_APP, slots=1)

    assert job.result(PATIENCE) == "slow by 2"
    until(lambda: done_in(yard)["slow", job.id] == 2, what="the stale run has done its step too")
    before = client.journal(job.id)
    first.signal(signal.SIGCONT)
    until(lambda: not _has_jobs(client), what="the stale run is gone")
    assert [(it.key, it.attempt) for it in client.journal(job.id)] == [("slow", 2)]
    assert client.journal(job.id) == before
    assert client.job(job.id).status is Status.COMPLETED


def _watchdog_of(pid: int) -> int:
    import psutil

    from system.yard import is_watchdog

    return next(it.pid for it in psutil.Process(pid).children() if is_watchdog(it.pid))


def _has_jobs(client) -> bool:
    time.sleep(0.1)
    return any(worker.jobs for worker in client.workers())
