"""What every source must do: what passes here is a source."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from conformance.sources.cases import CASES, ELSEWHERE, NO_SOURCES, SourceCase, places_of
from s3_server import s3_bucket, s3_server
from shunter import Flow
from shunter.errors import FlowError
from shunter.flow import sources
from shunter.flow.location import Location
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.sources.port import BadInput, WithBadInput
from shunter.flow.sources.splits import SplitSizes
from unit.flow.io_steps import carried

__all__ = ["s3_bucket", "s3_server"]

ROOT = Path(__file__).parents[3]
PLACES = [(name, place) for name in CASES for place in places_of(name)]


@pytest.fixture(params=PLACES, ids=lambda param: f"{param[0]} on {param[1]}")
def given(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[SourceCase, Any]:
    """A case, and a source of it."""
    name, place = request.param
    where = Location.of(tmp_path)
    if place == "s3":
        where = Location.of(request.getfixturevalue("s3_bucket")) / "inputs"
    return CASES[name], CASES[name].make(where)


def plain(events: list[Any]) -> list[Any]:
    """Show bad input as the cases do."""
    return [
        (event.where.rpartition("/")[2], event.raw) if isinstance(event, BadInput) else event
        for event in events
    ]


def read(source: Any, position: Any = None, limit: int = 1000) -> list[Any]:
    source.open(position)
    found: list[Any] = []
    while (some := source.read(limit)) is not None:
        assert len(some) <= limit
        assert isinstance(some, WithBadInput) or BadInput not in map(type, some)
        found += some
    source.close()
    return plain(found)


def test_it_is_read_to_the_end_and_once_more(given: tuple[SourceCase, Any]) -> None:
    case, source = given
    if case.source != "Ticks":
        assert read(source) == case.events
    assert read(source, limit=7) == case.events


def test_from_every_position_the_rest_is_read(given: tuple[SourceCase, Any]) -> None:
    case, source = given
    source.open(None)
    positions = [(0, carried(source.position()))]
    while (some := source.read(9)) is not None:
        positions.append((positions[-1][0] + len(some), carried(source.position())))
    source.close()

    assert positions[-1][0] == len(case.events)
    for count, position in positions:
        assert read(source, position, limit=11) == case.events[count:]


def test_parts_have_every_event_once(given: tuple[SourceCase, Any]) -> None:
    case, source = given
    if not hasattr(source, "part"):
        with pytest.raises(FlowError, match="can't be split"):
            Flow("parts").source(source, workers=2)
        return
    for count in (1, 2, 5):
        parts = [read(source.part(index, count)) for index in range(count)]
        found = [event for part in parts for event in part]
        assert sorted(map(repr, found)) == sorted(map(repr, case.events))


@pytest.mark.parametrize("most", [1, 300, 1 << 20])
def test_splits_have_every_event_once_in_order(
    given: tuple[SourceCase, Any], most: int, request: pytest.FixtureRequest
) -> None:
    case, source = given
    if not hasattr(source, "splits"):
        return
    if request.node.callspec.params["given"][1] == "s3":
        most = max(most, 200)  # a split for each byte is a request for each
    splits = source.splits(SplitSizes(most, 0, 4))

    assert len(splits) > 1 or most > 300
    found = [
        event for split in splits for event in read(source.at(pickle.loads(pickle.dumps(split))))
    ]
    assert found == case.events


def test_its_events_are_the_same_behind_the_codec(given: tuple[SourceCase, Any]) -> None:
    case, source = given
    events = read(source) if not case.has_bad else []
    codec = EventCodec(
        {type(event).__name__: type(event) for event in events if hasattr(event, "n")}
    )

    assert codec.decode(*codec.encode(events)) == events


def test_a_flow_gets_its_events_and_bad_ones_go_to_the_letters(
    given: tuple[SourceCase, Any],
) -> None:
    case, source = given
    found: list[Any] = []
    letters: list[Any] = []
    flow = Flow("read", on_error=letters.append)
    flow.source(source, name="read").sink(found.append)
    report = flow.run("local")

    is_bad = [isinstance(event, tuple) for event in case.events]
    assert found == [event for event, bad in zip(case.events, is_bad, strict=True) if not bad]
    expected = [event for event, bad in zip(case.events, is_bad, strict=True) if bad]
    assert [letter["event"] for letter in letters] == [raw for _, raw in expected]
    assert all(
        where in letter["error"] for (where, _), letter in zip(expected, letters, strict=True)
    )
    assert report["read"].failed == len(letters)
    assert report["read"].given == len(found)
    assert bool(letters) == case.has_bad


def test_bad_input_ends_a_run_by_default(given: tuple[SourceCase, Any]) -> None:
    case, source = given
    if not case.has_bad:
        return
    flow = Flow("read")
    flow.source(source, name="read").sink(print)
    first = next(event for event in case.events if isinstance(event, tuple))

    with pytest.raises(FlowError, match="stage 'read'") as caught:
        flow.run("local")
    assert first[0] in str(caught.value)


# ---- the list is whole, and so is the guide


def test_every_public_source_is_tested() -> None:
    tested = {case.source for case in CASES.values()}

    assert tested | ELSEWHERE.keys() == set(sources.__all__) - NO_SOURCES
    for where in ELSEWHERE.values():
        assert (ROOT / where).exists()


@pytest.mark.parametrize("name", sorted(set(sources.__all__) - NO_SOURCES))
def test_every_public_source_is_in_the_guide(name: str) -> None:
    pages = [(ROOT / "docs" / "guide" / page).read_text() for page in ("flows.md", "spark.md")]

    assert any(name in page for page in pages)
