"""A run as a text that a person can read: who was there, what was asked, what went wrong."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.model.timing import Every
from shunter.model.worker import WorkerKind
from shunter.testing.simulation.scenario import Fault, PlannedJob, PlannedSchedule, Scenario
from shunter.testing.simulation.simulator import SimulationResult


def story(result: SimulationResult, *, original: Scenario | None = None) -> str:
    """Tell a run; `original` is the scenario that it was shrunk from."""
    return "\n".join(_lines(result, original or result.scenario))


def _lines(result: SimulationResult, original: Scenario) -> Iterator[str]:
    scenario, violation = result.scenario, result.violation
    if violation is None:
        yield f"Seed {scenario.seed}: everything held."
    else:
        yield f"Seed {scenario.seed}: “{violation.rule}” did not hold, at {violation.at:.3f} s."
        yield f"  {violation.detail}"
    if scenario != original:
        yield (
            f"  Shrunk from {_count(original.jobs, 'job')} and {_count(original.faults, 'fault')} "
            f"to {_count(scenario.jobs, 'job')} and {_count(scenario.faults, 'fault')}."
        )
    yield ""
    yield "Who is there"
    yield "  " + "; ".join(
        f"{what} {', '.join(names)}"
        for what, names in (
            ("dispatchers", scenario.dispatchers),
            ("clients", scenario.clients),
            ("UDP clients", scenario.udp_clients),
            ("receivers", scenario.receivers),
        )
        if names
    )
    for worker in scenario.workers:
        kind = "" if worker.kind is WorkerKind.FULL else f" ({worker.kind})"
        slots, served = _count(range(worker.slots), "slot"), ", ".join(worker.dispatchers)
        yield f"  worker {worker.name}{kind}: {slots}, serves {served}"
    yield "What is submitted"
    for job in scenario.jobs:
        yield f"  {_job(job)}"
    for schedule in scenario.schedules:
        yield f"  {_schedule(schedule)}"
    if scenario.faults:
        yield "What goes wrong"
        for fault in scenario.faults:
            yield f"  {_fault(fault)}"
    yield "What happens"
    for line in result.trace:
        yield f"  {line}"


def _count(things: object, word: str) -> str:
    count = len(things)  # type: ignore[arg-type]
    return f"{count} {word}{'' if count == 1 else 's'}"


def _job(job: PlannedJob) -> str:
    task = job.task
    parts = [f"{job.id} by {job.client} at {job.at:.3f} s, runs for {task.seconds:.2f} s"]
    if task.crashes:
        parts.append(f"kills its first {_count(range(task.crashes), 'child')}")
    if task.fails:
        parts.append(f"then raises {_count(range(task.fails), 'time')}, retries {job.retries}")
    if job.timeout is not None:
        parts.append(f"time-out {job.timeout:g} s")
    if task.ignores:
        parts.append(("", "ignores requests to stop", "only SIGKILL stops it")[task.ignores])
    if job.delay is not None:
        parts.append(f"delayed by {job.delay:g} s")
    if job.unique_key is not None:
        parts.append(f"unique key {job.unique_key!r}")
    if job.cancel_after is not None:
        parts.append(f"cancelled {job.cancel_after:g} s after its receipt")
    if job.callback:
        parts.append(f"calls {job.callback} back")
    return "; ".join(parts)


def _schedule(schedule: PlannedSchedule) -> str:
    timing = schedule.timing
    ticks = f"every {timing.seconds:g} s" if isinstance(timing, Every) else repr(timing.text)
    by = "the workers' app" if schedule.is_declared else f"{schedule.client} at {schedule.at:.3f} s"
    return (
        f"schedule {schedule.name} by {by}: {ticks}, overlap {schedule.overlap}, catch_up "
        f"{schedule.catch_up:g} s; its jobs run for {schedule.task.seconds:.2f} s"
    )


def _fault(fault: Fault) -> str:
    where = f"{fault.target} and {fault.other}" if fault.other else fault.target
    lasts = f" for {fault.seconds:g} s" if fault.seconds else ""
    amount = f" ({fault.amount:g})" if fault.amount else ""
    return f"at {fault.at:.3f} s: {fault.kind}{amount}, {where}{lasts}"
