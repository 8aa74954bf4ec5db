"""Many seeds, in several processes, and what they found and covered.

Every process runs under PYTHONHASHSEED=0: the order of a set must not differ between two runs.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import structlog
from msgspec import Struct, field

from shunter.model.job import Status
from shunter.model.lifecycle import TRANSITIONS, Event
from shunter.testing.simulation.generator import scenario_of
from shunter.testing.simulation.judge import Violation
from shunter.testing.simulation.scenario import FaultKind
from shunter.testing.simulation.simulator import simulate

SEEDS_AT_ONCE = 20

HASH_SEED = "0"


class Findings(Struct):
    """What some seeds came to; two can be added."""

    seeds: int = 0
    virtual_seconds: float = 0.0
    steps: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)
    events: Counter[tuple[Status, Event]] = field(default_factory=Counter)
    faults: Counter[FaultKind] = field(default_factory=Counter)

    def add(self, other: Findings) -> None:
        self.seeds += other.seeds
        self.virtual_seconds += other.virtual_seconds
        self.steps += other.steps
        self.violations += other.violations
        self.events += other.events
        self.faults += other.faults

    def uncovered(self) -> list[tuple[Status, Event]]:
        """Return the transitions that no seed went through."""
        return [step for step in TRANSITIONS if not self.events[step]]


def is_reproducible() -> bool:
    """True if sets have the same order in every process like this one."""
    return os.environ.get("PYTHONHASHSEED") == HASH_SEED


def restart_reproducibly() -> None:
    """Begin this program anew with a fixed hash seed, unless it has one."""
    if not is_reproducible():
        environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606


def be_quiet() -> None:
    """Log nothing: what a simulation has to tell is in its trace."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=True
    )


def try_seeds(seeds: Iterable[int], kinds: Collection[FaultKind] = tuple(FaultKind)) -> Findings:
    """Run these seeds here, one after the other."""
    found = Findings()
    for seed in seeds:
        result = simulate(scenario_of(seed, kinds))
        found.seeds += 1
        found.virtual_seconds += result.seconds
        found.steps += result.steps
        found.events += result.events
        found.faults += result.faults
        if result.violation is not None:
            found.violations.append((seed, result.violation))
    gc.collect()
    return found


def try_all(
    seeds: Sequence[int],
    kinds: Collection[FaultKind] = tuple(FaultKind),
    *,
    processes: int,
    progress: Callable[[Findings], None] = lambda findings: None,
    stop_at_first: bool = False,
) -> Findings:
    """Run seeds in so many processes; `progress` is called with what was found so far."""
    found = Findings()
    portions = _portions(seeds)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_prepare) as pool:
        running = {pool.submit(try_seeds, portion, tuple(kinds)) for portion in portions}
        try:
            while running:
                done = {future for future in running if future.done()}
                running -= done
                for future in done:
                    found.add(future.result())
                progress(found)
                if stop_at_first and found.violations:
                    break
                if not done:
                    time.sleep(0.02)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    found.violations.sort(key=lambda entry: entry[0])
    return found


def _portions(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(seeds), SEEDS_AT_ONCE):
        yield seeds[start : start + SEEDS_AT_ONCE]


def _prepare() -> None:
    be_quiet()
    gc.disable()  # a run makes few cycles; they are collected after each portion
