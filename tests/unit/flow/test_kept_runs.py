"""Runs in one process that keep checkpoints, are broken off, and go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.runners.checkpoint_folder import Checkpoints
from shunter.flow.runners.local import KeptRun, run
from shunter.flow.sinks import WriteJsonLines

COUNT = 50_000


class Broken(Exception):
    pass


class Seen:
    """Its list goes on changing in place, after a checkpoint too."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.last: list[int] = []

    def on_event(self, number: int) -> list[int]:
        self.last.append(number)
        if len(self.last) > 3:
            self.last.pop(0)
        return [self.key, *self.last]


def seen_flow(folder: Path) -> Flow:
    flow = Flow("seen")
    numbers = flow.source(lambda: range(COUNT), name="numbers").balanced().map(abs)
    seen = numbers.key_by(lambda n: n % 10).stateful(Seen, any_order=True)
    seen.balanced().sink(WriteJsonLines(folder / "out.jsonl"))
    return flow


def written(folder: Path) -> list[list[int]]:
    lines = [path.read_text().splitlines() for path in sorted(folder.glob("out*.jsonl"))]
    return sorted(json.loads(line) for part in lines for line in part)


def breaking_after(looks: int) -> Callable[[Any], None]:
    left = looks

    def look(_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Broken

    return look


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_run_that_is_broken_off_again_and_again_gives_the_same_output(
    tmp_path: Path, nodes: int
) -> None:
    (tmp_path / "whole").mkdir()
    run(seen_flow(tmp_path / "whole"), nodes=nodes)
    (tmp_path / "broken").mkdir()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    breaks = 0

    while True:
        flow = seen_flow(tmp_path / "broken")
        try:
            run(flow, nodes=nodes, checkpoints=checkpoints, every=0.0, look=breaking_after(9))
            break
        except Broken:
            breaks += 1
            assert written(tmp_path / "broken") == []

    assert breaks > 2
    assert written(tmp_path / "broken") == written(tmp_path / "whole")
    assert checkpoints.latest() is None


def test_one_that_died_before_it_could_publish_only_publishes(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    kept = KeptRun(seen_flow(tmp_path), checkpoints, every=0.0)

    def die_at_the_end() -> None:
        if kept.local.is_done:
            raise Broken

    with pytest.raises(Broken):
        kept.run(die_at_the_end)
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.is_end
    report = run(seen_flow(tmp_path), checkpoints=checkpoints)

    assert report["numbers"].given == 0
    assert len(written(tmp_path)) == COUNT


def test_without_a_break_nothing_is_left_of_the_checkpoints(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")

    run(seen_flow(tmp_path), checkpoints=checkpoints, every=0.0)

    assert len(written(tmp_path)) == COUNT
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_checkpoint_for_other_nodes_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with pytest.raises(Broken):
        run(
            seen_flow(tmp_path), nodes=3, checkpoints=checkpoints, every=0.0, look=breaking_after(9)
        )

    with pytest.raises(FlowError, match="the checkpoint is of 3 engines, not 1"):
        run(seen_flow(tmp_path), checkpoints=checkpoints)


def test_a_state_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    class Odd:
        def on_event(self, event: Any) -> Any:
            return event

        def snapshot(self) -> Any:
            return object()

    flow = Flow("odd")
    flow.source(lambda: range(COUNT)).stateful(Odd).sink(lambda _: None)

    with pytest.raises(FlowError, match="can't be kept in a checkpoint"):
        run(flow, checkpoints=Checkpoints(tmp_path), every=0.0)
