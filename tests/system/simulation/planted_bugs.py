"""Bugs that the simulator must find: each takes away one thing that Shunter's promises rest on.

`python planted_bugs.py [NAME …]` plants one after the other, tries seeds until something does not
hold, and prints a JSON line for each: its name, how many seeds it took, and which rule caught it.
`--write` puts the same into docs/simulation.md, `--known` begins with the seeds that are there,
`--story NAME` tells how one was found.
Run it under PYTHONHASHSEED=0.
"""

from __future__ import annotations

import gc
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bug_list import BUGS, bug, nothing
from msgspec.structs import replace

from shunter.client.pending_outcomes import PendingOutcomes
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.membership import Membership
from shunter.dispatch.planner import Planner
from shunter.gateway import service
from shunter.gateway.zmq.backend import Backend
from shunter.model import lifecycle
from shunter.model.job import Status
from shunter.model.lease import LeaseTerms, WorkerLease
from shunter.model.submission import Receipt
from shunter.store.memory import MemoryStore
from shunter.testing.simulation.campaign import be_quiet
from shunter.testing.simulation.generator import scenario_of
from shunter.testing.simulation.processes import SimulatedEnvironment
from shunter.testing.simulation.scenario import FaultKind
from shunter.testing.simulation.shrinker import shrunk
from shunter.testing.simulation.simulator import simulate
from shunter.testing.simulation.story import story
from shunter.worker.zmq.credits import Credits
from shunter.worker.zmq.outbox import Outbox
from shunter.worker.zmq.zmq_worker import ZmqWorker

MOST_SEEDS = 600
DOCUMENT = Path(__file__).parents[3] / "docs" / "simulation.md"
BEGIN = "<!-- made by tests/system/simulation/planted_bugs.py --write -->"
END = "<!-- end of the planted bugs -->"

# ---- fences and compare-and-swap


@bug("reports of old attempts are believed", FaultKind.FREEZE, FaultKind.LATE_PACKETS)
def no_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lifecycle, "fence", nothing)
    patch.setattr(lifecycle, "check_holder", nothing)


@bug("a start does not raise the attempt")
def attempt_not_raised(patch: pytest.MonkeyPatch) -> None:
    started = lifecycle.started

    def same_attempt(job: Any, slot: Any, *, now: float) -> Any:
        return replace(started(job, slot, now=now), attempt=max(1, job.attempt))

    patch.setattr(lifecycle, "started", same_attempt)


@bug("the store writes without comparing revisions")
def no_compare(patch: pytest.MonkeyPatch) -> None:
    def swap(self: Any, job: Any) -> bool:
        self._write(job)
        return True

    patch.setattr(MemoryStore, "_replace", swap)


@bug("a lost race is taken for a write")
def lost_race_ignored(patch: pytest.MonkeyPatch) -> None:
    swap = MemoryStore._replace

    def says_yes(self: Any, job: Any) -> bool:
        swap(self, job)
        return True

    patch.setattr(MemoryStore, "_replace", says_yes)


@bug("submitting again under a known id stores the job again")
def known_id_ignored(patch: pytest.MonkeyPatch) -> None:
    insert = MemoryStore._insert

    def overwrite(self: Any, job: Any, *others: Any) -> Any:
        if job.id in self._jobs:
            self._write(job)
            return job
        return insert(self, job, *others)

    patch.setattr(MemoryStore, "_insert", overwrite)


@bug("unique keys are not looked at")
def unique_key_ignored(patch: pytest.MonkeyPatch) -> None:
    insert = MemoryStore._insert

    def forget_keys(self: Any, job: Any, *others: Any) -> Any:
        self._keys.clear()
        return insert(self, job, *others)

    patch.setattr(MemoryStore, "_insert", forget_keys)


# ---- what is said before it is written


@bug("a submission is acknowledged before the commit")
def early_receipt(patch: pytest.MonkeyPatch) -> None:
    take_in = Dispatcher._take_in

    def eager(self: Any, submitted: Any) -> None:
        submitted.answer([Receipt(submission.id) for submission in submitted.submissions])
        take_in(self, replace(submitted, answer=nothing))

    patch.setattr(Dispatcher, "_take_in", eager)


