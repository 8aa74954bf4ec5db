"""A checkpoint and a flow that has changed: what fits is kept, the rest is said or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shunter import Flow
from shunter.errors import FlowError
from shunter.flow import Count, DataFrameSource, Sum
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.differences import carried, differing
from shunter.flow.runners.spark.stream.identity import (
    Identity,
    identity_of,
    keep_identity,
    kept_identity,
    pins_of,
)
from shunter.flow.runners.spark.stream.ledger import Commit
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.runners.spark.stream.states import StateFile
from shunter.flow.sinks import Collect


class Numbered:
    def __init__(self) -> None:
        self.count = 0

    def on_event(self, _: Any) -> int:
        self.count += 1
        return self.count


class Parts(list[Any]):
    def part(self, index: int, count: int) -> Parts:
        return self


def flow_of(
    *,
    name: str = "counted",
    key: str = "machine",
    workers: int | None = None,
    readers: int = 1,
    extra: bool = False,
    total: bool = False,
    behind: int | bool | None = False,
    stage: str = "counted",
    aggregates: dict[str, Any] | None = None,
) -> Flow:
    flow = Flow(name)
    readings = flow.source(Parts(), name="readings", workers=readers)
    if extra:
        readings = readings.filter(bool, name="real")
    if aggregates is not None:
        counted = readings.key_by(key).aggregate(name=stage, workers=workers, **aggregates)
    else:
        counted = readings.key_by(key).stateful(
            Numbered, name=stage, workers=workers, any_order=True
        )
    if behind is not False:
        counted = counted.stateful(Numbered, name="behind", workers=behind, any_order=True)
    counted.sink(Collect(), name="out")
    if total:
        totals = readings.key_by(key).stateful(Numbered, name="total")
        totals.sink(Collect(), name="totals")
    return flow


def test_the_same_flow_fits_its_checkpoint(tmp_path: Path) -> None:
    keep_identity(identity_of(flow_of(), 2), Location.of(tmp_path / "new"))
    kept = kept_identity(Location.of(tmp_path / "new"))

    assert kept is not None
    found = differing(kept, identity_of(flow_of(), kept.nodes, pins_of(flow_of(), kept)))
    assert found.are_none
    assert found.kept == [
        "the position of the source of 'readings'",
        "the states by key of 'counted'",
        "the position of the sink of 'out'",
    ]


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"key": "place"}, "'counted' has states by key machine, and now it is by key place"),
    ({}, {"readers": 3}, "'readings' had 1 workers, and has 3: each had its own part of the s"),
    ({}, {"name": "another"}, "it is of the flow 'counted', not 'another'"),
    ({}, {"aggregates": {"n": Count()}}, "'counted' was stateful by key, and is aggregate by key"),
    (
        {"aggregates": {"n": Count()}},
        {"aggregates": {"n": Count(), "sum": Sum("x")}},
        "'counted' has states of n=Count, and now it is of n=Count, sum=Sum",
    ),
    ({"behind": 2}, {"behind": 3}, "'behind' had 2 workers, and has 3: each had its own state"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "said"), REFUSED)
def test_what_can_not_be_carried_over_is_refused_before_spark_is_started(
    before: dict[str, Any], after: dict[str, Any], said: str, tmp_path: Path
) -> None:
    keep_identity(identity_of(flow_of(**before), 2), Location.of(tmp_path / "kept"))
    there = sorted(path.name for path in (tmp_path / "kept").rglob("*"))

    with pytest.raises(FlowError, match="checkpoint of another version of this flow") as caught:
        stream_on_spark(flow_of(**after), checkpoints=tmp_path / "kept", nodes=2)

    assert said in str(caught.value)
    assert sorted(path.name for path in (tmp_path / "kept").rglob("*")) == there


ALLOWED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({}, {"extra": True}, "new", "the filter 'real'"),
    ({"extra": True}, {}, "changed", "the stage 'real' is gone"),
    ({}, {"total": True}, "new", "beginning empty: the stage 'total'"),
    ({"total": True}, {}, "dropped", "the states by key of 'total'"),
    ({"total": True}, {}, "dropped", "the position of the sink of 'totals'"),
    ({}, {"stage": "renamed"}, "dropped", "the states by key of 'counted'"),
    ({}, {"workers": 3}, "changed", "the stage 'counted' asks for another number of workers"),
]


@pytest.mark.parametrize(("before", "after", "where", "said"), ALLOWED)
def test_what_becomes_of_a_changed_flow_is_said(
    before: dict[str, Any], after: dict[str, Any], where: str, said: str
) -> None:
    kept, flow = identity_of(flow_of(**before), 2), flow_of(**after)

    found = differing(kept, identity_of(flow, 2, pins_of(flow, kept)))

    assert said in getattr(found, where)
    assert not found.refused


def test_other_nodes_code_and_errors_are_no_reason_to_refuse() -> None:
    old, new = flow_of(), flow_of()
    old.code, new.code = (("flows.py", "1"),), (("flows.py", "2"),)
    kept = identity_of(old, 2)

    found = differing(kept, identity_of(new, 4, pins_of(new, kept)))
    assert found.changed == ["it had 2 nodes, and has 4", "the file 'flows.py' has changed"]
    assert not found.refused
    new.code, new.on_error = old.code, "skip"
    found = differing(kept, identity_of(new, 2))
    assert found.changed == ["what its errors do, or its instructions, are not the same"]


def test_other_sources_beside_a_dataframe_are_refused() -> None:
    def flow(*names: str) -> Flow:
        made = Flow("frames")
        for name in names:
            made.source(DataFrameSource(lambda spark: spark.range(3)), name=name).sink(Collect())
        return made

    found = differing(identity_of(flow("one"), 2), identity_of(flow("one", "two"), 2))

    assert found.refused == [
        "its sources are not the same, and Spark keeps by itself how far DataFrames were read"
    ]


def commit_on(identity: Identity) -> Commit:
    states = {
        worker: [StateFile(f"file of {worker}", facts.stages)]
        for worker, facts in identity.workers.items()
    }
    return Commit(
        batch=7,
        sinks={"out.0": "", "out.1": "", "totals.0": ""},
        states=states,
        counts={"counted": (1, 1, 0), "total": (1, 1, 0)},
        offsets={"readings.0": "{}"},
    )


def heads(commit: Commit) -> dict[str, list[str]]:
    return {worker: [head.name for head in found] for worker, found in commit.states.items()}


def test_keys_go_to_other_workers_by_ranges_of_their_groups() -> None:
    kept, now = identity_of(flow_of(), 2), identity_of(flow_of(), 4)

    assert heads(carried(commit_on(kept), kept, now)) == {
        "counted.0": ["file of counted.0"],
        "counted.1": ["file of counted.0"],
        "counted.2": ["file of counted.1"],
        "counted.3": ["file of counted.1"],
    }
    assert heads(carried(commit_on(now), now, kept)) == {
        "counted.0": ["file of counted.0", "file of counted.1"],
        "counted.1": ["file of counted.2", "file of counted.3"],
    }


def test_sinks_and_states_without_keys_keep_their_number_of_workers() -> None:
    flow = flow_of(behind=None)
    kept = identity_of(flow, 2)

    now = identity_of(flow, 5, pins_of(flow, kept))

    assert now.stages["out"].count == now.stages["behind"].count == 2
    assert now.stages["counted"].count == 5
    assert not differing(kept, now).refused
    found = heads(carried(commit_on(kept), kept, now))
    assert found["behind.0"] == ["file of counted.0"]
    assert found["behind.1"] == ["file of counted.1"]
    assert found["counted.2"] == ["file of counted.0", "file of counted.1"]
    assert [stage.workers for stage in flow.stages] == [1, None, None, None]


def test_what_belongs_to_a_stage_that_is_gone_is_not_carried_over() -> None:
    old, new = flow_of(total=True), flow_of()
    kept, now = identity_of(old, 2), identity_of(new, 2)

    found = carried(commit_on(kept), kept, now)

    assert list(found.states) == ["counted.0", "counted.1"]
    assert list(found.sinks) == ["out.0", "out.1"]
    assert list(found.counts) == ["counted"]
    again = carried(found, now, kept)
    assert "total.0" not in again.states


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")

    with pytest.raises(FlowError, match="is no checkpoint of a stream, and is not empty"):
        stream_on_spark(flow_of(), checkpoints=tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text('{"format": 1, "flow": "counted"}')

    with pytest.raises(FlowError, match="its format is 1, and this Shunter writes 2"):
        stream_on_spark(flow_of(), checkpoints=tmp_path)
