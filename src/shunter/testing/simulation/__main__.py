"""`python -m shunter.testing.simulation`: run seeds, tell what they found, replay one.

Exit code 0 where everything held, 1 where something did not, 2 for a command that makes no sense.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from tempfile import gettempdir

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shunter.testing.simulation.campaign import (
    Findings,
    be_quiet,
    restart_reproducibly,
    try_all,
)
from shunter.testing.simulation.generator import scenario_of
from shunter.testing.simulation.scenario import FaultKind, Scenario
from shunter.testing.simulation.shrinker import shrunk
from shunter.testing.simulation.simulator import SimulationResult, simulate
from shunter.testing.simulation.story import story
from shunter.testing.simulation.summary import summary_document, summary_table

COMMAND = "python -m shunter.testing.simulation"
STORIES_TOLD = 3


def main() -> int:
    restart_reproducibly()
    be_quiet()
    arguments = _parser().parse_args()
    kinds, seeds = arguments.faults, arguments.seeds
    if arguments.scenario is not None:
        return _tell(simulate(arguments.scenario), whole=True)
    if arguments.replay is not None:
        result = simulate(scenario_of(arguments.replay, kinds))
        return _tell(result, whole=arguments.whole, kinds=kinds)
    began = time.perf_counter()
    found = _run(seeds, kinds, processes=arguments.processes, is_quiet=arguments.json)
    took = time.perf_counter() - began
    if arguments.json:
        sys.stdout.write(summary_document(found, took) + "\n")
    else:
        Console().print(summary_table(found, took))
    for seed, _ in [] if arguments.json else found.violations[:STORIES_TOLD]:
        _tell(simulate(scenario_of(seed, kinds)), whole=False, kinds=kinds)
    return 1 if found.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Shunter under seeded faults.")
    parser.add_argument(
        "--seeds", type=_seeds, default="1..2000", help="a range such as 1..2000, or a list 3,5"
    )
    parser.add_argument(
        "--replay", type=int, metavar="SEED", help="run one seed and tell its story"
    )
    parser.add_argument("--whole", action="store_true", help="with --replay: do not shrink it")
    parser.add_argument(
        "--scenario", type=_scenario, metavar="FILE", help="run a scenario that was written down"
    )
    parser.add_argument(
        "--faults",
        type=_kinds,
        default="all",
        help=f"all, or kinds separated by commas: {', '.join(FaultKind)}",
    )
    parser.add_argument("--processes", type=_at_least_one, default=os.cpu_count() or 2)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    return parser


def _kinds(text: str) -> tuple[FaultKind, ...]:
    if text == "all":
        return tuple(FaultKind)
    try:
        return tuple(FaultKind(part.strip()) for part in text.split(","))
    except ValueError as error:
        known = ", ".join(FaultKind)
        raise argparse.ArgumentTypeError(f"{error}; there are {known}") from None


def _seeds(text: str) -> list[int]:
    first, dots, last = text.partition("..")
    try:
        found = list(range(int(first), int(last) + 1)) if dots else [*map(int, text.split(","))]
    except ValueError:
        found = []
    if not found:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, which is no seed; write a range such as 1..2000, or a list 3,5"
        )
    return found


def _scenario(path: str) -> Scenario:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Scenario)
    except (OSError, msgspec.DecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path} holds no scenario: {error}") from None


def _at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; give a whole number from 1")
    return int(text)


def _run(
    seeds: list[int], kinds: tuple[FaultKind, ...], *, processes: int, is_quiet: bool
) -> Findings:
    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=is_quiet) as progress:
        bar = progress.add_task("", total=len(seeds))

        def show(found: Findings) -> None:
            bad = f"[red]{len(found.violations)} violations" if found.violations else ""
            progress.update(bar, completed=found.seeds, description=bad)

        return try_all(seeds, kinds, processes=processes, progress=show)


def _tell(
    result: SimulationResult, *, whole: bool, kinds: tuple[FaultKind, ...] = tuple(FaultKind)
) -> int:
    """Print the story of a run, shrunk if it failed; return the exit code."""
    if result.violation is None:
        sys.stdout.write(story(result) + "\n")
        return 0
    smallest = result if whole else shrunk(result)
    path = Path(gettempdir()) / f"shunter-simulation-{result.scenario.seed}.json"
    path.write_bytes(msgspec.json.encode(smallest.scenario))
    option = "" if kinds == tuple(FaultKind) else f" --faults {','.join(kinds)!r}"
    sys.stdout.write(
        f"\n{story(smallest, original=result.scenario)}\n\n"
        f"Replay it:        {COMMAND} --replay {result.scenario.seed}{option}\n"
        f"only this story:  {COMMAND} --scenario {path}\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
