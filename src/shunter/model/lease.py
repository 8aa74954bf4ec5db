"""Who may run a job, and until when.

A worker of ours holds all its jobs under one lease, which it renews with each heartbeat that a
dispatcher answers. It counts from the moment it *sent* that heartbeat, the dispatcher from the
later moment when it was stored, and the worker's span is the shorter one: so a worker that is
cut off has stopped its jobs before anybody may start them again. A worker that is stopped as a
whole (SIGSTOP, a frozen machine) can't do that; there only the attempt's fence protects.
Pure: `now` is always an argument. Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct


class LeaseTerms(Struct, frozen=True, kw_only=True):
    """The spans of a lease, in seconds."""

    heartbeat: float = 1.0
    worker_gives_up: float = 5.0
    kill_within: float = 2.0
    dispatcher_takes_over: float = 10.0

    def __post_init__(self) -> None:
        if self.worker_gives_up + self.kill_within >= self.dispatcher_takes_over:
            raise ValueError(
                "a worker must be done stopping its jobs before a dispatcher takes them over: "
                f"{self.worker_gives_up:g} + {self.kill_within:g} s is not less than "
                f"{self.dispatcher_takes_over:g} s"
            )


class WorkerLease:
    """The worker's side of its lease, over all the dispatchers it talks to.

    Dispatchers over one store share the lease: any of them renews it. A worker that serves
    several stores holds one for each.
    """

    def __init__(self, terms: LeaseTerms, *, now: float) -> None:
        self._terms = terms
        self._begun_at = now
        self._renewed_at: dict[str, float] = {}
        self._sent: dict[int, float] = {}
        self._next_beat = 0

    def sent(self, *, now: float) -> int:
        """Note a heartbeat and return the number that it must carry."""
        self._next_beat += 1
        self._sent[self._next_beat] = now
        horizon = now - self._terms.dispatcher_takes_over
        while self._sent and next(iter(self._sent.values())) < horizon:
            del self._sent[next(iter(self._sent))]
        return self._next_beat

    def answered(self, beat: int, store: str) -> None:
        """Note the answer to a heartbeat; an unknown or ancient number renews nothing."""
        sent_at = self._sent.pop(beat, None)
        if sent_at is not None:
            self._renewed_at[store] = max(self._renewed_at.get(store, 0.0), sent_at)

    def restart(self, *, now: float) -> None:
        """Begin anew, as an incarnation that holds no jobs."""
        self._begun_at = now
        self._renewed_at.clear()
        self._sent.clear()

    def ends_at(self, stores: Iterable[str]) -> float:
        """Return when the worker must stop its jobs, which are from these stores."""
        renewed_at = (self._renewed_at.get(store, self._begun_at) for store in stores)
        return min(renewed_at, default=math.inf) + self._terms.worker_gives_up

    def is_over(self, *, now: float, stores: Iterable[str]) -> bool:
        """True if the worker must stop its jobs, which are from these stores."""
        return now >= self.ends_at(stores)


def has_lapsed(last_heard: float, terms: LeaseTerms, *, now: float) -> bool:
    """True if a dispatcher may hand this worker's jobs to another."""
    return now - last_heard >= terms.dispatcher_takes_over
