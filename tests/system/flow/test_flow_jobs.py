"""A flow run as a job: submitted, watched, cancelled, taken over and tried again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from shunter.client import Client
from shunter.errors import JobFailed
from shunter.flow.jobs import CHECKPOINTS
from shunter.flow.terms import FLOW_JOB
from shunter.model.job import Job, Status
from system.flow.engines import COUNTING, is_complete, numbers_file, sums_in
from system.yard import PATIENCE, Process, Station, Yard, until

LEASE = {
    "lease.heartbeat": 0.3,
    "lease.worker_gives_up": 3.0,  # a busy machine may stand still for a while
    "lease.kill_within": 0.5,
    "lease.dispatcher_takes_over": 4.0,
}
ON = pytest.mark.parametrize("on", ["local", "engines"])

FLAWED = """
from pathlib import Path
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines

def careful(number):
    if number == 27_000 and not Path("mended").exists():
        raise ValueError("not mended yet")
    return number

flow = Flow("flawed")
flow.source(range(30_000), name="numbers").map(careful).sink(WriteJsonLines("numbers.jsonl"))
"""


class Place:
    """A folder of flows, the data of the counting flow, and a dispatcher."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.flows, self.data = yard.folder / "flows", yard.folder / "data"
        self.flows.mkdir()
        self.data.mkdir()
        shutil.copy(COUNTING, self.flows / "counting.py")
        self.station: Station = yard.dispatcher(**{k.replace(".", "__"): LEASE[k] for k in LEASE})
        self.client: Client = yard.client(self.station)
        self._workers = 0

    def worker(self) -> Process:
        self._workers += 1
        name = f"flows-{self._workers}"
        settings = {"worker.dispatchers": [self.station.backend], "worker.max_jobs": 1}
        config = self.yard.config(name, {**settings, **LEASE})
        words = ("worker", "--flows", str(self.flows), "--config", str(config))
        return self.yard.process(words, name, children=1)

    def submit(self, flow: str = "counting.py", **options: Any) -> str:
        return self.client.submit(FLOW_JOB, flow, **{"on": "local", **options}).id

    def job(self, job_id: str) -> Job:
        return self.client.job(job_id)

    def result(self, job_id: str) -> dict[str, Any]:
        ended: dict[str, Any] = self.client.job_handle(job_id).result(PATIENCE)
        return {stage["name"]: stage for stage in ended["stages"]}

    def checkpoints(self, job_id: str) -> list[Path]:
        return list((self.flows / CHECKPOINTS / job_id).glob("*.checkpoint"))

    def is_under_way(self, job_id: str) -> bool:
        progress = self.job(job_id).progress
        return progress is not None and progress.done > 0


