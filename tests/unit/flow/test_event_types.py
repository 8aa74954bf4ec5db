"""Types of events that may go from process to process, and their names there."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from http import HTTPStatus
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

from shunter.errors import FlowError
from shunter.flow.flow import Flow


@dataclass(frozen=True)
class Reading:
    machine: str


class Change(msgspec.Struct):
    machine: str


class Pair(NamedTuple):
    one: int


class State(StrEnum):
    HOT = "hot"


class Plain:
    pass


class Unused(Enum):
    """It has no members, so there is nothing to send."""


def same(event: Any) -> Any:
    return event


@pytest.fixture
def elsewhere() -> Iterator[ModuleType]:
    module = ModuleType("elsewhere_events")
    code = (
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Far: x: int\n"
        "def work(event): return event\n"
        "class Keeper:\n    def on_event(self, event): ...\n"
    )
    sys.modules[module.__name__] = module
    exec(code, vars(module))
    yield module
    del sys.modules[module.__name__]


def types(build: Callable[[Any], Any] = lambda source: None, **options: Any) -> dict[str, type]:
    flow = Flow("example", **options)
    build(flow.source([1]))
    return flow.types


def test_the_types_of_the_flows_own_module_are_found() -> None:
    found = types()

    assert found["flow:Reading"] is Reading
    assert found["flow:Change"] is Change
    assert found["flow:Pair"] is Pair
    assert found["flow:State"] is State
    assert found["http:HTTPStatus"] is HTTPStatus
    assert set(found) == {
        "flow:Reading",
        "flow:Change",
        "flow:Pair",
        "flow:State",
        "http:HTTPStatus",
    }


@pytest.mark.parametrize(
    "attach",
    [
        lambda source, there: source.map(there.work),
        lambda source, there: source.map(functools.partial(functools.partial(there.work))),
        lambda source, there: source.stateful(there.Keeper),
        lambda source, there: source.key_by(there.work).map(same),
        lambda source, there: source.flow.source(there.work),
    ],
)
def test_types_are_found_wherever_a_function_or_class_of_the_flow_is(
    attach: Callable[[Any, ModuleType], Any], elsewhere: ModuleType
) -> None:
    found = types(lambda source: attach(source, elsewhere))

    assert found["elsewhere_events:Far"] is elsewhere.Far


def test_types_that_no_function_leads_to_are_not_there(elsewhere: ModuleType) -> None:
    assert "elsewhere_events:Far" not in types()


def test_types_can_be_given(elsewhere: ModuleType) -> None:
    @dataclass
    class Local:
        x: int

    found = types(types=[Local, elsewhere.Far])

    assert Local in found.values()
    assert found["elsewhere_events:Far"] is elsewhere.Far


def test_a_type_that_is_given_and_found_is_there_once() -> None:
    assert types(types=[Reading]) == types()


def test_two_types_of_one_name_are_refused() -> None:
    other = type("Reading", (), {"__module__": __name__})

    with pytest.raises(FlowError, match="two types of events are called flow:Reading; rename one"):
        types(types=[other])


def test_our_own_modules_are_not_searched() -> None:
    assert not any(name.startswith("shunter") for name in types(lambda s: s.key_by("x").map(same)))
