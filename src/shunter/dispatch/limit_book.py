"""Which types are limited, and how, as far as one dispatcher knows. Pure.

Workers declare limits when they come; what others declared, and what people changed, is read from
the store every second. A type that was ever limited has a record, so that its jobs are found in
their lanes also after its limits are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from shunter.model.job import Job
from shunter.model.job_limits import JobLimits
from shunter.model.lane_claim import LANES_AT_ONCE, LanePlace
from shunter.model.limits_record import LimitsRecord
from shunter.model.place_guess import LaneLook, PlaceGuess, PlaceGuesses
from shunter.model.worker import Worker

MOST_NOTICES = 100
MOST_TOLD = 10_000


class LimitsNotice(Struct, frozen=True):
    """That two workers declare different limits, and which of them count."""

    text: str
    workers: tuple[str, str]


class LimitBook:
    """The limits of all types, and where claims under them go on.

    `first_place` is where its numbers of places begin.
    """

    def __init__(self, *, first_place: int = 0) -> None:
        self._guesses = PlaceGuesses(first_place)
        self._unhindered: set[str] = set()  # types of which no job waits for a place or a token
        self._arrived: dict[str, set[str]] = {}  # lanes into which jobs have come since a look
        self._records: dict[str, LimitsRecord] = {}
        self._unwritten: dict[str, LimitsRecord] = {}
        self._after: dict[str, str | None] = {}
        self._due: dict[str, float] = {}
        self._told: set[tuple[str, frozenset[str]]] = set()
        self._notices: list[LimitsNotice] = []

    def of(self, job_type: str) -> JobLimits | None:
        """Return the limits that count, or None for a type that never had any."""
        record = self._records.get(job_type)
        return None if record is None else record.limits

    def after(self, job_type: str) -> str | None:
        """Return behind which lane the next claim begins."""
        return self._after.get(job_type)

    def declare(self, worker: Worker) -> None:
        """Take over what a worker declares; only our own workers can."""
        if not worker.kind.traits.declares_limits:
            return
        for handler in worker.handlers:
            known = self._records.get(handler.type)
            if known is None and handler.limits is None:
                continue
            declared = handler.limits or JobLimits()
            before = known or LimitsRecord()
            now = before.declares(declared, worker_id=worker.id, started=worker.started)
            if now is not before:
                self._records[handler.type] = self._unwritten[handler.type] = now
            if before.declared_by and declared != before.declared:
                self._tell(handler.type, worker.id, before.declared_by, counts=now.declared_by)

    def _tell(self, job_type: str, worker_id: str, other_id: str, *, counts: str) -> None:
        """Note, once, that two workers declare different limits, and whose count."""
        pair = job_type, frozenset({worker_id, other_id})
        if pair in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told.add(pair)
        text = (
            f"{job_type}: worker {worker_id} declares other limits than {other_id}; those of "
            f"{counts}, which was started later, count; run the same app on all workers of this "
            "type"
        )
        notice = LimitsNotice(text, (worker_id, other_id))
        self._notices = [*self._notices[-MOST_NOTICES + 1 :], notice]

    def take_notices(self) -> list[LimitsNotice]:
        """Return what people should hear of, once."""
        notices, self._notices = self._notices, []
        return notices

    def learn(self, records: Mapping[str, LimitsRecord]) -> set[str]:
        """Take over what the store says; return the types whose limits are others now."""
        changed = set[str]()
        for job_type, stored in records.items():
            mine = self._unwritten.get(job_type)
            if mine is not None:
                now = stored.declares(
                    mine.declared, worker_id=mine.declared_by, started=mine.started
                )
                if stored.declared_by and stored.declared != mine.declared:
                    others = mine.declared_by, stored.declared_by
                    self._tell(job_type, *others, counts=now.declared_by)
                if now is stored:
                    del self._unwritten[job_type]
                else:
                    self._unwritten[job_type] = stored = now
            known = self._records.get(job_type)
            if known is None or known.limits != stored.limits:
                changed.add(job_type)
            self._records[job_type] = stored
        return changed

    @property
    def unwritten(self) -> Mapping[str, LimitsRecord]:
        """What workers here have declared, and the store does not know yet."""
        return self._unwritten

    def first_place(self, job_type: str) -> int:
        """Return the number of the place from which on the next claim looks for free ones."""
        return self._guesses.first(job_type)

    def guess(
        self, job_type: str, limits: JobLimits, *, wanted: int, now: float
    ) -> PlaceGuess | None:
        """Return what a claim may go by without a look at all places, or None."""
        if lanes := self._arrived.pop(job_type, None):
            self._guesses.queued(job_type, lanes)
        return self._guesses.of(job_type, limits, wanted=wanted, now=now)

    def is_roomy(self, job_type: str, limits: JobLimits, *, wanted: int) -> bool:
        """True if a claim may look before the turn's other writes have freed any place."""
        return self._guesses.is_roomy(job_type, limits, wanted=wanted)

    def lane(self, job: Job) -> str | None:
        """Return the lane in which a job waits, or None for a type that never had limits."""
        record = self._records.get(job.type)
        return None if record is None else record.limits.lane(job.keys)

    def take_place(self, job: Job, *, running: int) -> LanePlace | None:
        """Give places to a new job that may start at once; None if a claim has to look."""
        limits, lane = self._records[job.type].limits, job.lane or ""
        place = self._guesses.take(job.type, limits, lane, running=running)
        if place is not None and limits.fair:
            self._after[job.type] = lane  # that was its turn
        return place

    def queued(self, job: Job) -> None:
        """Note that a job has come into its lane."""
        lane, lanes = job.lane, self._arrived.get(job.type)
        if lane is None:
            return
        if lanes is None:
            self._arrived[job.type] = {lane}
        elif len(lanes) < LANES_AT_ONCE:  # beyond that, claims look
            lanes.add(lane)

    def lost_place(self, job_type: str) -> None:
        """Note that a place was another job's."""
        self._guesses.forget(job_type)
        self._unhindered.discard(job_type)

    def left_place(self, job_type: str) -> None:
        """Note that a job that ran here has left its places."""
        self._guesses.left(job_type)

    def is_held_back(self, job_type: str) -> bool:
        """True if a job of this type may be waiting for a place that another leaves."""
        return job_type not in self._unhindered

    def saw(self, job_type: str, look: LaneLook, *, started: int) -> None:
        """Note what a claim has seen; `started` is how many jobs it has started."""
        if not look.is_empty:
            self._guesses.saw(job_type, look.guess, started=started)
        (self._unhindered.discard if look.is_held_back else self._unhindered.add)(job_type)
        self._after[job_type] = look.after
        if look.due is None:
            self._due.pop(job_type, None)
        else:
            self._due[job_type] = look.due

    @property
    def next_due(self) -> float | None:
        """When the first token comes for which a job waits."""
        return min(self._due.values(), default=None)

    def due(self, *, now: float) -> set[str]:
        """Return the types for which a token has come."""
        return {job_type for job_type, at in self._due.items() if at <= now}

    def had_due(self, job_types: Iterable[str]) -> None:
        """Note that these types are going to be looked at."""
        for job_type in job_types:
            self._due.pop(job_type, None)
