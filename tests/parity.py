"""How the parity suites run the flows of `flow_cases.py`, and how they compare what came out.

Runners are those of the registry; `RUNS` has, for each of them, the ways to run a case on it.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import flow_cases
from shunter.flow.flow import Flow
from shunter.flow.loader import load
from shunter.flow.runners.registry import run_flow
from shunter.flow.runtime.report import StageReport

FILE = flow_cases.__file__

RUNS = {
    "local": {"in_process": {"nodes": 1}, "on_two_nodes": {"nodes": 2}},
    "engines": {"on_engines": {}},
    "spark": {"on_spark": {"nodes": 2}, "as_a_stream": {"nodes": 2, "stream": True}},
}
"""By runner and way, the options of a run that are always the same."""


class Output(NamedTuple):
    """What has come out: how often each event, and the events of each key in their order."""

    events: Counter[str]
    by_key: dict[str, list[str]]


def run_case(case: str, way: str, **options: Any) -> list[StageReport]:
    """Run a case in one of the ways, and return what each stage has done."""
    [(on, always)] = [(on, ways[way]) for on, ways in RUNS.items() if way in ways]
    return run_flow(flow_of(case), on, spec=f"{FILE}:{case}", **always, **options).stages


def flow_of(case: str) -> Flow:
    return load(f"{FILE}:{case}")


def output_of(case: str, folder: Path) -> Output:
    events: Counter[str] = Counter()
    by_key: dict[str, list[str]] = {}
    for path in sorted([*folder.glob(f"{case}.*.txt"), *folder.glob(f"{case}-*.txt")]):
        here = defaultdict(list)
        sink = path.name.partition(".")[0]
        for line in path.read_text().splitlines():
            events[f"{sink}: {line}"] += 1
            if not line.startswith("(None, "):
                here[f"{sink}: {key_in(line)}"].append(line)
        assert not here.keys() & by_key.keys(), "events of one key came to two workers"
        by_key |= here
    return Output(events, by_key)


def key_in(line: str) -> str:
    """The key that a witness has put before an event."""
    for end in range(len(line)):
        if line[end : end + 2] == ", ":
            try:
                return repr(ast.literal_eval(line[1:end]))
            except (SyntaxError, ValueError):
                continue
    raise AssertionError(line)
