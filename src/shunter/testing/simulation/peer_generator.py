"""Other peers for a scenario: workers of other kinds, UDP clients, receivers, and their faults.

Only some scenarios have them, and they have a few: what takes part is replaced, not added, where
that is possible. So the runs stay small.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from msgspec.structs import replace

from shunter.model.worker import WorkerKind
from shunter.testing.simulation.pool import Task
from shunter.testing.simulation.scenario import (
    Fault,
    FaultKind,
    PlannedJob,
    Scenario,
)

SHARE = 0.5
"""Which part of the scenarios has other peers."""

OF_PACKETS = frozenset({FaultKind.PACKET_LOSS, FaultKind.DUPLICATION, FaultKind.REORDERING})
OF_SERVERS = frozenset({FaultKind.HANG, FaultKind.REFUSE, FaultKind.LOST_ANSWERS})
PEER_FAULTS = OF_PACKETS | OF_SERVERS

UNHEARD = {
    WorkerKind.UDP: (FaultKind.CUT, 0.0, (5.5, 7.0, 9.0), 7.0),
    WorkerKind.HTTP: (FaultKind.ISOLATE, 0.1, (21.0, 24.0), 26.0),
}
"""How a worker is not heard: by which fault, how soon after the job came, for how long, and how
long its job runs. A calculator must not confirm it; an HTTP worker must, and miss three checks."""

PEERS = ("udp client", "receiver", "udp worker", "http worker")


def with_peers(
    scenario: Scenario, kinds: Collection[FaultKind], spans: tuple[float, ...]
) -> Scenario:
    """Return the scenario with other peers, if its seed says so."""
    random = Random(f"peers of {scenario.seed}")  # noqa: S311
    if random.random() >= SHARE:
        return scenario
    wanted = set(random.sample(PEERS, random.choice((1, 1, 2))))
    if "udp client" in wanted:
        scenario = _with_udp_client(scenario, random)
    if "receiver" in wanted:
        scenario = _with_receivers(scenario, random)
    if "udp worker" in wanted:
        scenario = _with_workers(scenario, WorkerKind.UDP, random)
    if "http worker" in wanted:
        scenario = _with_workers(scenario, WorkerKind.HTTP, random)
    scenario = _with_unheard_run(scenario, kinds, random)
    return _with_faults(scenario, kinds, spans, random)


def _with_workers(scenario: Scenario, kind: WorkerKind, random: Random) -> Scenario:
    """Make some workers, or all, speak something else."""
    part = random.choice((0.5, 1.0))
    workers = tuple(
        replace(worker, kind=kind) if random.random() < part else worker
        for worker in scenario.workers
    )
    return replace(scenario, workers=workers)


def _with_udp_client(scenario: Scenario, random: Random) -> Scenario:
    """Let a client over UDP add some of the jobs; it can say less about them."""
    jobs = tuple(
        PlannedJob(id=job.id, at=job.at, client="u1", task=replace(job.task, padding=b""))
        if random.random() < 0.6
        else job
        for job in scenario.jobs
    )
    return replace(scenario, jobs=jobs, udp_clients=("u1",))


def _with_receivers(scenario: Scenario, random: Random) -> Scenario:
    receivers = ("r1", "r2")[: random.choice((1, 1, 2))]
    jobs = tuple(
        replace(job, callback=random.choice(receivers))
        if job.client in scenario.clients and random.random() < 0.7
        else job
        for job in scenario.jobs
    )
    return replace(scenario, jobs=jobs, receivers=receivers)


def _with_faults(
    scenario: Scenario, kinds: Collection[FaultKind], spans: tuple[float, ...], random: Random
) -> Scenario:
    """Let things go wrong that only these peers notice."""
    udp = [*scenario.udp_clients, *_of(scenario, WorkerKind.UDP)]
    servers = [*scenario.receivers, *_of(scenario, WorkerKind.HTTP)]
    possible = [
        kind
        for kind in sorted(PEER_FAULTS & set(kinds))
        if (udp if kind in OF_PACKETS else servers)
    ]
    if not possible:
        return scenario
    faults = list(scenario.faults)
    for _ in range(random.choice((0, 1, 1, 2))):
        kind = random.choice(possible)
        at = _around(random.choice(scenario.jobs), random)
        seconds, amount = random.choice(spans), 0.0
        pair = [random.choice(scenario.dispatchers), random.choice(udp or servers)]
        if kind in OF_PACKETS:
            amount = random.choice((0.2, 0.5, 0.9))
        else:
            pair[1] = random.choice(servers)
            random.shuffle(pair)
        if kind in (FaultKind.HANG, FaultKind.REFUSE):
            pair = [random.choice(servers), ""]
            amount = random.choice((0.0, 409.0, 500.0, 503.0)) if kind is FaultKind.REFUSE else 0.0
        target, other = pair
        faults.append(
            Fault(kind=kind, at=at, target=target, other=other, seconds=seconds, amount=amount)
        )
    return replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at)))


def _with_unheard_run(scenario: Scenario, kinds: Collection[FaultKind], random: Random) -> Scenario:
    """Have a worker begin a job and not be heard until another has it, too."""
    possible = [
        worker
        for worker in scenario.workers
        if worker.kind in UNHEARD and UNHEARD[worker.kind][0] in kinds
    ]
    if not possible or random.random() < 0.5:
        return scenario
    worker, place = random.choice(possible), random.randrange(len(scenario.jobs))
    kind, pause, spans, runs_for = UNHEARD[worker.kind]
    job = scenario.jobs[place]
    task = Task(seconds=runs_for)
    long = PlannedJob(id=job.id, at=job.at, client=job.client, task=task)
    fault = Fault(
        kind=kind,
        at=round(job.at + pause, 4),
        target=worker.name,
        other=worker.dispatchers[0] if kind is FaultKind.CUT else "",
        seconds=random.choice(spans),
    )
    jobs = (*scenario.jobs[:place], long, *scenario.jobs[place + 1 :])
    faults = sorted((*scenario.faults, fault), key=lambda fault: fault.at)
    return replace(scenario, jobs=jobs, faults=tuple(faults))


def _around(job: PlannedJob, random: Random) -> float:
    """Return a time at which something happens to a job: just before, then, or later."""
    since = random.choice((-0.4, 0.1 * random.random(), 4.0 * random.random()))
    return round(max(0.1, job.at + (job.delay or 0.0) + since), 4)


def _of(scenario: Scenario, kind: WorkerKind) -> list[str]:
    return [worker.name for worker in scenario.workers if worker.kind is kind]