@pytest.fixture
def place(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("FLOW_FOLDER", str(yard.folder / "data"))
    return Place(yard)


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda pause: monkeypatch.setenv("FLOW_PAUSE", str(pause))


def engines_of(worker: Process) -> list[psutil.Process]:
    offspring = psutil.Process(worker.pid).children(recursive=True)
    return [each for each in offspring if is_alive(each) and "engine" in each.cmdline()]


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@ON
def test_a_flow_is_submitted_and_waited_for(place: Place, on: str) -> None:
    numbers_file(place.data, 4_000)
    place.worker()

    words = ("flow", "submit", "counting.py:flow", "--on", on, "--wait")
    done = place.yard.shunter(*words, station=place.station)

    assert done.returncode == 0, done.stderr
    assert is_complete(sums_in(place.data), 4_000)
    assert "flow counting" in done.stdout
    assert "4,000" in done.stdout
    assert not list((place.flows / CHECKPOINTS).iterdir())


def test_without_waiting_the_id_of_the_job_is_printed_and_its_story_has_the_stages(
    place: Place,
) -> None:
    numbers_file(place.data, 1000)
    place.worker()

    done = place.yard.shunter(
        "flow", "submit", "counting.py", "--on", "local", station=place.station
    )
    job_id = done.stdout.strip()
    stages = place.result(job_id)
    told = place.yard.shunter("job", job_id, station=place.station).stdout

    assert stages["numbers"]["given"] == stages["out"]["taken"] == 1000
    assert stages["out"]["lag"] == stages["out"]["waiting"] == 0
    assert stages["out"]["per_second"] > 0
    for word in ("flow counting", "slowly", "per second", "lag", "waiting"):
        assert word in told


@ON
def test_progress_is_told_while_it_runs_and_a_cancel_ends_it_with_nothing_published(
    place: Place, slowed: Callable[[float], None], on: str
) -> None:
    slowed(0.02)
    numbers_file(place.data, 100_000)
    worker = place.worker()
    job_id = place.submit(on=on)
    until(lambda: place.is_under_way(job_id), what="progress")
    told = place.yard.shunter("job", job_id, "--json", station=place.station)
    assert 0 < json.loads(told.stdout)["progress"]["done"] <= 100_000
    told = place.yard.shunter("job", job_id, station=place.station)
    for word in ("flow counting", "slowly", "per second", "lag", "waiting"):
        assert word in told.stdout
    assert re.search(r"slowly .* [\d,]+ of [\d,]+", told.stdout)
    engines = engines_of(worker)
    assert len(engines) == (2 if on == "engines" else 0)

    assert place.yard.shunter("cancel", job_id, station=place.station).returncode == 0

    until(lambda: place.job(job_id).status is Status.CANCELLED)
    until(lambda: not any(map(is_alive, engines)))
    assert not list(place.data.glob("sums*.jsonl"))
    assert worker.is_alive


@ON
def test_a_flow_whose_worker_is_killed_goes_on_elsewhere_from_its_checkpoint(
    place: Place, slowed: Callable[[float], None], on: str
) -> None:
    slowed(0.06)
    numbers_file(place.data, 15_000)
    worker = place.worker()
    job_id = place.submit(on=on, every=0.3)
    until(lambda: len(place.checkpoints(job_id)) == 2, what="checkpoints")
    offspring = psutil.Process(worker.pid).children(recursive=True)

    worker.kill()
    until(lambda: not any(map(is_alive, offspring)))
    place.worker()
    stages = place.result(job_id)

    assert is_complete(sums_in(place.data), 15_000)
    assert stages["numbers"]["given"] < 15_000
    assert place.job(job_id).losses == 1
    assert not list((place.flows / CHECKPOINTS).iterdir())


def test_an_engine_that_is_killed_is_replaced_within_the_same_try(
    place: Place, slowed: Callable[[float], None]
) -> None:
    slowed(0.06)
    numbers_file(place.data, 8_000)
    worker = place.worker()
    job_id = place.submit(on="engines", every=0.3)
    until(lambda: place.checkpoints(job_id), what="a checkpoint")

    engines_of(worker)[0].kill()

    stages = place.result(job_id)
    assert is_complete(sums_in(place.data), 8_000)
    assert stages["numbers"]["given"] < 8_000
    assert place.job(job_id).attempt == 1


def test_a_cancelled_flow_goes_on_when_it_is_submitted_with_its_checkpoints(
    place: Place, slowed: Callable[[float], None]
) -> None:
    slowed(0.06)
    numbers_file(place.data, 8_000)
    place.worker()
    job_id = place.submit(every=0.3)
    until(lambda: place.checkpoints(job_id), what="a checkpoint")
    place.client.cancel([job_id])
    until(lambda: place.job(job_id).status is Status.CANCELLED)

    stages = place.result(place.submit(checkpoints=job_id))

    assert is_complete(sums_in(place.data), 8_000)
    assert stages["numbers"]["given"] < 8_000


def test_a_flow_that_failed_is_tried_again_from_its_checkpoint(place: Place) -> None:
    (place.flows / "flawed.py").write_text(FLAWED)
    place.worker()
    words = ("flow", "submit", "flawed.py", "--on", "local", "--every", "0.001", "--retries", "10")
    job_id = place.yard.shunter(*words, station=place.station).stdout.strip()
    until(lambda: place.job(job_id).failures >= 1, what="a failure")
    assert "not mended yet" in place.job(job_id).history[0].message
    assert not (place.flows / "numbers.jsonl").exists()

    (place.flows / "mended").touch()
    stages = place.result(job_id)

    assert stages["numbers"]["given"] < 30_000
    lines = (place.flows / "numbers.jsonl").read_text().splitlines()
    assert lines == [str(number) for number in range(30_000)]


def test_a_flow_file_may_change_between_two_runs(place: Place) -> None:
    text = 'from shunter import Flow\nflow = Flow("%s")\nflow.source([1]).sink(print)\n'
    place.worker()
    for name in ("first", "another"):
        (place.flows / "changing.py").write_text(text % name)
        job = place.client.submit(FLOW_JOB, "changing.py", on="local")
        assert job.result(PATIENCE)["flow"] == name


def test_what_is_not_a_flow_in_the_folder_is_refused(place: Place, tmp_path: Path) -> None:
    outside = place.data / "outside.py"
    outside.write_text(f"open({str(tmp_path / 'witness')!r}, 'w')\n")
    (place.flows / "link.py").symlink_to(outside)
    place.worker()

    for spec in (str(outside), "../data/outside.py", "link.py", "link.py:flow"):
        with pytest.raises(JobFailed, match="not in this worker's folder of flows"):
            place.client.submit(FLOW_JOB, spec).result(PATIENCE)
    for spec in ("missing.py", "shunter.flow.graph.flow_graph", "."):
        with pytest.raises(JobFailed, match="has no Python file"):
            place.client.submit(FLOW_JOB, spec).result(PATIENCE)
    with pytest.raises(JobFailed, match=r"refused.*engines"):
        place.client.submit(FLOW_JOB, "counting.py", engines=0).result(PATIENCE)
    assert not (tmp_path / "witness").exists()


def test_a_failed_run_exits_1_and_says_why(place: Place) -> None:
    place.worker()

    done = place.yard.shunter(
        "flow", "submit", "nowhere.py", "--on", "local", "--wait", station=place.station
    )

    assert done.returncode == 1
    assert "has no Python file 'nowhere.py'" in done.stderr


def test_without_a_worker_for_flows_that_is_pointed_out_and_the_wait_exits_4(place: Place) -> None:
    words = ("flow", "submit", "counting.py", "--on", "local", "--wait-timeout", "0.3")

    done = place.yard.shunter(*words, station=place.station)

    assert done.returncode == 4
    assert "shunter worker --flows FOLDER" in done.stderr


def test_a_worker_for_flows_needs_a_folder_that_is_there(yard: Yard) -> None:
    missing = yard.shunter("worker", "--flows", "nowhere")
    assert missing.returncode == 2
    assert "there is no folder nowhere" in missing.stderr

    both = yard.shunter("worker", "--flows", ".", "--app", "shunter.flow.jobs")
    assert both.returncode == 2
    assert "both given" in both.stderr
