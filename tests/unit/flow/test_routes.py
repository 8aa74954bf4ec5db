"""Keys of events, and how a route is written."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.graph.routes import BALANCED, LOCAL, TO_ALL, by_key
from shunter.flow.graph.stages import Stage

Pair = namedtuple("Pair", ["machine", "value"])


class Reading:
    machine = "m-1"


def numbers() -> Stage:
    return Flow("example").source([1, 2], name="numbers")


@pytest.mark.parametrize(
    ("key", "event"),
    [
        ("machine", {"machine": "m-1"}),
        ("machine", Pair("m-1", 3)),
        ("machine", Reading()),
        (0, ("m-1", 3)),
        (0, ["m-1"]),
        (lambda event: event.strip(), " m-1 "),
    ],
)
def test_a_key_is_a_field_a_position_or_a_function(key: Any, event: Any) -> None:
    route = by_key(key)

    assert route.key is not None
    assert route.key(event) == "m-1"
    assert route.keys_of([event, event]) == ["m-1", "m-1"]
    assert route.keys_of([]) == []


def test_events_of_several_types_have_keys_by_the_same_field() -> None:
    events = [{"machine": 1}, Pair(2, 0), {"machine": 3}, Reading()]

    assert by_key("machine").keys_of(events) == [1, 2, 3, "m-1"]
    assert by_key("machine").keys_of(events[::-1]) == ["m-1", 3, 2, 1]


@pytest.mark.parametrize(("event", "error"), [({}, KeyError), (3, AttributeError)])
def test_an_event_without_the_field_raises_what_python_raises(
    event: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        by_key("machine").keys_of([{"machine": 1}, event])


@pytest.mark.parametrize("key", [None, "", 1.5, True, ["machine"]])
def test_a_route_by_key_needs_a_key(key: Any) -> None:
    with pytest.raises(FlowError, match="has no key; pass a function") as caught:
        numbers().key_by(key)

    assert caught.value.stage == "numbers"
    assert caught.value.place.startswith(f"{__file__}:")


def test_a_route_says_how_it_was_written() -> None:
    routes = [LOCAL, BALANCED, TO_ALL, by_key("machine"), by_key(2), by_key(numbers), by_key(bool)]

    assert [str(route) for route in [*routes, by_key(lambda event: event)]] == [
        "local",
        "balanced",
        "to all",
        "by key machine",
        "by key [2]",
        "by key numbers",
        "by key bool",
        "by key a function",
    ]


def test_events_can_go_only_one_way_to_a_stage() -> None:
    with pytest.raises(FlowError, match="already go by key machine") as caught:
        numbers().key_by("machine").balanced()

    assert caught.value.stage == "numbers"
