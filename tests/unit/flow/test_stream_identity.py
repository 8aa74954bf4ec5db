"""A checkpoint of another version of a flow is refused, and it is said what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shunter import Flow
from shunter.errors import FlowError
from shunter.flow.runners.spark.stream.identity import (
    check_same,
    identity_of,
    keep_identity,
    kept_identity,
)
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.sinks import Collect


class Numbered:
    def __init__(self) -> None:
        self.count = 0

    def on_event(self, _: Any) -> int:
        self.count += 1
        return self.count


def flow_of(*, key: str = "machine", workers: int | None = None, extra: bool = False) -> Flow:
    flow = Flow("counted")
    readings = flow.source([], name="readings")
    if extra:
        readings = readings.filter(bool, name="real")
    counted = readings.key_by(key).stateful(Numbered, name="counted", workers=workers)
    counted.sink(Collect(), name="out")
    return flow


def test_the_same_flow_fits_its_checkpoint(tmp_path: Path) -> None:
    keep_identity(identity_of(flow_of(), 2), tmp_path / "new")
    kept = kept_identity(tmp_path / "new")

    assert kept is not None
    check_same(kept, identity_of(flow_of(), kept.nodes), tmp_path)


@pytest.mark.parametrize(
    ("changed", "nodes", "said"),
    [
        (
            {"workers": 3},
            2,
            "'counted' was stateful with as many workers as nodes, and is stateful",
        ),
        ({"key": "place"}, 2, "the route readings → counted by key place is new"),
        ({"extra": True}, 2, "the stage 'real' is new"),
        ({}, 4, "it has 2 nodes, not 4"),
    ],
)
def test_what_differs_is_said_before_spark_is_started(
    changed: dict[str, Any], nodes: int, said: str, tmp_path: Path
) -> None:
    keep_identity(identity_of(flow_of(), 2), tmp_path / "kept")
    before = sorted(path.name for path in (tmp_path / "kept").rglob("*"))

    with pytest.raises(FlowError, match="checkpoint of another version of this flow") as caught:
        stream_on_spark(flow_of(**changed), checkpoints=tmp_path / "kept", nodes=nodes)

    assert said in str(caught.value)
    assert sorted(path.name for path in (tmp_path / "kept").rglob("*")) == before


def test_changed_code_is_named_by_its_file(tmp_path: Path) -> None:
    old, new = flow_of(), flow_of()
    old.code, new.code = (("flows.py", "1"),), (("flows.py", "2"),)

    with pytest.raises(FlowError, match=r"the file 'flows\.py' has changed"):
        check_same(identity_of(old, 2), identity_of(new, 2), tmp_path)


def test_what_no_part_of_the_graph_shows_is_still_refused(tmp_path: Path) -> None:
    old, new = flow_of(), flow_of()
    new.on_error = "skip"

    with pytest.raises(FlowError, match="what its errors do"):
        check_same(identity_of(old, 2), identity_of(new, 2), tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")

    with pytest.raises(FlowError, match="is no checkpoint of a stream, and is not empty"):
        stream_on_spark(flow_of(), checkpoints=tmp_path)
