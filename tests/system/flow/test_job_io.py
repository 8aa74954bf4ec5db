"""Events become jobs once, and jobs that have ended become events once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shunter.errors import FlowError
from shunter.flow.sinks import SubmitJobs, jobs
from shunter.flow.sources import FinishedJobs, finished_jobs
from shunter.model.job import Status
from system.yard import Station, Yard, free_port, until
from unit.flow.io_steps import carried, rest_of, write_all


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Iterator[Station]:
    station = shared_yard.dispatcher()
    shared_yard.worker(station, slots=2)
    return station


def submit(station: Station, numbers: range, **options: Any) -> None:
    sink = SubmitJobs(
        "add",
        station.frontend,
        key=lambda number: f"add-{number}",
        call=lambda number: (number, 1000),
        **options,
    )
    sink.open(None)
    write_all(sink, list(numbers), 700)
    sink.checkpoint()
    sink.close()


def follow(source: FinishedJobs, count: int) -> list[Any]:
    found: list[Any] = []
    until(lambda: found.extend(source.read(70) or []) or len(found) >= count)
    return found


def test_an_event_becomes_one_job_however_often_it_comes(station: Station, yard: Yard) -> None:
    submit(station, range(750))
    submit(station, range(500, 1000), priority=1)

    source = FinishedJobs("add", station.frontend, follow=True)
    source.open(None)
    events = follow(source, 1000)
    source.close()

    assert sorted(event["result"] for event in events) == list(range(1000, 2000))
    assert {event["status"] for event in events} == {"completed"}
    assert all(event["unique_key"] == f"add-{event['payload'][0]}" for event in events)
    assert ("add", Status.COMPLETED, 1000) in yard.client(station).standing().backlog


def test_following_goes_on_where_it_stopped(station: Station, yard: Yard) -> None:
    client = yard.client(station)
    source = FinishedJobs("echo", station.frontend, follow=True)
    source.open(None)
    found = []
    for turn in range(4):
        client.submit_many("echo", [[{"turn": turn, "n": n}] for n in range(30)])
        found += follow(source, 10)
        position = carried(source.position())
        source.close()
        source = FinishedJobs("echo", station.frontend, follow=True)
        source.open(position)
    found += follow(source, 120 - len(found))
    assert source.read(7) == []
    source.close()

    numbers = sorted((event["result"]["turn"], event["result"]["n"]) for event in found)
    assert numbers == [(turn, n) for turn in range(4) for n in range(30)]


def test_without_following_it_ends_and_tells_how_jobs_ended(station: Station, yard: Yard) -> None:
    client = yard.client(station)
    failed = client.submit("fail", "oops")
    until(lambda: failed.status().is_final)
    source = FinishedJobs("fail", station.frontend)
    source.open(None)

    (event,) = rest_of(source)

    assert event["id"] == failed.id
    assert (event["status"], event["type"], event["payload"]) == ("failed", "fail", ["oops"])
    assert event["error"] == {"kind": "exception", "message": "ValueError: oops"}
    assert event["created"] <= event["started"] <= event["ended"]
    only = FinishedJobs("fail", station.frontend, statuses=["completed"])
    only.open(None)
    assert rest_of(only) == []


def test_what_a_dispatcher_refuses_ends_the_flow(station: Station) -> None:
    sink = SubmitJobs("echo", station.frontend, key=lambda _: "same", call=lambda event: [event])
    sink.open(None)
    sink.write([1])
    sink.checkpoint()
    sink.write([2])
    with pytest.raises(FlowError, match=r"'same' belongs to job .* send the same contents"):
        sink.checkpoint()
    sink.close()


def test_a_dispatcher_that_is_away_for_a_moment_is_waited_for(yard: Yard) -> None:
    station = yard.dispatcher()
    yard.worker(station)
    sink = SubmitJobs("add", station.frontend, key=str, call=lambda number: (number, 0))
    sink.open(None)
    write_all(sink, [1, 2])
    sink.checkpoint()
    station.process.kill()
    assert sink.write([3]) == 1
    assert sink.write([4]) == 0
    station.start()
    write_all(sink, [4])
    sink.close()

    source = FinishedJobs("add", station.frontend, follow=True)
    source.open(None)
    assert sorted(event["result"] for event in follow(source, 4)) == [1, 2, 3, 4]
    source.close()


def test_a_dispatcher_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "OPEN_SECONDS", 0.2)
    monkeypatch.setattr(finished_jobs, "OPEN_SECONDS", 0.2)
    address = f"tcp://127.0.0.1:{free_port()}"

    for stage in (SubmitJobs("add", address, key=str), FinishedJobs("add", address)):
        with pytest.raises(FlowError, match=f"no dispatcher answered at {address} .*; start one"):
            stage.open(None)


def test_options_and_statuses_that_do_not_exist_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="prio"):
        SubmitJobs("add", key=str, prio=1)
    with pytest.raises(FlowError, match="no job ends as 'queued'; choose of cancelled, completed"):
        FinishedJobs("add", statuses=["queued"])