@bug("a heartbeat is answered before the commit")
def early_pong(patch: pytest.MonkeyPatch) -> None:
    receive = Backend._beat

    def eager(self: Any, worker_id: str, body: bytes) -> None:
        from shunter.wire.messages import Beat, decode

        receive(self, worker_id, body)
        self.send_pong(worker_id, decode(body, Beat).beat)

    patch.setattr(Backend, "_beat", eager)


@bug("a report is confirmed before the commit")
def early_taken(patch: pytest.MonkeyPatch) -> None:
    receive = Backend._reports

    def eager(self: Any, worker_id: str, body: bytes) -> None:
        from shunter.wire.messages import Reports, decode

        receive(self, worker_id, body)
        self.send_taken(worker_id, [decode(body, Reports).batch])

    patch.setattr(Backend, "_reports", eager)


@bug("a heartbeat is answered and not stored")
def renewal_forgotten(patch: pytest.MonkeyPatch) -> None:
    async def renew(self: Any, worker_ids: Any, *, now: float) -> None:
        self._check_open()

    from shunter.testing.simulation.truth import Truth

    patch.setattr(Truth, "renew", renew)


# ---- leases


@bug("a worker that is cut off never stops its jobs")
def lease_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkerLease, "is_over", lambda self, **_: False)
    patch.setattr(WorkerLease, "ends_at", lambda self, stores: math.inf)


@bug("a worker that is cut off begins anew, and its jobs run on")
def jobs_not_stopped(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Any) -> None:
        self._outbox.clear()
        self._origins.clear()
        self._lease.restart(now=self._environment.lease_clock())
        for connection in self._connections:
            connection.reopen()

    patch.setattr(ZmqWorker, "_cut_off", forget)


@bug("a worker starts jobs that reach it after its lease was over")
def late_jobs_taken(patch: pytest.MonkeyPatch) -> None:
    take = ZmqWorker._take_jobs

    def believe(self: Any, connection: Any, jobs: Any) -> None:
        self._lease.is_over = lambda **_: False
        try:
            take(self, connection, jobs)
        finally:
            del self._lease.is_over

    patch.setattr(ZmqWorker, "_take_jobs", believe)


@bug("nobody stops the children of a parent that stands still")
def watchdog_asleep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ZmqWorker, "_watch_until", nothing)


@bug("a dispatcher takes jobs over after 3 s of silence")
def early_takeover(patch: pytest.MonkeyPatch) -> None:
    soon = LeaseTerms(worker_gives_up=1.0, kill_within=0.5, dispatcher_takes_over=3.0)
    rules_of = service.rules_of
    patch.setattr(service, "rules_of", lambda s: replace(rules_of(s), lease=soon))


@bug("a worker times its lease by the clock on the wall", FaultKind.CLOCK_JUMP, FaultKind.FREEZE)
def lease_by_the_wall(patch: pytest.MonkeyPatch) -> None:
    def monotonic(self: Any) -> float:
        is_worker = self._process.name.startswith("w")
        return float(self.wall() if is_worker else self._time.now + self._booted)

    patch.setattr(SimulatedEnvironment, "monotonic", monotonic)


# ---- what must be found again


@bug("jobs of dead workers are not taken back")
def dead_not_buried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "bury", nothing)


@bug("claims that nobody acted on are not released")
def claims_not_released(patch: pytest.MonkeyPatch) -> None:
    look = Planner._look_at

    def look_away(self: Any, job: Any, plan: Any) -> None:
        if job.status is not Status.DISPATCHING:
            look(self, job, plan)

    patch.setattr(Planner, "_look_at", look_away)


@bug("a READY is not compared with the store")
def ready_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "reconcile", nothing)


@bug("jobs that a heartbeat does not list are never missed")
def missing_not_noticed(patch: pytest.MonkeyPatch) -> None:
    rules_of = service.rules_of
    patch.setattr(service, "rules_of", lambda s: replace(rules_of(s), forgotten_after=1e9))


