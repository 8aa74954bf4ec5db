"""One definition, every runner: the same flows have the same output wherever they run.

As many events of each kind come out, and those of a key in the same order. Another runner is one
more entry in `RUNNERS`.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import flow_cases
from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.loading import load
from shunter.flow.runners.engines.deployer import FlowRun
from shunter.flow.runners.local import LocalRun
from system.flow.engines import engines

FILE = flow_cases.__file__

Runner = Callable[[str], Path]
"""Runs the case of this name, and returns the folder that its output is in."""


class Output(NamedTuple):
    """What has come out: how often each event, and the events of each key in their order."""

    events: Counter[str]
    by_key: dict[str, list[str]]


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


# ---- runners


@pytest.fixture
def new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def made(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv("FLOW_CASES", str(folder))
        return folder

    return made


@pytest.fixture
def in_process(new_folder: Callable[[str], Path]) -> Runner:
    def run(case: str) -> Path:
        folder = new_folder("in_process")
        LocalRun(flow_of(case), nodes=1).run()
        return folder

    return run


@pytest.fixture
def on_three_nodes(new_folder: Callable[[str], Path]) -> Runner:
    def run(case: str) -> Path:
        folder = new_folder("on_three_nodes")
        LocalRun(flow_of(case), nodes=3, limit=100).run()
        return folder

    return run


class Left(Exception):
    """A run is left before its end."""


@pytest.fixture
def from_a_checkpoint(new_folder: Callable[[str], Path]) -> Runner:
    """One run is left after a checkpoint, and another goes on from there."""

    def run(case: str) -> Path:
        folder = new_folder("from_a_checkpoint")
        kept: dict[str, bytes] = {}
        steps = count()

        def look() -> None:
            if next(steps) == 0:
                first.checkpoint(1)
            if len(kept) == len(first.workers):
                raise Left

        def keep(worker: str, _: int, saved: Any) -> None:
            kept[worker] = msgspec.msgpack.encode(saved)

        first = LocalRun(flow_of(case), nodes=3, limit=100, on_checkpoint=keep)
        with suppress(Left):
            first.run(look)
            return folder
        saved = {worker: msgspec.msgpack.decode(body) for worker, body in kept.items()}
        LocalRun(flow_of(case), nodes=3, saved=saved).run()
        return folder

    return run


@pytest.fixture(scope="module")
def two_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    folder = tmp_path_factory.mktemp("engines")
    with engines(folder, 2, environ={"FLOW_CASES": str(folder)}) as started:
        yield folder, [each.endpoint for each in started]


@pytest.fixture
def on_engines(two_engines: tuple[Path, list[str]]) -> Runner:
    folder, endpoints = two_engines

    def run(case: str) -> Path:
        FlowRun(flow_of(case), f"{FILE}:{case}", endpoints).run()
        return folder

    return run


RUNNERS = ("on_three_nodes", "from_a_checkpoint", "on_engines")
"""Those that must do as `in_process` does."""


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("case", flow_cases.CASES)
def test_a_flow_has_the_same_output_everywhere(
    case: str, runner: str, in_process: Runner, request: pytest.FixtureRequest
) -> None:
    expected = output_of(case, in_process(case))
    assert expected.events.total() == flow_cases.CASES[case]

    found = output_of(case, request.getfixturevalue(runner)(case))

    assert found.events == expected.events
    assert found.by_key == expected.by_key


@pytest.mark.parametrize("runner", ["in_process", *RUNNERS])
def test_a_bad_event_ends_a_run_everywhere_with_the_same_words(
    runner: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(FlowError) as caught:
        request.getfixturevalue(runner)("stopped")

    said = str(caught.value)
    assert "stage 'inverse': ZeroDivisionError: division by zero, at the event 0" in said
    assert "return 12 / number" in said


def test_there_are_enough_cases() -> None:
    assert len(flow_cases.CASES) >= 20
