"""Events as bytes, and back as what they were."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.runtime.codec import MIXED, PLAIN, Codec


class Colour(Enum):
    RED = "red"


@dataclass
class Reading:
    machine: str
    degrees: float
    tags: tuple[str, ...] = ()
    colour: Colour = Colour.RED


class Struct(msgspec.Struct):
    at: datetime
    reading: Reading | None = None


class Pair(NamedTuple):
    left: int
    right: str


CODEC = Codec({"t:Reading": Reading, "t:Struct": Struct, "t:Pair": Pair, "t:Colour": Colour})


def there_and_back(events):
    return CODEC.decode(*CODEC.encode(events))


NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [1, -(2**63), 2**64 - 1, 1.5, None, True, "ü", b"\x00\xff"],
        [{"a": [1, {"b": None}]}, {1: 2}],
        [(1, "a"), (2, "b")],
        [{1, 2}, {3}],
        [frozenset({1})],
        [Reading("m", 1.5, ("a", "b"))],
        [Struct(NOW, Reading("m", 2.0))],
        [Pair(1, "x"), Pair(2, "y")],
        [Colour.RED],
        [NOW, datetime(2026, 1, 2)],
        [NOW.date()],
        [Decimal("1.50")],
        [UUID(int=7)],
        [1, "two", (3,), Reading("m", 4.0), Pair(5, "five"), None, Decimal(6), {"seven": 7}],
    ],
    ids=lambda events: "-".join(type(event).__name__ for event in events) or "none",
)
def test_events_come_back_as_they_were(events):
    back = there_and_back(events)

    assert back == events
    assert list(map(type, back)) == list(map(type, events))


def test_a_batch_of_one_type_names_it_once():
    assert CODEC.encode([1, "a"])[0] == PLAIN
    assert CODEC.encode([(1,), (2,)])[0] == "tuple"
    assert CODEC.encode([Pair(1, "a")])[0] == "t:Pair"
    assert CODEC.encode([1, (2,)])[0] == MIXED


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)  # fmt: skip


@given(st.lists(plain | st.tuples(plain, plain)))
def test_any_plain_events_and_tuples_of_them(events):
    assert there_and_back(events) == [
        tuple(event) if isinstance(event, tuple) else event for event in events
    ]


class Stranger:
    pass


@pytest.mark.parametrize(
    "events", [[Stranger()], [1, Stranger()], [object()]], ids=["alone", "mixed", "object"]
)
def test_a_type_that_the_flow_does_not_know_is_refused_with_a_remedy(events):
    with pytest.raises(FlowError, match=r"does not know; .*Flow\(types="):
        CODEC.encode(events)


def test_an_event_that_can_not_be_written_is_refused():
    with pytest.raises(FlowError, match="can't be sent to another process"):
        CODEC.encode([{"a": object()}])


@given(st.binary(), st.sampled_from(["", "*", "tuple", "t:Reading", "os:system"]))
def test_no_bytes_do_anything_but_decode_or_be_refused(body, kind):
    try:
        events = CODEC.decode(kind, body)
    except FlowError:
        return
    assert isinstance(events, list)
