"""The order that a user asks for behind `key_by`: by a time in the events. Pure.

Events of equal times go by what they are, written down in one canonical form, so that ties are
broken in the same way on every runner. Rules: docs/spec/flow.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.fields import Field, Getter, is_field
from shunter.flow.graph.source_line import users_line
from shunter.flow.graph.times import Number, Seconds, seconds_of, to_timestamp


@dataclass(frozen=True, slots=True)
class EventOrder:
    """`lateness` is how far events are held behind the watermark; None where nothing was said."""

    time: Getter
    lateness: Number | None = None

    def moment(self, event: Any) -> Number:
        """Return the time of an event; what can't be ordered raises."""
        moment = to_timestamp(self.time(event))
        if math.isnan(moment):
            raise ValueError("its time is nan, which is before and behind nothing; give it a time")
        return moment

    def moments(self, events: list[Any]) -> list[Number]:
        """Return the time of each event."""
        moments = list(map(to_timestamp, self.time.many(events)))
        if any(map(math.isnan, moments)):
            return list(map(self.moment, events))
        return moments

    def __str__(self) -> str:
        function = self.time.function
        return self.time.name or str(getattr(function, "__name__", type(function).__name__))


def event_order(order_by: Field | None, lateness: Seconds | None) -> EventOrder | None:
    """Return the order that a user has asked for, or raise a FlowError."""
    if order_by is None:
        if lateness is not None:
            raise FlowError(
                f"lateness is {lateness!r}, and there is no order_by for which events would be "
                "held; name the field with their time as well, as in order_by='at'",
                place=str(users_line()),
            )
        return None
    if not is_field(order_by):
        raise FlowError(
            f"order_by is {order_by!r}; name the field with an event's time, or pass a function "
            "of the event",
            place=str(users_line()),
        )
    if not lateness:  # not asked for, or none at all
        return EventOrder(Getter(order_by), None if lateness is None else 0)
    return EventOrder(Getter(order_by), seconds_of(lateness, "lateness"))
