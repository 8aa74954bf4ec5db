"""Events as bytes, and back as what they were."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.runtime import zones
from shunter.flow.runtime.codec import MIXED, PLAIN, EventCodec
from shunter.flow.runtime.states import saved_state, set_state


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


CODEC = EventCodec({"t:Reading": Reading, "t:Struct": Struct, "t:Pair": Pair, "t:Colour": Colour})


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


# ---- zones


INDIA = timezone(timedelta(hours=5, minutes=30))
ZONES = [INDIA, timezone(-timedelta(hours=3)), ZoneInfo("Europe/London"), ZoneInfo("Asia/Tokyo")]
moments = st.datetimes(
    datetime(1900, 1, 3), datetime(2200, 1, 1), timezones=st.sampled_from([*ZONES, UTC])
).map(
    lambda at: (at + timedelta()).astimezone(UTC).astimezone(at.tzinfo)
)  # none that no clock shows
plain = st.recursive(
    moments | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


class Stay(msgspec.Struct, frozen=True):
    arrived: datetime
    others: tuple[datetime, ...] = ()
    notes: dict[str, Any] = {}


@dataclass(frozen=True)
class Visit:
    at: datetime | None
    stays: list[Stay]


ZONED = EventCodec({"t:Stay": Stay, "t:Visit": Visit})
stays = st.builds(Stay, moments, st.lists(moments, max_size=2).map(tuple), st.just({}))
visits = st.builds(Visit, st.none() | moments, st.lists(stays, max_size=2))


@given(st.lists(plain) | st.lists(stays) | st.lists(visits) | st.lists(plain | visits | moments))
def test_times_keep_their_zones_wherever_they_are(events):
    back = ZONED.decode(*ZONED.encode(events))

    assert back == events
    assert repr(back) == repr(events)


@pytest.mark.parametrize("count", [1, 500])
def test_zones_are_seen_in_small_batches_and_large_ones_with_numpy_or_without(count, monkeypatch):
    at = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=INDIA)
    for moment in (at, at.replace(microsecond=0), at.replace(year=2900)):
        events = [{"n": -1, "f": 0.1 * n, "text": "ü" * 9} for n in range(count)] + [{"at": moment}]
        encoded = msgspec.msgpack.encode(events)

        assert zones.may_have_moments(encoded)
        assert zones._found_by_cutting(encoded)
        assert ZONED.decode(*ZONED.encode(events))[-1]["at"].utcoffset() == INDIA.utcoffset(None)


def test_what_has_no_times_or_only_some_in_utc_is_encoded_as_ever():
    events = [{"n": n, "at": datetime(2026, 1, 1, tzinfo=UTC)} for n in range(300)]

    assert ZONED.encode(events)[0] == PLAIN
    assert ZONED.encode([{"n": 1}])[0] == PLAIN


class Plain(msgspec.Struct):
    number: float
    note: str | None = None


class Open(msgspec.Struct):
    number: Any


def test_objects_whose_fields_are_plain_are_not_searched_though_their_bytes_look_like_times(
    monkeypatch,
):
    looks_like_one = struct.unpack(">d", b"\x40\xd6\xff\x00\x00\x00\x00\x00")[0]
    codec, at = EventCodec({"t:Plain": Plain, "t:Open": Open}), datetime(2026, 1, 1, tzinfo=INDIA)
    assert codec.encode([Open(looks_like_one), Open(at)])[0].startswith("@")
    monkeypatch.setattr(zones, "_find", lambda *_: pytest.fail("searched"))

    assert zones.may_have_moments(codec.encode([Plain(looks_like_one)])[1])


class Keeper:
    def __init__(self, at):
        self.at = [at]


class OwnKeeper(Keeper):
    def snapshot(self):
        return {"at": self.at}

    def restore(self, saved):
        self.at = saved["at"]


@pytest.mark.parametrize("kind", [Keeper, OwnKeeper])
@pytest.mark.parametrize("zone", [*ZONES, UTC], ids=str)
def test_states_keep_zones_in_a_checkpoint(kind, zone):
    first, second = kind(datetime(2026, 7, 1, tzinfo=zone)), kind(None)
    saved = saved_state(first, None)

    set_state(second, msgspec.msgpack.decode(msgspec.msgpack.encode(saved)))
    assert repr(second.at) == repr(first.at)
