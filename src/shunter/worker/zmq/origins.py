"""Which dispatcher each job of a worker came from, until that dispatcher's side is done with it.

A job is at work, or reported and not yet confirmed, or given back in a message that no answer
has followed yet. All three count as held: in the store the job is still this worker's.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from shunter.worker.zmq.account import Account


class Origin(Struct, frozen=True, eq=False):
    """A dispatcher, as it was when it gave a job: behind an account there may be another now."""

    account: Account
    dispatcher_id: str


class _Returned(Struct, frozen=True, eq=False):
    """A job that was given back to the dispatcher of `account`, after this beat."""

    origin: Origin
    account: Account
    beat: int


class Origins:
    """The origins of all jobs that a worker has."""

    def __init__(self) -> None:
        self._at_work: dict[str, Origin] = {}
        self._reported: dict[str, Origin] = {}
        self._returned: list[_Returned] = []

    def of(self, job_id: str) -> Origin | None:
        return self._at_work.get(job_id) or self._reported.get(job_id)

    def took(self, job_ids: Iterable[str], account: Account) -> None:
        origin = Origin(account, account.dispatcher_id)
        self._at_work.update((job_id, origin) for job_id in job_ids)

    def reported(self, job_ids: Iterable[str]) -> None:
        """Runs have ended, and their reports wait to be confirmed."""
        for job_id in job_ids:
            if origin := self._at_work.pop(job_id, None):
                self._reported[job_id] = origin

    def confirmed(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self._reported.pop(job_id, None)

    def returned(self, job_ids: Iterable[str], account: Account, *, after: int) -> None:
        """Jobs were given back; who answers a beat later than `after` knows of it."""
        for job_id in job_ids:
            if origin := self._at_work.pop(job_id, None):
                self._returned.append(_Returned(origin, account, after))

    def answered(self, account: Account, beat: int) -> None:
        """A dispatcher knows all that it was sent before this beat."""
        if self._returned:
            self._returned = [
                r for r in self._returned if r.account is not account or r.beat >= beat
            ]

    def lost(self, account: Account) -> None:
        """What was sent to a dispatcher on its old connection may never have arrived."""
        self._returned = [r for r in self._returned if r.account is not account]

    def clear(self) -> None:
        self._at_work.clear()
        self._reported.clear()
        self._returned.clear()

    def stores(self) -> set[str]:
        """Return the stores of all jobs that are at work."""
        return {origin.account.store for origin in set(self._at_work.values())}

    def counts(self) -> Counter[str]:
        """Return how many jobs are held, by the id of the dispatcher that gave them."""
        by_origin = Counter(self._at_work.values())
        by_origin.update(self._reported.values())
        by_origin.update(returned.origin for returned in self._returned)
        counts: Counter[str] = Counter()
        for origin, number in by_origin.items():
            counts[origin.dispatcher_id] += number
        return counts
