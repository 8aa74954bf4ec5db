"""Prometheus reads what we write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from shunter.dispatch.timings import Timings
from shunter.errors import StoreError
from shunter.gateway.http.metrics import COUNTERS, MetricsSnapshot, as_text
from shunter.gateway.http.probes import EndedCounts
from shunter.model.job import Execution, Job, Status
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.store.port import Backlog


def read(
    counters: dict[str, int], *backlog: Backlog, workers: Sequence[Worker] = ()
) -> dict[tuple[str, ...], float]:
    worker = Worker(
        id="w", kind=WorkerKind.FULL, hostname="", port=0, handlers=(), max_jobs=1,
        registered=0.0, last_pinged=0.0, is_dead=True,
    )  # fmt: skip
    timings = Timings()
    run = Execution(worker_id="w", started=7.0, ended=9.5)
    job = Job(
        id="j", type="b", created=5.0, updated=9.5, attempt=1, execution=run,
        status=Status.COMPLETED,
    )  # fmt: skip
    timings.ran(job)
    timings.ended(job)
    standing = MetricsSnapshot(
        backlog=backlog,
        oldest={"b": 90.0},
        workers=[worker, *workers],
        counters=counters,
        timings=timings,
        connected=3,
        skews={"d-2": 29.5},
        now=100.0,
    )
    text = as_text(standing).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_jobs_are_counted_by_type_and_status() -> None:
    shown = read(
        {},
        Backlog(type='a"\\\n', status=Status.QUEUED, count=5),
        Backlog(type="b", status=Status.IN_PROGRESS, count=2),
    )

    assert shown["shunter_queue_length", 'a"\\\n'] == 5
    assert shown["shunter_jobs", "queued", 'a"\\\n'] == 5
    assert shown["shunter_jobs", "in_progress", "b"] == 2
    assert ("shunter_queue_length", "b") not in shown


def test_slots_of_workers_that_are_alive_are_counted_by_kind_and_by_type() -> None:
    def worker(name: str, kind: WorkerKind, *types: str, jobs: int, **fields: Any) -> Worker:
        return Worker(
            id=name, kind=kind, hostname="", port=0, handlers=tuple(map(Handler, types)),
            max_jobs=4, registered=0.0, last_pinged=0.0, answered=1.0,
            jobs=tuple(map(str, range(jobs))), **fields,
        )  # fmt: skip

    shown = read(
        {},
        workers=[
            worker("a", WorkerKind.FULL, "add", "mail", jobs=1),
            worker("b", WorkerKind.FULL, "add", jobs=9),
            worker("c", WorkerKind.HTTP, "mail", jobs=0),
            worker("d", WorkerKind.FULL, "add", jobs=0, is_resigned=True),
        ],
    )

    assert shown["shunter_slots", "full", "used"] == 5
    assert shown["shunter_slots", "full", "free"] == 3
    assert shown["shunter_slots", "http", "free"] == 4
    assert shown["shunter_slots_free_for", "add"] == 3
    assert shown["shunter_slots_free_for", "mail"] == 7


def test_workers_are_counted_by_state() -> None:
    shown = read({})

    assert [shown["shunter_workers", s] for s in ("alive", "resigned", "dead")] == [0, 0, 1]
    assert shown["shunter_workers_connected",] == 3


def test_counters_are_shown_also_while_they_are_zero() -> None:
    shown = read(
        {"jobs_failed": 7, "refused_http_invalid": 2, "odd name": 1, "sweeps_ring_alarms": 4}
    )

    assert shown["shunter_jobs_failed_total",] == 7
    assert shown["shunter_refused_total", "http_invalid"] == 2
    assert shown["shunter_sweeps_total", "ring_alarms"] == 4
    assert shown["shunter_odd_name_total",] == 1
    assert {(f"shunter_{name}_total",) for name in COUNTERS} <= shown.keys()


def test_the_oldest_job_and_how_long_jobs_waited_and_ran_are_shown() -> None:
    shown = read({})

    assert shown["shunter_queue_oldest_seconds", "b"] == 10.0
    assert shown["shunter_dispatch_seconds_sum", "b"] == 2.0
    assert shown["shunter_run_seconds_sum", "b"] == 2.5
    assert shown["shunter_run_seconds_count", "b"] == 1
    assert shown["shunter_run_seconds_bucket", "1", "b"] == 0
    assert shown["shunter_run_seconds_bucket", "3", "b"] == 1
    assert shown["shunter_run_seconds_bucket", "+Inf", "b"] == 1


def test_clocks_that_differ_are_shown() -> None:
    assert read({})["shunter_clock_ahead_seconds", "d-2"] == 29.5


def test_what_has_ended_is_counted_a_hundredth_of_the_time_and_only_the_first_waits() -> None:
    now, counted = 0.0, 0
    fails = False

    class SlowStore:
        async def backlog(self, *, is_ended: bool) -> list[Backlog]:
            nonlocal now, counted
            assert is_ended
            if fails:
                raise StoreError("the disk is full")
            now, counted = now + 0.5, counted + 1
            return [Backlog(type="a", status=Status.COMPLETED, count=counted)]

    async def play() -> None:
        nonlocal now, fails
        store: Any = SlowStore()
        ended = EndedCounts(lambda: now)
        assert [it.count for it in await ended.known(store)] == [1]
        now = 50.4
        await ended.renew(store)
        assert counted == 1
        now = 50.5
        assert [it.count for it in await ended.known(store)] == [1]
        await ended.renew(store)
        assert [it.count for it in await ended.known(store)] == [2]
        now, fails = 999.0, True
        await ended.renew(store)
        assert [it.count for it in await ended.known(store)] == [2]

    asyncio.run(play())
