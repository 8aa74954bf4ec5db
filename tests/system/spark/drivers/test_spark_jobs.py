"""A flow run on Spark as a job: its worker's child drives Spark, and takes it along when it goes.

One worker for all of them, whose child keeps its session from job to job.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil
import pytest

from shunter.client import Client
from shunter.flow.jobs import CHECKPOINTS
from shunter.model.job import Job, Status
from system.flow.engines import COUNTING, is_complete, numbers_file, sums_in
from system.yard import Process, Station, Yard, until

pytestmark = pytest.mark.timeout(600)

SIGN_OF_LIFE = "time.sleep(PAUSE); (FOLDER / 'alive').open('a').write('.')"

PATIENCE = 200.0
"""Spark takes its time to start."""

LEASE = {
    "lease.heartbeat": 0.5,
    "lease.worker_gives_up": 4.0,
    "lease.kill_within": 0.5,
    "lease.dispatcher_takes_over": 6.0,
}


class SparkPlace:
    """A folder of flows, their data, a dispatcher, and a worker that runs one flow at a time."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.flows = yard.folder / "flows"
        self.flows.mkdir()
        lease = {key.replace(".", "__"): value for key, value in LEASE.items()}
        self.station: Station = yard.dispatcher(**lease)
        self.client: Client = yard.client(self.station)
        settings = {
            "worker.dispatchers": [self.station.backend],
            "worker.max_jobs": 1,
            "worker.kill_grace_seconds": 8.0,
        }
        config = yard.config("flows", {**settings, **LEASE})
        words = ("worker", "--flows", str(self.flows), "--config", str(config))
        self.worker: Process = yard.process(words, "flows")

    def counting(self, name: str, count: int, *, pause: float) -> tuple[str, Path]:
        """Bring a counting flow of its own there; return its name and the folder of its data."""
        data = self.yard.folder / name
        data.mkdir()
        numbers_file(data, count)
        text = Path(COUNTING).read_text().replace("time.sleep(PAUSE)", SIGN_OF_LIFE)
        for line, value in (("FOLDER", f"Path({str(data)!r})"), ("PAUSE", str(pause))):
            text = re.sub(rf"^{line} = .*$", f"{line} = {value}", text, flags=re.MULTILINE)
        (self.flows / f"{name}.py").write_text(text)
        return f"{name}.py", data

    def job(self, job_id: str) -> Job:
        return self.client.job(job_id)

    def offspring(self) -> list[psutil.Process]:
        return psutil.Process(self.worker.pid).children(recursive=True)

    def java(self) -> psutil.Process | None:
        return next((each for each in self.offspring() if name_of(each) == "java"), None)


def name_of(process: psutil.Process | None) -> str:
    try:
        return "" if process is None else process.name()
    except psutil.Error:
        return ""


@pytest.fixture(scope="module")
def place(shared_yard: Yard) -> SparkPlace:
    return SparkPlace(shared_yard)


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(
        each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes
    )


def stands_still(file: Path, seconds: float = 0.3) -> bool:
    """True if nobody writes to it for as long as three signs of life of a task take."""
    size = file.stat().st_size
    time.sleep(seconds)
    return file.stat().st_size == size


def submitted(place: SparkPlace, flow: str, *more: str) -> str:
    words = ("flow", "submit", flow, "--on", "spark", "--master", "local[2]", *more)
    done = place.yard.shunter(*words, station=place.station)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_flow_on_spark_is_a_job_and_tells_how_far_it_is(place: SparkPlace) -> None:
    flow, data = place.counting("first", 4_000, pause=0.1)
    job_id = submitted(place, flow)
    until((data / "alive").exists, within=PATIENCE, what="a task")
    until(lambda: place.job(job_id).progress, what="progress")
    told = place.yard.shunter("job", job_id, station=place.station).stdout

    ended = place.client.job_handle(job_id).result(PATIENCE)

    assert re.search(r"flow counting, .* s: \d+ of \d+ of Spark's tasks done", told)
    assert is_complete(sums_in(data), 4_000)
    stages = {stage["name"]: stage for stage in ended["stages"]}
    assert stages["numbers"]["given"] == stages["out"]["taken"] == 4_000
    story = place.yard.shunter("job", job_id, station=place.station).stdout
    assert "per second" in story
    assert not list((place.flows / CHECKPOINTS).glob("*"))


def test_a_cancel_ends_sparks_tasks_and_publishes_nothing(place: SparkPlace) -> None:
    flow, data = place.counting("second", 100_000, pause=0.1)
    job_id = submitted(place, flow)
    until((data / "alive").exists, within=PATIENCE, what="a task")
    java = place.java()

    assert place.yard.shunter("cancel", job_id, station=place.station).returncode == 0
    until(lambda: place.job(job_id).status is Status.CANCELLED)

    until(lambda: stands_still(data / "alive"), within=PATIENCE, what="the end of the tasks")
    assert place.java() == java  # the child is there, and its session is for the next job
    assert not list(data.glob("sums*.jsonl"))


def test_a_driver_that_is_killed_takes_spark_along_and_the_stream_goes_on_from_its_checkpoint(
    place: SparkPlace,
) -> None:
    flow, data = place.counting("third", 10_000, pause=0.02)
    job_id = submitted(place, flow, "--stream")
    ledger = place.flows / CHECKPOINTS / job_id / "commits"
    until(lambda: ledger.is_dir() and list(ledger.glob("*.json")), within=PATIENCE, what="a batch")
    java = place.java()
    assert java is not None
    everything = [java, *java.children(recursive=True)]
    assert len(everything) > 2

    java.parent().kill()

    until(lambda: are_gone(everything), within=PATIENCE, what=f"the end of {everything}")
    signs = len((data / "alive").read_text())
    place.client.job_handle(job_id).result(PATIENCE)
    assert is_complete(sums_in(data), 10_000)
    assert len((data / "alive").read_text()) < signs + 100  # as many as from the beginning on
    assert place.job(job_id).losses == 1
    assert not list((place.flows / CHECKPOINTS).glob("*"))
