"""An upgrade, from the oldest store to this Shunter: what waited is done, what ended is shown."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from shunter.model.job import Status
from system.yard import PATIENCE, Yard, until

OLDEST = Path(__file__).parents[1] / "inputs" / "stores" / "schema-1.sql"


def test_jobs_of_the_oldest_store_go_on_under_this_shunter(yard: Yard, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with sqlite3.connect(path) as file:
        file.executescript(OLDEST.read_text())
    file.close()

    station = yard.dispatcher(store__url=f"sqlite:///{path}", store__retention_days=36500)
    yard.worker(station)
    client = yard.client(station)

    jobs = until(lambda: (it := client.jobs()) and all(job.status.is_final for job in it) and it)
    assert sorted(job.status for job in jobs) == [*3 * [Status.COMPLETED], Status.FAILED]
    results = {client.job_handle(job.id).result(PATIENCE) for job in jobs if not job.error}
    assert results == {42, 3, 7}
    again = client.with_options(unique_key="once").submit("add", 3, 4)
    assert again.id in {job.id for job in jobs}
    looked = yard.shunter("doctor", "--store", f"sqlite:///{path}")
    assert looked.returncode == 0, looked.stdout + looked.stderr
