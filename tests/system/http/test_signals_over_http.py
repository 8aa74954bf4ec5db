"""Signals and streams over HTTP: what jobs are told while they wait, and what they emit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from system.http.conftest import JOBS, Web, refused
from system.yard import Yard

STEPS_APP = f"{Path(__file__).parents[1] / 'steps_app.py'}:app"


@pytest.fixture(scope="module")
def web(shared_yard: Yard) -> Iterator[Web]:
    station = shared_yard.dispatcher()
    shared_yard.worker(station, app=STEPS_APP, slots=1)
    asking = Web(station)
    with asking.raw:
        yield asking


def test_a_signal_wakes_the_job_that_waits_for_it_and_counts_once(web: Web) -> None:
    job = web.submit("approval")["id"]
    web.when(job, "w")

    told = web.raw.post(f"{JOBS}{job}/signals/approved", json={"value": {"by": "ann"}, "id": "1"})
    again = web.raw.post(f"{JOBS}{job}/signals/approved", json={"value": "no", "id": "1"})

    assert told.status_code == 200, told.text
    assert again.status_code in (200, 409), again.text
    assert web.when(job, "c")["result"] == {"by": "ann"}


def test_a_signal_to_an_ended_job_is_refused(web: Web) -> None:
    job = web.submit("page", 3)["id"]
    web.when(job, "c")

    refused(web.raw.post(f"{JOBS}{job}/signals/approved", json={}), 409, "conflict", "status")
    refused(web.raw.post(f"{JOBS}nobody/signals/approved", json={}), 404, "not_found", "id")


def test_a_stream_is_heard_from_the_start_by_whoever_comes_late(web: Web) -> None:
    job = web.submit("nap", 0.1)["id"]
    web.when(job, "c")

    with web.raw.stream("GET", f"{JOBS}{job}/stream") as stream:
        lines = [line for line in stream.iter_lines() if line.startswith(("event:", "data:"))]

    assert stream.headers["content-type"].startswith("text/event-stream")
    assert [line for line in lines if "slept" in line or "woke" in line]
    assert lines[-2].split(": ")[-1] == "end"
