"""A limit on real processes: four dispatchers on one store are killed in turns, and a worker."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from long_runs import IS_LONG
from shunter.model.job import Status
from system.test_no_master import Killing, dispatchers
from system.witness import Run, runs_in
from system.yard import PATIENCE, Yard, until

LIMITED_APP = f"{Path(__file__).parent / 'limited_app.py'}:app"
LIMIT = 5
COUNT = 600 if IS_LONG else 120
STUCK_SECONDS = 11.0


def most_at_once(runs: list[Run]) -> int:
    """Return how many went on at the same moment, as the witness has it."""
    steps = [(run.first, 1) for run in runs] + [(run.last, -1) for run in runs]
    most = running = 0
    for _, step in sorted(steps):
        running += step
        most = max(most, running)
    return most


def test_a_limit_is_kept_and_used_while_four_dispatchers_and_a_worker_are_killed(
    yard: Yard, store_url: str
) -> None:
    stations = dispatchers(yard, store_url, 4)
    workers = [yard.worker(*stations, app=LIMITED_APP, slots=4) for _ in range(2)]
    client = yard.client(*stations)
    until(lambda: [it.type for it in client.limits.list()] == ["work"])
    acme = client.with_options(keys={"tenant": "acme"})

    with Killing(stations) as killing:
        jobs = acme.submit_many("work", [(number, 0.3) for number in range(COUNT)])
        until(lambda: len(runs_in(yard.witness)) > COUNT // 3, what="a third has begun")
        workers[0].kill()
        yard.worker(*stations, app=LIMITED_APP, slots=4)
        outcomes = [job.wait(PATIENCE) for job in jobs]

    assert killing.kills >= 3
    assert {outcome.status for outcome in outcomes} == {Status.COMPLETED}
    runs = [run for each in runs_in(yard.witness).values() for run in each]
    assert most_at_once(runs) == LIMIT
    starts = sorted(run.first for run in runs)
    assert max(after - before for before, after in pairwise(starts)) < STUCK_SECONDS
