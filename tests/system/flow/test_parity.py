"""One definition, every runner: the same flows have the same output wherever they run.

As many events of each kind come out, and those of a key in the same order. Another runner is one
more entry in `parity.RUNS`; Spark's are run in `system/spark`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

import flow_cases
from parity import RUNS, flow_of, output_of, run_case
from shunter.errors import FlowError
from shunter.flow.runners.local import LocalRun
from shunter.flow.runners.registry import NAMES
from system.flow.engines import engines

Runner = Callable[[str], Path]
"""Runs the case of this name, and returns the folder that its output is in."""


# ---- runners


@pytest.fixture
def new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def made(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv("FLOW_CASES", str(folder))
        return folder

    return made


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """The one that the others are compared with, so it runs each case once."""
    folder = tmp_path_factory.mktemp("in_process")

    @cache
    def run(case: str) -> Path:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("FLOW_CASES", str(folder))
            run_case(case, "in_process")
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
        run_case(case, "on_engines", addresses=endpoints)
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


def test_every_runner_of_the_registry_has_its_cases() -> None:
    assert set(RUNS) == set(NAMES)


def test_no_two_cases_have_one_name() -> None:
    files = Path(flow_cases.__file__).parent.glob("flow_*.py")
    texts = [path.read_text(encoding="utf-8") for path in files]
    names = [name for text in texts for name in re.findall(r"@case.*\ndef (\w+)", text)]

    assert sorted(names) == sorted(flow_cases.CASES)
