"""The new jobs of a batch.

The server's unique indexes decide. Jobs that it refuses met an earlier one with their id or key;
which one, and whether it is the same job, is read afterwards. A job that carries our own stamp is
not an earlier one: it is this one, written by a try whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError

from shunter.errors import StoreError
from shunter.model.job import Job
from shunter.model.uniqueness import Answer, EarlierJobChange, answer_to, named_key
from shunter.store.mongo.blobs import Cutter, jobs_of, part_ids_of
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Body, Document, inserted
from shunter.store.mongo.faults import duplicates
from shunter.store.mongo.key_meeting import KeyMeeting

MOST_ROUNDS = 50
"""How often a job is offered again because the one that was in its way is gone, or was changed by
another dispatcher at the same moment."""

MOST_BYTES = 16 << 20
"""What is offered at once, so that it does not take long."""


class Insertions:
    """Inserts jobs. `answers` has what is stored now for each, once it is performed."""

    def __init__(
        self,
        jobs: Sequence[Job],
        otherwise: Mapping[str, Job],
        *,
        stamp: str,
        seqs: Iterator[int],
    ) -> None:
        self._jobs = list(jobs)
        self._otherwise = otherwise
        self._stamp = stamp
        self._cutter = Cutter()
        self._documents: list[RawBSONDocument] = []
        self._answers: dict[int, Answer] = {}
        self._bodies: dict[int, tuple[Body, Body]] = {}  # of those that may be stored otherwise
        self._given_up: dict[int, Job] = {}  # what was offered first of those that are
        for place, job in enumerate(jobs):
            own = self._stamp_of(place)
            payload = self._cutter.body(job.id, job.payload, f"{own}.payload")
            result = self._cutter.body(job.id, job.result, f"{own}.result")
            self._documents.append(
                inserted(job, seq=next(seqs), stamp=own, payload=payload, result=result)
            )
            if job.id in otherwise:
                self._bodies[place] = payload, result

    @property
    def answers(self) -> list[Answer]:
        return [self._answers[place] for place in range(len(self._jobs))]

    @property
    def is_done(self) -> bool:
        return len(self._answers) == len(self._jobs)

    async def perform(self, connection: MongoConnection) -> None:
        await self._cutter.write(connection)
        for _ in range(MOST_ROUNDS):
            for places in self._offers():
                refused = await connection.patiently(partial(self._offer, connection, places))
                accepted = set(places) - set(refused)
                self._answers |= {place: self._jobs[place] for place in accepted}
                if refused:
                    self._answers |= await self._earlier(connection, refused)
            if self.is_done:
                await self._discard_refused(connection)
                return
        raise StoreError(
            f"store {connection.name}: jobs that stand in the way of new ones vanish when looked "
            "at; see that nothing but Shunter writes there"
        )

    def _stamp_of(self, place: int) -> str:
        return f"{self._stamp}{place}"

    def _other_stamp_of(self, place: int) -> str:
        return f"{self._stamp}{place}.otherwise"

    def _offers(self) -> Iterator[list[int]]:
        """The places of what is not answered yet, in portions."""
        places: list[int] = []
        size = 0
        for place, document in enumerate(self._documents):
            if place in self._answers:
                continue
            places.append(place)
            size += len(document.raw)
            if size >= MOST_BYTES:
                yield places
                places, size = [], 0
        if places:
            yield places

    async def _offer(self, connection: MongoConnection, places: list[int]) -> list[int]:
        """Insert, and return the places of those that are refused."""
        documents = [self._documents[place] for place in places]
        try:
            await connection.jobs.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            return [places[at] for at in duplicates(error)]
        return []

    async def _earlier(self, connection: MongoConnection, refused: list[int]) -> dict[int, Answer]:
        """Answer jobs that were refused, but for those whose obstacle is gone again."""
        jobs = [self._jobs[place] for place in refused]
        keys = [job.unique_key for job in jobs if job.unique_key is not None]
        same: Document = {"_id": {"$in": [job.id for job in jobs]}}
        if keys:
            same = {"$or": [same, {"unique_key": {"$in": keys}}]}
        query = connection.jobs.find(same)
        documents = await connection.all_of(query)
        stamps = {document["_id"]: document["stamp"] for document in documents}
        parts = {document["_id"]: part_ids_of(document) for document in documents}
        stored = await jobs_of(connection, documents)
        by_id = {job.id: job for job in stored}
        by_key = {key: job for job in stored if (key := named_key(job)) is not None}
        answers: dict[int, Answer] = {}
        for place, job in zip(refused, jobs, strict=True):
            key = named_key(job)
            earlier = by_id.get(job.id) or (by_key.get(key) if key else None)
            if earlier is None:
                self._give_up_places(place, job)
                continue
            if stamps[earlier.id] == self._stamp_of(place):
                answers[place] = self._given_up.get(place, job)
                continue
            if stamps[earlier.id] == self._other_stamp_of(place):
                answers[place] = job
                continue
            answer = answer_to(job, earlier)
            if isinstance(answer, EarlierJobChange):
                stamp = f"{self._stamp_of(place)}.{earlier.revision}"
                change = KeyMeeting(answer, stamp=stamp, old_parts=parts[earlier.id])
                changed = await change.perform(connection, earlier)
                if changed is None:
                    continue
                answer = by_id[changed.id] = by_key[key] = changed  # type: ignore[index]
            answers[place] = answer
        return answers

    def _give_up_places(self, place: int, job: Job) -> None:
        """Offer a job without the places that it was to have: one of them is another's."""
        if place not in self._bodies or place in self._given_up:
            return
        payload, result = self._bodies[place]
        queued, seq = self._otherwise[job.id], self._documents[place]["seq"]
        own = self._other_stamp_of(place)
        self._documents[place] = inserted(
            queued, seq=seq, stamp=own, payload=payload, result=result
        )
        self._given_up[place], self._jobs[place] = job, queued

    async def _discard_refused(self, connection: MongoConnection) -> None:
        ours = {
            job.id
            for place, job in enumerate(self._jobs)
            if self._answers[place] is job or self._answers[place] is self._given_up.get(place)
        }
        refused = {job.id for job in self._jobs} - ours
        if refused:
            await connection.patiently(partial(self._cutter.discard, connection, refused))
