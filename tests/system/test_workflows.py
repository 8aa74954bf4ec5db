"""Workflows on real processes: dispatchers are killed, and each job runs in its order, once."""

from __future__ import annotations

import json
import time
from pathlib import Path

from long_runs import IS_LONG
from shunter.client import Client
from system.witness import runs_in
from system.yard import PATIENCE, Yard

LEASE = {
    "lease__heartbeat": 0.3,
    "lease__worker_gives_up": 60.0,
    "lease__kill_within": 1.0,
    "lease__dispatcher_takes_over": 65.0,
}
"""Longer than any dispatcher is away here, so that no worker gives up what it does."""


FAN, CHAIN = (9_999, 10_000) if IS_LONG else (150, 30)
SECONDS_BETWEEN_KILLS = 2.0 if IS_LONG else 0.4


def test_each_job_of_a_wide_and_a_long_run_runs_once_though_the_dispatcher_is_killed_on_and_on(
    yard: Yard, store_url: str
) -> None:
    station = yard.dispatcher(store__url=store_url, **LEASE)
    yard.worker(station)
    client = yard.client(station)
    with client.workflow("wide") as wide:
        parts = [wide.job("work", number, 0.0) for number in range(FAN)]
        last = wide.job("work", FAN, 0.0, after=parts)
    with client.workflow("long") as chain:
        for number in range(CHAIN):
            chain.job("work", number, 0.0, after=chain.jobs[-1:])

    pause = SECONDS_BETWEEN_KILLS
    while _is_open(client, wide.id) or _is_open(client, chain.id):
        time.sleep(pause)
        killed_at = time.monotonic()
        station.restart()
        # where the machine is so busy that a start takes long, all the others need longer too
        pause = max(pause, time.monotonic() - killed_at)

    assert last.result(PATIENCE) == FAN
    runs = runs_in(yard.witness)
    assert set(runs) == {job.id for job in (*wide.jobs, *chain.jobs)}
    assert [name for name, times in runs.items() if len(times) != 1] == [], "each runs once"
    assert all(runs[part.id][0].first < runs[last.id][0].first for part in parts)
    starts = [runs[job.id][0].first for job in chain.jobs]
    assert starts == sorted(starts)


def _is_open(client: Client, run_id: str) -> bool:
    return bool(client.runs.show(run_id).open_jobs)


def test_a_run_is_shown_drawn_cancelled_and_done_again_from_the_command_line(
    yard: Yard, tmp_path: Path
) -> None:
    station = yard.dispatcher()
    yard.worker(station)
    client = yard.client(station)
    with client.workflow("etl") as run:
        first = run.job("add", 1, 2)
        bad = run.job("fail", "broken", after=first)
        last = run.job("add", 3, 4, after=bad)
    last.wait(PATIENCE)

    tree = yard.shunter("workflow", run.id, station=station).stdout
    assert f"└─ fail {bad.id}  failed" in tree
    assert f"its parent {bad.id}" in tree

    picture = tmp_path / "run.svg"
    words = ("workflow", run.id, "--rerun", "--from", bad.id, "--svg", str(picture), "--json")
    shown = json.loads(yard.shunter(*words, station=station).stdout)
    assert len(shown["rerun"]) == 2
    assert len(shown["jobs"]) == 5
    assert picture.read_text().startswith("<svg")

    listed = json.loads(yard.shunter("workflow", "--json", station=station).stdout)
    assert [(it["run"], it["workflow"]) for it in listed] == [(run.id, "etl")]
    assert f"{run.id}  etl" in yard.shunter("workflow", "--name", "etl", station=station).stdout

    with client.workflow("later") as later:
        waits = later.with_options(delay=600.0).job("add", 1, 1)
        parked = later.job("add", 2, 2, after=waits)
    story = yard.shunter("job", parked.id, station=station).stdout
    assert f"waits for 1 of 1 jobs, when all_ok: {waits.id}" in story
    yard.shunter("workflow", later.id, "--cancel", station=station)
    assert client.runs.show(later.id).open_jobs == []
