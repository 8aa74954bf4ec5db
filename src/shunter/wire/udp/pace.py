"""How soon and how often one peer is sent a request again. Pure.

A request is sent again when its answer is overdue: three round trips after it was sent, as far as
those were measured, and no sooner than after SHORTEST_GAP. Only requests that were sent once are
measured; of one that was sent again nobody knows which copy was answered. A peer that answers
so late that every request is sent again would never be measured. So after some of these in a
row the first gap grows until an answer comes within it.

Resends are paid for. A peer has a small budget that fills by itself, and every answer adds to it:
one that answers is sent as much as a lossy network needs, one that does not answer is hardly
bothered, however many requests are under way to it.
"""

from __future__ import annotations

SHORTEST_GAP = 0.05
FIRST_GAP = 0.2
"""Before anything is known of a peer."""
LONGEST_FIRST_GAP = 0.5
"""However late a peer answered once: a lost packet must not cost seconds because of that."""
ROUND_TRIPS = 3.0
WEIGHT = 0.125
"""What one round trip counts for in the mean of all."""

UNMEASURED = 3
"""After so many answers in a row to requests that were sent again, the first gap grows."""
SLOWDOWN = 1.5
MOST_SLOWDOWN = 10.0

RESENDS_PER_SECOND = 50.0
RESENDS_PER_ANSWER = 4.0
MAX_RESENDS_AT_ONCE = 256.0
SHORTEST_WAIT = 0.001
"""No moment is so near that it is now again, as sums of fractions can be."""


class PeerPace:
    """What is known of one peer: its round trip, and how many resends it may be sent now."""

    __slots__ = ("_budget", "_refilled_at", "_round_trip", "_slowdown", "_slowed_at", "_unmeasured")

    def __init__(self, *, now: float) -> None:
        self._round_trip: float | None = None
        self._unmeasured = 0
        self._slowdown = 1.0
        self._slowed_at = now
        self._budget = MAX_RESENDS_AT_ONCE
        self._refilled_at = now

    @property
    def first_gap(self) -> float:
        """How long to wait for an answer before a request is sent for the second time."""
        if self._round_trip is None:
            gap = FIRST_GAP
        else:
            gap = max(SHORTEST_GAP, ROUND_TRIPS * self._round_trip)
        return min(gap * self._slowdown, LONGEST_FIRST_GAP)

    def answered(self, seconds: float, *, sends: int, now: float) -> None:
        """Note an answer, so long after the request was sent first, to one of so many copies."""
        self._refill(now, RESENDS_PER_ANSWER)
        if sends == 1:
            known = self._round_trip
            self._round_trip = seconds if known is None else known + (seconds - known) * WEIGHT
            self._unmeasured, self._slowdown = 0, 1.0
            return
        self._unmeasured += 1
        if self._unmeasured >= UNMEASURED and now - self._slowed_at >= self.first_gap:
            self._slowdown = min(self._slowdown * SLOWDOWN, MOST_SLOWDOWN)
            self._slowed_at = now

    def may_resend(self, *, now: float) -> bool:
        """Spend a resend, if there is one left."""
        self._refill(now, 0.0)
        if self._budget < 1.0:
            return False
        self._budget -= 1.0
        return True

    def next_resend_at(self, *, now: float) -> float:
        """Return when there will be a resend to spend, if no answer comes before."""
        self._refill(now, 0.0)
        return now + max((1.0 - self._budget) / RESENDS_PER_SECOND, SHORTEST_WAIT)

    def _refill(self, now: float, earned: float) -> None:
        filled = self._budget + earned + (now - self._refilled_at) * RESENDS_PER_SECOND
        self._budget = min(filled, MAX_RESENDS_AT_ONCE)
        self._refilled_at = now
