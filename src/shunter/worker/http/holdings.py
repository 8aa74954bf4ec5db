"""Which runs are here, and so what a dispatcher that offers, asks about or stops one is told.

A run is under way, then unconfirmed until a dispatcher has taken its report, then past. A job is
never started twice with one attempt, whichever of these it is.
Pure. Spec: docs/spec/http-workers.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from shunter.model.report import Held

UNCONFIRMED_PER_SLOT = 4
"""With so many reports waiting, dispatchers reach us and we don't reach them: take no more."""

REMEMBERED = 4096


class Reply(Enum):
    """What to do with a job that was offered."""

    START = "start it"
    KNOWN = "it is or was here: say so again, and start nothing"
    UNKNOWN_TYPE = "no handler does it"
    MISDIRECTED = "it is for another worker"
    OUTDATED = "a later run of the job is or was here"
    SUPERSEDES = "an earlier run of the job is still here: stop that first"
    CLOSED = "this worker takes nothing any more, or not yet"
    FULL = "there is no room"


class RunOffer(Struct, frozen=True, kw_only=True):
    """A run of a job, offered to the worker that dispatchers know by this id."""

    job_id: str
    attempt: int
    type: str
    worker_id: str
    secret: str = ""

    @property
    def run(self) -> Held:
        return Held(self.job_id, self.attempt)


class Holdings:
    """What one worker has; `closed` says why it takes nothing, where it does not."""

    def __init__(self, types: Sequence[str], max_jobs: int) -> None:
        self.types, self.max_jobs = types, max_jobs
        self.worker_id: str | None = None
        self.closed = ""
        self._under_way: dict[str, RunOffer] = {}
        self._superseded: set[Held] = set()
        self._unconfirmed: set[Held] = set()
        self._past: dict[str, int] = {}

    @property
    def under_way(self) -> int:
        """How many jobs run, or are about to."""
        return len(self._under_way)

    def offered(self, offer: RunOffer) -> Reply:
        """Decide on a job; where the answer is START, it is under way from now on."""
        reply = self._decided(offer)
        if reply is Reply.START:
            self._under_way[offer.job_id] = offer
        elif reply is Reply.SUPERSEDES:
            self._superseded.add(self._under_way[offer.job_id].run)
        return reply

    def _decided(self, offer: RunOffer) -> Reply:
        newest = self._newest_attempt(offer.job_id)
        if offer.type not in self.types:
            return Reply.UNKNOWN_TYPE
        if self.worker_id not in (None, offer.worker_id):
            return Reply.MISDIRECTED
        if offer.attempt <= newest:
            return Reply.KNOWN if offer.attempt == newest else Reply.OUTDATED
        if offer.job_id in self._under_way:
            return Reply.SUPERSEDES
        if self.closed:
            return Reply.CLOSED
        is_unheard = len(self._unconfirmed) >= UNCONFIRMED_PER_SLOT * self.max_jobs
        is_full = self.under_way >= self.max_jobs or is_unheard
        return Reply.FULL if is_full else Reply.START

    def ended(self, run: Held) -> RunOffer | None:
        """A run has ended; return as what it was offered, or None where nobody wants to know."""
        offer = self._under_way.get(run.job_id)
        if offer is None or offer.run != run:
            return None
        del self._under_way[run.job_id]
        if run in self._superseded:
            self._superseded.discard(run)
            self._remember(run)
            return None
        self._unconfirmed.add(run)
        return offer

    def confirmed(self, run: Held) -> None:
        """A dispatcher has taken the report, or refused it for good."""
        if run in self._unconfirmed:
            self._unconfirmed.discard(run)
            self._remember(run)

    def offer_of(self, run: Held) -> RunOffer | None:
        """Return as what a run was offered that is under way."""
        offer = self._under_way.get(run.job_id)
        return offer if offer is not None and offer.run == run else None

    def has(self, job_id: str, attempt: int | None) -> bool:
        """True if a run (any, where no attempt is named) is here and not yet confirmed."""
        return any(run.job_id == job_id and attempt in (None, run.attempt) for run in self._runs())

    def run_of(self, job_id: str, attempt: int | None = None) -> Held | None:
        """Return the run that is under way and can be stopped."""
        offer = self._under_way.get(job_id)
        return offer.run if offer and attempt in (None, offer.attempt) else None

    def clear(self) -> list[Held]:
        """All that was here has been stopped and dropped; return it."""
        runs = list(self._runs())
        for run in runs:
            self._remember(run)
        self._under_way.clear()
        self._superseded.clear()
        self._unconfirmed.clear()
        return runs

    def _runs(self) -> Iterator[Held]:
        yield from (offer.run for offer in self._under_way.values())
        yield from self._unconfirmed

    def _newest_attempt(self, job_id: str) -> int:
        attempts = [run.attempt for run in self._runs() if run.job_id == job_id]
        return max([*attempts, self._past.get(job_id, -1)])

    def _remember(self, run: Held) -> None:
        self._past[run.job_id] = max(run.attempt, self._past.pop(run.job_id, -1))
        if len(self._past) > REMEMBERED:
            del self._past[next(iter(self._past))]
