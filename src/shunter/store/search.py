"""What people ask a store that keeps a million jobs: a page of them, and how much is waiting.

Every answer costs the same however many jobs there are: an index leads to it, or only so many
jobs are looked at, and the answer says how far that went. Each store keeps the promises below
(tests/conformance/store/test_store_search.py).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from shunter.model.job import Job, Status
from shunter.model.presence import Presence
from shunter.model.run_view import RunSummary as RunSummary

LOOKED_AT = 2000
"""How many jobs one call looks at, if nothing else is said."""

MOST_TYPES = 200
"""Of how many types the queues are looked into."""

COUNTED_OF_A_RUN = 1000
"""How many jobs of one run are counted."""


LANE_DEEP = 4
"""How many jobs of each other lane a look at the queue sees."""


class JobSearch(Struct, frozen=True, kw_only=True):
    """Which jobs to look for.

    Newest first; those in the queue in its order, and those that wait for a time (`is_delayed`) by
    when they may run. `text` is a part of what the error says, in any case of letters. With `key`
    it is the jobs that have this unique key, with `key_prefix` those whose key begins so, the last
    by their keys first; with `ids` those of these ids that are there, all at once. `after` is what
    the last answer said to go on with.
    """

    status: Status | None = None
    is_delayed: bool = False
    type: str | None = None
    worker_id: str | None = None
    namespace: str | None = None
    workflow: str | None = None
    run: str | None = None
    ids: tuple[str, ...] | None = None
    text: str | None = None
    key: str | None = None
    key_prefix: str | None = None
    created_from: float | None = None
    created_until: float | None = None
    after: str | None = None
    limit: int = 50
    most: int = LOOKED_AT

    @property
    def is_keyed(self) -> bool:
        return self.key is not None or self.key_prefix is not None

    @property
    def is_waiting(self) -> bool:
        """True if the queue itself is looked at, in its order."""
        return self.status is Status.QUEUED and not self.is_delayed and not self.is_of_few

    @property
    def is_delayed_line(self) -> bool:
        """True if what waits for a time is looked at, by that time."""
        return self.status is Status.QUEUED and self.is_delayed and not self.is_of_few

    @property
    def is_of_few(self) -> bool:
        """True if ids or a run lead to the jobs, whatever their status is."""
        return self.ids is not None or self.run is not None

    def holds(self, job: Job) -> bool:
        """True if a job is one of those that are looked for, wherever it stands."""
        said = "" if job.error is None else f"{job.error.kind}: {job.error.message}"
        return (
            self.status in (None, job.status)
            and (
                self.status is not Status.QUEUED or self.is_delayed == (job.wait_until is not None)
            )
            and self.type in (None, job.type)
            and self.worker_id in (None, job.execution.worker_id)
            and self.namespace in (None, job.namespace)
            and self.workflow in (None, job.workflow)
            and self.run in (None, job.run)
            and (self.ids is None or job.id in self.ids)
            and (self.text is None or self.text.lower() in said.lower())
            and self.key in (None, job.unique_key)
            and (self.key_prefix is None or (job.unique_key or "").startswith(self.key_prefix))
            and (self.created_from is None or job.created >= self.created_from)
            and (self.created_until is None or job.created < self.created_until)
        )


class JobsSeen(Struct, frozen=True, kw_only=True):
    """Jobs that were found, without payloads and results.

    `next` is what to go on after; None says that there are no more. `until` is when the last job
    was created that was looked at, where not all were.
    """

    jobs: list[Job]
    next: str | None = None
    until: float | None = None


class QueueDepth(Struct, frozen=True, kw_only=True):
    """How many jobs of a type have not ended: in the queue, waiting for a time, under way, parked.

    `oldest` is when the job was created that is at the front of the queue.
    """

    type: str
    waiting: int = 0
    delayed: int = 0
    running: int = 0
    parked: int = 0
    oldest: float | None = None


class QueueLook(Struct, frozen=True, kw_only=True):
    """What a claim would see around one job that has not ended.

    `ahead` is how many jobs wait before it in the queue of its type, or in its lane; `before` are
    the first of them, and `heads` the first LANE_DEEP ones of other lanes, of those whose very
    first was to go first. `held` is how many places are
    taken of each lane, `total_held` of the type, and `holders` are some of the jobs that have them,
    those of its own lane first. All without payloads and results.
    """

    ahead: int = 0
    before: list[Job] = []
    heads: list[Job] = []
    held: dict[str, int] = {}
    total_held: int = 0
    holders: list[Job] = []


class RunSearch(Struct, frozen=True, kw_only=True):
    """Which runs of workflows to list, by falling ids: of those that Shunter made, newest first.

    With a `namespace` a job of another one is as good as not there. `after` is what the last
    answer said to go on with. The answer ends early once `most` jobs were looked at.
    """

    namespace: str | None = None
    workflow: str | None = None
    after: str | None = None
    limit: int = 50
    most: int = 20 * COUNTED_OF_A_RUN


class RunsSeen(Struct, frozen=True, kw_only=True):
    """Runs that were found; `next` is what to go on after, None says that there are no more."""

    runs: list[RunSummary]
    next: str | None = None


class SearchableStore(Protocol):
    """What a store answers to people."""

    async def search(self, wanted: JobSearch) -> JobsSeen:
        """List jobs without looking at more than `most` of them."""

    async def depths(self, *, most: int) -> list[QueueDepth]:
        """Count jobs that have not ended by type, each queue no further than `most`."""

    async def queue_look(self, job: Job, *, most: int, deep: int) -> QueueLook:
        """Look at what is around a job: count up to `most`, and list up to `deep` jobs or lanes.

        It need not be in the queue: then all that wait in its lane would go before it by rank.
        """

    async def runs(self, wanted: RunSearch) -> RunsSeen:
        """List runs of workflows; a page costs the same however many runs there are."""

    async def presences(self) -> list[Presence]:
        """Return the dispatchers that were here in the last day, by their ids."""