@bug("jobs that wait never come due")
def waits_never_end(patch: pytest.MonkeyPatch) -> None:
    look = Planner._look_at

    def look_away(self: Any, job: Any, plan: Any) -> None:
        if job.status is not Status.QUEUED:
            look(self, job, plan)

    patch.setattr(Planner, "_look_at", look_away)


@bug("jobs start before their time")
def waits_ignored(patch: pytest.MonkeyPatch) -> None:
    insert = MemoryStore._insert

    def at_once(self: Any, job: Any, *others: Any) -> Any:
        return insert(self, replace(job, wait_until=None) if job.wait_until else job, *others)

    patch.setattr(MemoryStore, "_insert", at_once)


@bug("a worker forgets reports that were sent once")
def reports_sent_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "unconfirmed", lambda self: [])
    patch.setattr(Outbox, "stale", lambda self, **_: [])


@bug("a client waits for results to be pushed, and never asks")
def results_not_fetched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingOutcomes, "_ask", nothing)


# ---- limits


@bug("each dispatcher is told that it may use the whole worker")
def whole_window_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Credits, "window", lambda self, account, *, limit, beat=None: limit)
    patch.setattr(Credits, "room", lambda self, account, *, limit, at_work: 1000)


@bug("losses are not counted")
def losses_unbounded(patch: pytest.MonkeyPatch) -> None:
    rules_of = service.rules_of
    patch.setattr(service, "rules_of", lambda s: replace(rules_of(s), max_losses=1000))


def hunt(name: str, first: Sequence[int] = ()) -> dict[str, Any]:
    """Plant a bug and try seeds until it is found, with some before all others."""
    what, plant, faults = BUGS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for seed in (*first, *range(1, MOST_SEEDS + 1)):
            violation = simulate(scenario_of(seed, faults)).violation
            if violation is not None and "TypeError" in violation.detail:
                raise AssertionError(f"{what}: planted wrongly: {violation.detail}")
            if violation is not None:
                return {"name": name, "what": what, "seeds": seed, "rule": violation.rule}
            if seed % 20 == 0:
                gc.collect()
    return {"name": name, "what": what, "seeds": None, "rule": None}


def tell(name: str) -> str:
    """Plant a bug, find it, and tell the shrunken story of it."""
    with pytest.MonkeyPatch.context() as patch:
        BUGS[name].plant(patch)
        for seed in (*known_seeds(name), *range(1, MOST_SEEDS + 1)):
            result = simulate(scenario_of(seed, BUGS[name].faults))
            if result.violation is not None:
                return story(shrunk(result), original=result.scenario)
    return "not found"


def known_seeds(name: str) -> list[int]:
    """Return the seed by which a bug was found when the document was written."""
    rows = DOCUMENT.read_text("utf-8").splitlines()
    return [
        int(seed)
        for row in rows
        if row.startswith(f"| {BUGS[name].what} |")
        and (seed := row.split("|")[3].strip()).isdigit()
    ]


def write_table() -> None:
    """Put what was found into docs/simulation.md."""
    rows = ["| bug | found by | seeds |", "| --- | --- | --- |"]
    for found in map(hunt, BUGS):
        rows.append(f"| {found['what']} | {found['rule']} | {found['seeds']} |")
        print(rows[-1], flush=True)
    text = DOCUMENT.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text(head + BEGIN + "\n\n" + "\n".join(rows) + "\n\n" + END + tail, "utf-8")


def _add_others() -> None:
    """Those come behind."""
    import peer_bugs  # noqa: F401
    import schedule_bugs  # noqa: F401


_add_others()


def main(arguments: list[str]) -> None:
    be_quiet()
    gc.disable()
    match arguments:
        case ["--write"]:
            write_table()
        case ["--known"]:
            for name in BUGS:
                print(json.dumps(hunt(name, known_seeds(name))), flush=True)
        case ["--story", name]:
            print(tell(name))
        case names:
            for name in names or BUGS:
                print(json.dumps(hunt(name)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
