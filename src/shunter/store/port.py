"""The store's contract: what every store promises, and all that a dispatcher may rely on.

The store alone is authoritative. It decides nothing: jobs come to it as they are to be, and it
compares and swaps. Calls that are made in one turn of the loop may share one commit; a call
returns after its commit, never before. No call blocks the loop.
Each promise below is held by tests/conformance/store, which every store passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shunter.errors import JobRefused, UniqueKeyTaken
from shunter.model.job import Job, Status
from shunter.model.job_limits import JobLimits
from shunter.model.journal import JOURNAL_PAGE_BYTES, EntryKind, JournalEntry, JournalPage
from shunter.model.lifecycle import WorkerSlot
from shunter.model.limits_record import LaneCount
from shunter.model.place_guess import LaneLook, PlaceGuess
from shunter.model.presence import Presence
from shunter.model.record import Record, RecordKind
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome
from shunter.store.search import SearchableStore

CLAIM_BYTES = 16 << 20
"""How many bytes of payloads a claim takes, if nothing else is said."""


class Claim(Struct, frozen=True, kw_only=True):
    """A dispatcher's request for up to `limit` jobs of these types.

    Where it has `slots`, one for each job it could get, the jobs are started on them before
    the claim returns, and where the store can, by the same write. Once payloads of `most_bytes`
    are taken, no more jobs are: so a claim brings that much, and up to one job more.
    With `limits` there is one type, and its jobs are taken as those allow, lane by lane, beginning
    behind the lane `after`. Free places are looked for from the number `first` on. With a `guess`
    the places from there on are taken to be free, and only the lanes that it names are looked into,
    or those that are there now, where it is too old to know them.
    Without one, `is_roomy` says that the last look has found far more room than is wanted: a store
    may look before the rest of the batch has freed any.
    """

    dispatcher_id: str
    types: tuple[str, ...]
    limit: int
    now: float
    expiry: float
    slots: tuple[WorkerSlot, ...] = ()
    most_bytes: int = CLAIM_BYTES
    limits: JobLimits | None = None
    after: str | None = None
    first: int = 0
    guess: PlaceGuess | None = None
    is_roomy: bool = False

    @property
    def fresh_guess(self) -> PlaceGuess | None:
        """The guess, unless it is too old to know the lanes."""
        guess = self.guess
        return guess if guess is not None and guess.knows_lanes(self.now) else None


class JobQuery(Struct, frozen=True, kw_only=True):
    """Which jobs to list; newest first. `before` is the id of the last one already seen.

    With a `namespace` a job of another one is as good as not there, also as `before`.
    """

    status: Status | None = None
    type: str | None = None
    worker_id: str | None = None
    namespace: str | None = None
    run: str | None = None
    before: str | None = None
    limit: int = 50


class Backlog(Struct, frozen=True, kw_only=True):
    """How many jobs of one type have one status."""

    type: str
    status: Status
    count: int


class Batch(Struct, frozen=True, kw_only=True):
    """All that one turn of a dispatcher wants written.

    `otherwise` has, by their ids, the inserts that hold places under limits, as they are to be
    stored where such a place is another job's. `tells` is how many edges of parents that complete
    may be told at once (`Committed.told`). `may_hold` says that nobody else would start what that
    wakes: it may stay parked for a moment, to be queued and started by one write.
    """

    now: float
    inserts: Sequence[Job] = ()
    otherwise: Mapping[str, Job] = {}
    graphs: Sequence[JobGraph] = ()
    replacements: Sequence[Job] = ()
    deliveries: Sequence[Job] = ()
    outcomes: Sequence[JobEdge] = ()
    tells: int = 0
    may_hold: bool = False
    claims: Sequence[Claim] = ()
    workers: Sequence[Worker] = ()
    renewed: Sequence[str] = ()
    entries: Sequence[JournalEntry] = ()


class Committed(Struct, frozen=True, kw_only=True):
    """What became of a batch, each part in its order; by type, what claims with limits saw.

    `told` are the replacements whose dependents all know that they completed: they were written as
    having none. Of the types `woken` some were queued by that, or can be claimed all the same.
    """

    inserted: list[Job | UniqueKeyTaken]
    replaced: list[bool]
    delivered: list[bool]
    claimed: list[list[Job]]
    graphs: list[list[Job] | JobRefused] = []
    looks: dict[str, LaneLook] = {}
    entered: list[bool] = []
    told: frozenset[str] = frozenset()
    woken: frozenset[str] = frozenset()


class Store(SearchableStore, Protocol):
    """Jobs and workers, shared by all dispatchers."""

    async def open(self) -> None:
        """Make the store ready for use, creating or migrating its schema."""

    async def close(self) -> None:
        """Finish what was begun and let go of all resources."""

    async def commit(self, batch: Batch) -> Committed:
        """Write a batch by one commit: as if by put_workers, renew, replace, insert, claim.

        `deliveries` are ended jobs of which only the callback changed, or that has no dependents
        any more. They are compared and swapped like replacements, and after these, but only where
        the stored job is final; and only `callback`, `dependents` and `revision` are written,
        whatever else the job says.
        A graph is inserted behind the replacements, as a whole or not at all: where an id of it
        is taken, it is answered as `insert` does if all are there and the same, and refused else.
        Each parent from outside is to be there. It is written as one that has `dependents`, which
        raises its revision, whether it has ended or not; a child from outside is to be parked, and
        its revision is raised. `outcomes` are written into edges that have none.
        With `tells` a store that can write several jobs at once MAY tell the dependents of parents
        that complete, before any claim: their edges get the outcome, and parked jobs of which all
        parents have completed are queued, if nothing but status and revision changes in them. A
        parent with any other dependent that is to be decided on, or too many of them, stays due.
        `entries` come before all other writes. A run's are written only if the job is in
        progress with their attempt, and told as written only if it was so until they were: so
        whoever starts the next attempt finds them. One that is there already is replaced, unless
        it is a later attempt's. A signal is written while its job is under way, and the first one
        under its id stays. A copied step is written if its job is not there yet.
        After a StoreError it may be called again with the same object, and does what was not
        done; a store whose commits can be ambiguous recognises what was.
        """

    async def insert(self, jobs: Sequence[Job]) -> list[Job | UniqueKeyTaken]:
        """Commit new jobs; where id or unique key exist already, nothing is written.

        Unique keys are so within their namespace. The answer to each is the job now stored
        (itself, or the earlier one with the same namespace, type and payload), or the refusal
        where the earlier one differs (`model.uniqueness.answer_to`). Where that is a change of
        the earlier job, it is compared and swapped, its payload included, and decided anew if
        another write came first; this also takes its key from a job that is final.
        """

    async def claim(self, claim: Claim) -> list[Job]:
        """Move up to `limit` queued jobs to dispatching, and return them in the order of rank.

        They are the first by rank, but each type has a turn before any has a second one
        (`model.queue_order.favoured`), in the order in which the claim names them.
        No two claims ever get the same job. Jobs come with their payloads. With `slots` they
        move on to in progress, the n-th on the n-th slot.
        A claim without limits gets no job that waits in a lane. One with limits sorts what waits
        in none, or in one of another key, into lanes, and takes what `model.lane_claim.choose`
        says, in that order. Each job gets the places that it says; no two jobs under way ever
        have the same one (`limit_place` and `total_place` of `model.queue_order`), nor is a token
        taken twice.
        """

    async def replace(self, jobs: Sequence[Job]) -> list[bool]:
        """Compare and swap: write each job whose stored revision is the one before its own.

        A False says that another write came first, that the stored job is final, or that the
        new one's place (`model.queue_order.place`) is another job's. Payload and key stay as they
        are.
        """

    async def get(self, ids: Sequence[str], *, payload: bool = False) -> list[Job | None]:
        """Return the jobs with these ids and their results, None for each that is not there."""

    async def journal(
        self,
        job_id: str,
        kind: EntryKind,
        *,
        after: str = "",
        most_bytes: int = JOURNAL_PAGE_BYTES,
    ) -> JournalPage:
        """Return a job's entries of one kind by rising keys, from behind `after`."""

    async def revisions(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the revisions of those of these jobs that are there: the cheapest look."""

    async def find(self, query: JobQuery) -> list[Job]:
        """List jobs, newest first, without payloads and results.

        Nothing follows a `before` that is not there (any more).
        """

    async def held_by(self, worker_ids: Iterable[str]) -> list[Job]:
        """Return all jobs in progress on these workers, without payloads."""

    async def alarms(self, *, now: float, limit: int) -> list[Job]:
        """Return jobs under way whose alarm has come, the earliest first, without payloads."""

    async def due_callbacks(self, *, now: float, limit: int) -> list[Job]:
        """Return ended jobs whose callback is due, the earliest first, without their bytes.

        One with dependents is not among them. Apart from the alarms, because there may be many
        of them, and they may have to wait.
        """

    async def due_dependents(self, *, limit: int) -> list[Job]:
        """Return ended jobs with dependents, without their bytes."""

    async def dependents(
        self, parents: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        """Return edges of these parents by parent and child, from behind `after`."""

    async def parents(
        self, children: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        """Return edges of these children by child and parent, from behind `after`."""

    async def standings(self, children: Sequence[str]) -> dict[str, frozenset[ParentOutcome]]:
        """Return which outcomes the edges of each of these children have, however many."""

    async def overdue(self, *, now: float, limit: int) -> list[Job]:
        """Return queued jobs that no worker took in time, the earliest first, without payloads.

        Apart from the alarms: such a job can be claimed all the while.
        """

    async def next_alarm(self) -> float | None:
        """Return the time of the earliest alarm that is set, a callback's included."""

    async def backlog(self, *, is_ended: bool | None = None) -> list[Backlog]:
        """Count jobs by type and status: all at one moment, or those that have ended or have not.

        What has not ended costs as much as there is of it. To count all that has ended takes long
        in an old store; asked for alone, it is counted so that no other read has to wait for it.
        """

    async def oldest(self) -> dict[str, float]:
        """Return by type when the oldest job was created that could be claimed now."""

    async def lane_counts(self, *, limit: int) -> list[LaneCount]:
        """Count jobs by type and lane, those with the most jobs first."""

    async def purge(self, *, ended_before: float, limit: int) -> int:
        """Delete up to `limit` jobs that ended before then, and return how many it were.

        One that has yet to call back stays, and so does a parent of a job that has not ended.
        """

    async def put_workers(self, workers: Sequence[Worker]) -> None:
        """Write these worker records, each as a whole, whatever stood there."""

    async def renew(self, worker_ids: Iterable[str], *, now: float) -> None:
        """Record that these workers were heard from now, and are therefore not dead.

        Workers that are not there stay so.
        """

    async def workers(self, ids: Sequence[str] | None = None) -> list[Worker]:
        """Return these workers, or all of them, each with its jobs in progress.

        Of those jobs it has the ids, and the places of those that have one.
        """

    async def swap_workers(self, workers: Sequence[Worker]) -> list[bool]:
        """Compare and swap: write each worker whose stored revision is the one before its own.

        A worker that is not there has revision 0. None may be named twice in one call.
        """

    async def remove_workers(self, workers: Sequence[Worker]) -> None:
        """Forget these workers, except those whose revision is another by now."""

    async def meet(self, presence: Presence) -> list[Presence]:
        """Write that a dispatcher is here, and return all that were here in the last day."""

    async def records(
        self,
        kind: RecordKind,
        *,
        before: str | None = None,
        limit: int | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Record]:
        """Return records of one kind by falling names, at most `limit`, from behind `before`.

        With `names`, only those of these that are there.
        """

    async def swap_records(self, records: Sequence[Record]) -> list[bool]:
        """Compare and swap: write each record whose stored revision is the one before its own.

        A record that is not there has revision 0. One without a document is deleted, which
        counts as done if it was not there. None may be named twice in one call.
        """

    async def watch(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever others may have queued jobs, until cancelled.

        Returns at once where there can be no others.
        """
