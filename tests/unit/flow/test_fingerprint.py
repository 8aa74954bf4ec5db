"""Two flows have one fingerprint if they are the same flow, in whatever process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shunter.flow.flow import Flow
from shunter.flow.graph.stages import Stage


def same(event: Any) -> Any:
    return event


class Sum:
    def on_event(self, event: Any) -> Any:
        return event


class Numbers:
    def read(self, limit: int) -> list[Any]:
        return []

    def part(self, index: int, count: int) -> Numbers:
        return self


def built(
    attach: Callable[[Stage], Any] = lambda stage: stage.key_by("a").stateful(Sum).sink(print),
    *,
    name: str = "example",
    workers: int = 1,
    source: str = "numbers",
    **options: Any,
) -> Flow:
    flow = Flow(name, **options)
    attach(flow.source(Numbers(), name=source, workers=workers))
    return flow


def sink_with_two_inputs(source: Stage) -> None:
    sink = source.key_by("a").stateful(Sum).sink(print)
    source.flow.connect(source, sink)


def with_code(*code: tuple[str, str]) -> Flow:
    flow = built()
    flow.code = code
    return flow


def test_a_flow_that_is_built_again_has_the_same_fingerprint() -> None:
    assert built().fingerprint() == built().fingerprint()


def test_a_fingerprint_never_changes_by_itself() -> None:
    assert built().fingerprint() == GOLDEN


def test_where_a_file_lies_makes_no_difference() -> None:
    flow = built()
    flow.file = "/somewhere/else.py"

    assert flow.fingerprint() == built().fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        built(name="other"),
        built(on_error="skip"),
        built(on_error=print),
        built(instructions=["day_ended"]),
        built(workers=2),
        built(source="letters"),
        built(lambda stage: stage.key_by("b").stateful(Sum).sink(print)),
        built(lambda stage: stage.key_by(0).stateful(Sum).sink(print)),
        built(lambda stage: stage.balanced().stateful(Sum).sink(print)),
        built(lambda stage: stage.stateful(Sum).sink(print)),
        built(lambda stage: stage.key_by("a").stateful(Sum, workers=2).sink(print)),
        built(lambda stage: stage.key_by("a").map(same, name="Sum").sink(print)),
        built(lambda stage: stage.key_by("a").stateful(Sum).map(same).sink(print)),
        built(sink_with_two_inputs),
        with_code(("flow.py", "1")),
    ],
)
def test_whatever_is_different_makes_a_difference(other: Flow) -> None:
    assert other.fingerprint() != built().fingerprint()


def test_other_code_makes_a_difference() -> None:
    assert with_code(("flow.py", "1")).fingerprint() != with_code(("flow.py", "2")).fingerprint()


def test_what_a_flow_is_attached_in_is_part_of_it() -> None:
    one = built(lambda stage: (stage.map(same), stage.sink(print)))
    two = built(lambda stage: stage.map(same).sink(print))

    assert one.fingerprint() != two.fingerprint()


GOLDEN = "2c75bd13231b0fa812599e325b450d6778b725a81b0187d681f99dc817981427"
