"""What limits, rates and keys may be, and in which lane a job waits."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from shunter.model.job_limits import (
    JobLimits,
    Limit,
    Rate,
    key_faults,
    lanes_held,
    limit_faults,
    place_text,
    texts_between,
    total_text,
    totals_held,
)

GOOD = [
    JobLimits(limit=Limit(5)),
    JobLimits(limit=Limit(total=5)),
    JobLimits(limit=Limit(5, by="tenant")),
    JobLimits(limit=Limit(5, by="tenant", total=40), rate=Rate(60, per=60, by="tenant")),
    JobLimits(limit=Limit(5, by="tenant"), rate=Rate(60, per=60), fair="tenant"),
    JobLimits(fair="_a-1"),
]

BAD = {
    "limit": JobLimits(limit=Limit()),
    "limit.at_once": JobLimits(limit=Limit(0, by="tenant")),
    "limit.at_once ": JobLimits(limit=Limit("5")),  # type: ignore[arg-type]
    "limit.at_once  ": JobLimits(limit=Limit(True)),
    "limit.at_once   ": JobLimits(limit=Limit(by="tenant", total=5)),
    "limit.total": JobLimits(limit=Limit(5, by="tenant", total=100_001)),
    "limit.total ": JobLimits(limit=Limit(5, by="tenant", total=4)),
    "limit.by": JobLimits(limit=Limit(5, total=40)),
    "limit.by ": JobLimits(limit=Limit(5, by="the tenant")),
    "rate.count": JobLimits(rate=Rate(0)),
    "rate.per": JobLimits(rate=Rate(1, per=0.5)),
    "rate.per ": JobLimits(rate=Rate(1, per=float("nan"))),
    "rate.by": JobLimits(limit=Limit(5, by="tenant"), rate=Rate(60, by="user")),
    "fair": JobLimits(limit=Limit(5, by="tenant"), fair="user"),
    "fair ": JobLimits(fair=5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("limits", GOOD)
def test_what_is_sensible_is_accepted(limits: JobLimits) -> None:
    assert list(limit_faults(limits)) == []


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_is_refused_with_field_and_remedy(name: str) -> None:
    field, reason = next(iter(limit_faults(BAD[name])))

    assert field == name.strip()
    assert ";" in reason


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ("tenant", "keys"),
        ({f"k{n}": "v" for n in range(9)}, "keys"),
        ({"the key": "v"}, "keys"),
        ({"": "v"}, "keys"),
        ({5: "v"}, "keys"),
        ({"tenant": 5}, "keys.tenant"),
        ({"tenant": ""}, "keys.tenant"),
        ({"tenant": "x" * 257}, "keys.tenant"),
        ({"tenant": "a\nb"}, "keys.tenant"),
    ],
)
def test_bad_keys_are_refused_with_field_and_remedy(keys: object, field: str) -> None:
    found, reason = next(iter(key_faults(keys)))

    assert found == field
    assert ";" in reason


def test_keys_are_texts() -> None:
    assert list(key_faults({"tenant": "acme & sons, Zürich", "user": "x" * 256})) == []


def test_one_number_without_a_key_is_the_total() -> None:
    for limit in (Limit(5), Limit(total=5)):
        assert JobLimits(limit=limit).total == 5
        assert JobLimits(limit=limit).per_key is None
    both = JobLimits(limit=Limit(5, by="tenant", total=40))
    assert (both.per_key, both.total) == (5, 40)


def test_a_job_waits_in_the_lane_of_its_key() -> None:
    limits = JobLimits(fair="tenant")

    assert limits.lane({"tenant": "acme", "user": "u"}) == "tenant=acme"
    assert limits.lane({}) == "tenant="
    assert JobLimits(limit=Limit(5)).lane({"tenant": "acme"}) == ""
    assert limits.is_lane("tenant=acme")
    assert not limits.is_lane("tenants=acme")
    assert not JobLimits().is_lane("tenant=acme")


def test_names_of_places_can_be_read_back() -> None:
    texts = [place_text("a/b", "tenant=x 7 y", n) for n in (0, 12)]

    assert lanes_held("a/b", texts) == {"tenant=x 7 y": {0, 12}}
    assert totals_held("a/b", [total_text("a/b", 3)]) == {3}
    low, high = texts_between("a/b")
    assert all(low < text < high for text in texts)
    others = [place_text(kind, "", 1) for kind in ("a", "a/b/c", "a/bc", "a/b-", "a/b:")]
    assert not any(low < text < high for text in others)


@pytest.mark.parametrize("rate", [Rate(1, per=60), Rate(60, per=60), Rate(500, per=1), Rate(7, 3)])
def test_no_span_has_more_starts_than_the_rate(rate: Rate) -> None:
    """Whoever looks late catches up, within the rate; looks come at odd moments."""
    next_at, starts, now = 0.0, [], 1000.0
    for look in range(300):
        now += (0.0007, 0.013, 0.3, 0.61, rate.per / 3)[look % 5]
        while (after := rate.taken(next_at, now=now)) is not None:
            next_at = after
            starts.append(now)
    for begin in set(starts):
        in_span = bisect_left(starts, begin + rate.per) - bisect_left(starts, begin)
        assert in_span <= rate.count


def test_a_steady_queue_gets_nearly_all_of_the_rate() -> None:
    rate, next_at, starts, now = Rate(60, per=60), 0.0, [], 1000.0
    while now < 1600:
        now += 0.1
        while (after := rate.taken(next_at, now=now)) is not None:
            next_at = after
            starts.append(now)
    for minute in range(10):
        begin = 1000 + 60 * minute
        assert 59 <= sum(begin <= start < begin + 60 for start in starts) <= 60
