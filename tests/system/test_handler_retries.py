"""Retries that a handler declares, at workers of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.client import Client
from shunter.errors import JobFailed
from shunter.model.retry import Retry
from system.yard import PATIENCE, Process, Station, Yard

APP = f"{Path(__file__).parent / 'retrying_app.py'}:app"

Start = Callable[[Yard, Station], Process]


def over_zeromq(yard: Yard, station: Station) -> Process:
    return yard.worker(station, app=APP, slots=1)


def over_http(yard: Yard, station: Station) -> Process:
    return yard.http_worker(station, app=APP, slots=1)


def over_udp(yard: Yard, station: Station) -> Process:
    config = yard.config("calculator", {"worker.max_jobs": 1})
    where = f"127.0.0.1:{station.udp_port}"
    words = ["calculator", "--app", APP, "--config", str(config), "--dispatcher", where]
    return yard.process(words, "calculator")


def attempts(client: Client, job_type: str, *args: int) -> int:
    """Submit a job that fails, and return how often it was tried."""
    job = client.submit(job_type, *args)
    with pytest.raises(JobFailed):
        job.result(PATIENCE)
    return client.job(job.id).attempt


@pytest.mark.parametrize("start", [over_zeromq, over_http, over_udp])
def test_a_job_is_tried_again_as_often_as_its_handler_declares(yard: Yard, start: Start) -> None:
    station = yard.dispatcher()
    start(yard, station)
    client = yard.client(station)

    assert client.submit("flaky", 4).result(PATIENCE) == 4
    assert attempts(client, "flaky", 9) == 4
    assert attempts(client, "hopeless") == 1
    assert attempts(client.with_options(retry=Retry(limit=1, delay=0.05)), "flaky", 9) == 2
