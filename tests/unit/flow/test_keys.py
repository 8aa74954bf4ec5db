"""A key belongs to the same worker everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from hashlib import blake2b
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.graph import keys
from shunter.flow.graph.keys import KeyPartitioner, stable_hash


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Side(StrEnum):
    LEFT = "left"


Point = namedtuple("Point", ["x", "y"])

GOLDEN = [
    (None, 14128761579221443928),
    (0, 10734006239897485896),
    (1, 65369308820478381),
    (-1, 12046828671236620177),
    (1.5, 12652105196760500661),
    (2**64, 14621875213800406955),
    ("machine-1", 9317334541700285648),
    ("Größe", 1056773597283276718),
    (b"machine-1", 3998350987962894142),
    (("a", 1, None), 1078149129073085898),
    (date(2024, 2, 29), 10396632398356580293),
    (datetime(2024, 2, 29, 12, 30), 7065454358809227091),
    (datetime(2024, 2, 29, 12, 30, tzinfo=UTC), 6724764716231040610),
    (UUID(int=7), 11654977539214373773),
    (Colour.RED, 11915555206071535237),
]

TIMES = st.datetimes(timezones=st.none() | st.timezones())
SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-8"))
    | st.binary()
    | st.dates()
    | TIMES
    | st.uuids()
    | st.sampled_from([Colour.RED, Level.HIGH, Side.LEFT])
)
KEYS = st.recursive(SIMPLE, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)

NUMBERS = st.booleans() | st.integers(-2, 3) | st.integers(-2, 3).map(float) | st.just(Level.HIGH)
LOOKALIKES = NUMBERS | st.tuples(NUMBERS) | st.builds(Point, NUMBERS, NUMBERS) | st.just((1, 1))


@pytest.mark.parametrize(("key", "expected"), GOLDEN)
def test_hashes_never_change(key: Any, expected: int) -> None:
    assert stable_hash(key) == expected


@given(st.text(st.characters(codec="utf-8")) | st.binary() | st.integers(-(2**63), 2**64 - 1))
def test_the_hash_of_a_simple_key_is_the_digest_of_its_msgpack(key: Any) -> None:
    digest = blake2b(msgspec.msgpack.encode(key), digest_size=8).digest()

    assert stable_hash(key) == int.from_bytes(digest, "big")


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_every_process_has_the_same_hashes(seed: str) -> None:
    code = (
        "from shunter.flow.graph.keys import stable_hash\n"
        "print([stable_hash(k) for k in ('machine-1', ('a', 1, None), 2**64, 1.5, b'x')])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    here = [stable_hash(key) for key in ("machine-1", ("a", 1, None), 2**64, 1.5, b"x")]
    assert done.stdout.strip() == str(here)


@pytest.mark.parametrize(
    "equals",
    [
        (1, True, 1.0),
        (0, False, -0.0, 0.0),
        (3, Level.HIGH, 3.0),
        (2**80, float(2**80)),
        ("left", Side.LEFT),
        ((1, 2), Point(1, 2), (True, 2.0)),
        (
            datetime(2024, 7, 1, 12, tzinfo=UTC),
            datetime(2024, 7, 1, 14, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 7, 1, 14, tzinfo=ZoneInfo("Europe/Berlin")),
        ),
        (datetime(2024, 10, 27, 2, 30), datetime(2024, 10, 27, 2, 30, fold=1)),
    ],
)
def test_equal_keys_have_equal_hashes(equals: tuple[Any, ...]) -> None:
    assert len({key == equals[0] for key in equals}) == 1
    assert len({stable_hash(key) for key in equals}) == 1


@given(LOOKALIKES, LOOKALIKES)
def test_keys_that_are_equal_in_python_are_equal_here(one: Any, two: Any) -> None:
    assert (stable_hash(one) == stable_hash(two)) == (one == two)


@given(KEYS)
def test_a_hash_has_64_bits(key: Any) -> None:
    assert 0 <= stable_hash(key) < 2**64


def test_keys_of_different_kinds_differ() -> None:
    moment = datetime(2024, 1, 1)
    alike = ["1", b"1", 1, (1,), None, "", (), moment, moment.date(), moment.replace(tzinfo=UTC)]

    assert len({stable_hash(key) for key in alike}) == len(alike)


@pytest.mark.parametrize("bound", [datetime.min, datetime.max, date.min, date.max])
@pytest.mark.parametrize("hours", [-12, 12])
def test_the_ends_of_the_calendar_are_keys_too(bound: Any, hours: int) -> None:
    if isinstance(bound, datetime):
        bound = bound.replace(tzinfo=timezone(timedelta(hours=hours)))

    assert stable_hash(bound) == stable_hash(bound)


@pytest.mark.parametrize("key", [[1], {"a": 1}, {1}, 1j, Decimal(1), object(), ("a", [1])])
def test_other_keys_are_refused_with_their_type(key: Any) -> None:
    kind = "list" if isinstance(key, tuple) else type(key).__name__

    for use in (
        stable_hash,
        KeyPartitioner(3).index,
        lambda key: KeyPartitioner(3).indexes(["a", key]),
    ):
        with pytest.raises(FlowError, match=f"of type {kind}; let it be text"):
            use(key)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(FlowError, match="half a character"):
        stable_hash("\ud800")


# ---- spreading


@given(st.lists(KEYS), st.integers(1, 9))
def test_a_spread_says_the_hash_modulo_workers(sample: list[Any], workers: int) -> None:
    spread = KeyPartitioner(workers)
    expected = [stable_hash(key) % workers for key in sample]

    assert spread.indexes(sample) == expected
    assert [spread.index(key) for key in sample] == expected


def test_keys_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Any] = []
    monkeypatch.setattr(keys, "stable_hash", lambda key: hashed.append(key) or 1)
    spread = KeyPartitioner(3)

    spread.indexes(["a", "b", "a", "a", "b"])
    spread.indexes(["b", "c"])

    assert hashed == ["a", "b", "c"]


def test_a_spread_stays_bounded_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MOST_KNOWN", 10)
    spread = KeyPartitioner(7)
    sample = list(range(95))

    assert spread.indexes(sample) == [stable_hash(key) % 7 for key in sample]
    assert len(spread._known) <= 10


@pytest.mark.parametrize("make", [str, int, "machine-{}".format, lambda n: (n, "x")])
def test_keys_are_spread_evenly(make: Any) -> None:
    counts = Counter(KeyPartitioner(4).indexes([make(number) for number in range(10_000)]))

    assert sorted(counts) == [0, 1, 2, 3]
    assert min(counts.values()) > 2_300
