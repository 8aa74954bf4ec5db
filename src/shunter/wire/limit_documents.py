"""Limits as JSON documents. Pure. Spec: docs/spec/http.md."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shunter.model.job_limits import (
    KEY_NAME_RULE,
    MAX_PER_SECONDS,
    MAX_PLACES,
    MAX_RATE,
    MIN_PER_SECONDS,
    JobLimits,
    Limit,
    Rate,
)
from shunter.model.limits_record import TypeLimits
from shunter.wire.checked_documents import Document

Places = Annotated[int, Meta(ge=1, le=MAX_PLACES, description=f"a whole number, 1 to {MAX_PLACES}")]
Starts = Annotated[int, Meta(ge=1, le=MAX_RATE, description=f"a whole number, 1 to {MAX_RATE}")]
RateSpan = Annotated[
    float,
    Meta(
        ge=MIN_PER_SECONDS,
        le=MAX_PER_SECONDS,
        description=f"seconds, a number from {MIN_PER_SECONDS:g} to {MAX_PER_SECONDS:.0f}",
    ),
]
LaneKey = Annotated[
    str, Meta(pattern=r"^([A-Za-z_][A-Za-z0-9_-]{0,63})?\Z", description=KEY_NAME_RULE)
]


class PlacesDocument(Document, frozen=True, kw_only=True):
    """How many jobs run at once, for each value of the key `by`, and in `total`."""

    at_once: Places | None = None
    by: LaneKey = ""
    total: Places | None = None


class RateDocument(Document, frozen=True, kw_only=True):
    """How many jobs start in `per` seconds, for each value of the key `by`."""

    count: Starts
    per: RateSpan = 1.0
    by: LaneKey = ""


class LimitsRequest(Document, frozen=True, kw_only=True):
    """The limits of a type as they are to be; what is left out is not limited."""

    limit: PlacesDocument | None = None
    rate: RateDocument | None = None
    fair: LaneKey = ""

    def limits(self) -> JobLimits:
        """Return them as they count."""
        limit, rate = self.limit, self.rate
        return JobLimits(
            limit=None if limit is None else Limit(limit.at_once, limit.by, limit.total),
            rate=None if rate is None else Rate(rate.count, rate.per, rate.by),
            fair=self.fair,
        )


class LaneDocument(Document, frozen=True, kw_only=True):
    """How many jobs run and wait in a lane, such as `tenant=acme`."""

    lane: str
    running: int
    waiting: int


class LimitsDocument(Document, frozen=True, kw_only=True):
    """The limits of a type: those that count, those that its app declares, and who holds what."""

    type: str
    limits: LimitsRequest
    declared: LimitsRequest
    declared_by: str | None
    is_changed: bool
    lanes: tuple[LaneDocument, ...]


class LimitsList(Document, frozen=True, kw_only=True):
    """All types that are or were limited, by name."""

    types: tuple[LimitsDocument, ...]


def limits_document(shown: TypeLimits) -> LimitsDocument:
    """Describe the limits of a type."""
    return LimitsDocument(
        type=shown.type,
        limits=_described(shown.limits),
        declared=_described(shown.declared),
        declared_by=shown.declared_by or None,
        is_changed=shown.is_changed,
        lanes=tuple(
            LaneDocument(lane=it.lane, running=it.running, waiting=it.waiting) for it in shown.lanes
        ),
    )


def _described(limits: JobLimits) -> LimitsRequest:
    places, rate = None, None
    if (limit := limits.limit) is not None:
        places = PlacesDocument(at_once=limit.at_once, by=limit.by, total=limit.total)
    if (declared := limits.rate) is not None:
        rate = RateDocument(count=declared.count, per=declared.per, by=declared.by)
    return LimitsRequest(limit=places, rate=rate, fair=limits.fair)
