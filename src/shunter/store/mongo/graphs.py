"""The graphs of a batch: each is one transaction of the server, and nothing else here is.

All other writes stand for themselves. A graph must not be there by halves: a job whose parents are
missing would wait for ever, or not at all. So its jobs and edges, and the marks on parents that
were stored before, come together or not at all. A transaction whose answer was lost is done
again, and knows its own jobs by their stamps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from shunter.errors import JobRefused
from shunter.model.job import FINAL, Job
from shunter.model.queue_order import AT_ONCE
from shunter.model.workflow import JobEdge, JobGraph, answer_to_graph
from shunter.store.mongo.blobs import Cutter, jobs_of
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, inserted
from shunter.store.mongo.edges import edge_document
from shunter.store.mongo.inline_edges import MOST_PARENTS, after_of

GRAPH_SECONDS = 30.0
"""How long one transaction may take; the server ends one after a minute."""

MOST_CONFLICTS = 20
"""How often a transaction is begun again because it met other writes."""

Planted = list[Job] | JobRefused


class Graphs:
    """Inserts graphs. `answers` has what is stored now for each, once it is performed."""

    def __init__(self, graphs: Sequence[JobGraph], *, stamp: str, seqs: Iterator[int]) -> None:
        self.answers: list[Planted] = []
        self._left = [
            _GraphWrite(graph, stamp=f"{stamp}{at}", seqs=seqs) for at, graph in enumerate(graphs)
        ]

    @property
    def is_done(self) -> bool:
        return not self._left

    async def perform(self, connection: MongoConnection) -> None:
        while self._left:
            self.answers.append(await self._left[0].perform(connection))
            del self._left[0]


class _GraphWrite:
    def __init__(self, graph: JobGraph, *, stamp: str, seqs: Iterator[int]) -> None:
        self._graph, self._stamp = graph, stamp
        self._cutter = Cutter()
        after = _few_parents(graph)
        self._jobs = [
            inserted(
                job,
                seq=next(seqs),
                stamp=stamp,
                payload=self._cutter.body(job.id, job.payload, f"{stamp}.{job.id}.payload"),
                result=None,
                after=after_of(after[job.id]) if job.id in after else None,
            )
            for job in graph.jobs
        ]
        self._edges = [edge_document(edge) for edge in graph.edges if edge.child not in after]

    async def perform(self, connection: MongoConnection) -> Planted:
        await self._cutter.write(connection)
        answer = await connection.patiently(
            partial(self._transaction, connection), attempt=GRAPH_SECONDS
        )
        if isinstance(answer, JobRefused) or answer[:1] != list(self._graph.jobs[:1]):
            refused = {job.id for job in self._graph.jobs}
            await connection.patiently(partial(self._cutter.discard, connection, refused))
        return answer

    async def _transaction(self, connection: MongoConnection) -> Planted:
        """Write all of it; begin again where another write came between."""
        for conflicts in range(MOST_CONFLICTS):
            async with connection.client.start_session() as session:
                try:
                    async with await session.start_transaction(
                        read_concern=ReadConcern("snapshot"),
                        write_concern=WriteConcern(w="majority", j=True),
                    ):
                        return await self._write(connection, session)
                except PyMongoError as error:
                    is_passing = isinstance(error, OperationFailure) and error.has_error_label(
                        "TransientTransactionError"
                    )
                    if not is_passing or conflicts == MOST_CONFLICTS - 1:
                        raise
        raise AssertionError("the last conflict is raised")

    async def _write(self, connection: MongoConnection, session: AsyncClientSession) -> Planted:
        graph, jobs = self._graph, connection.jobs
        ids = [job.id for job in graph.jobs]
        near = {"_id": {"$gte": min(ids), "$lte": max(ids)}}
        is_any_near = await jobs.find_one(near, {"_id": True}, session=session) is not None
        wanted = {"_id": {"$in": ids}}
        there = await jobs.find(wanted, session=session).to_list() if is_any_near else []
        if there:
            if len(there) == len(ids) and all(it["stamp"] == self._stamp for it in there):
                return list(graph.jobs)
            stored = await jobs_of(connection, there)
            return answer_to_graph(graph, {job.id: job for job in stored})
        if outside := graph.outside:
            found = await jobs.find(
                {"_id": {"$in": outside}}, {"payload": False, "result": False}, session=session
            ).to_list()
            known = {job.id: job for job in await jobs_of(connection, found)}
            if (refusal := graph.refusal(known)) is not None:
                return refusal
            parents, children = graph.parents, {edge["child"] for edge in self._edges}
            for job in known.values():
                change = _attached(job, is_parent=job.id in parents, is_child=job.id in children)
                await jobs.update_one({"_id": job.id}, change, session=session)
        if self._jobs:
            await jobs.insert_many(self._jobs, session=session)
        if self._edges:
            names = {edge["_id"] for edge in self._edges}
            old = connection.edges.find(
                {"_id": {"$in": list(names)}}, {"_id": True}, session=session
            )
            names -= {edge["_id"] for edge in await old.to_list()} if outside else set()
            new = [edge for edge in self._edges if edge["_id"] in names]
            if new:
                await connection.edges.insert_many(new, session=session)
        return list(graph.jobs)


def _few_parents(graph: JobGraph) -> dict[str, list[JobEdge]]:
    """Return by child the edges that stand in its document: it is new, and has few of them."""
    found: dict[str, list[JobEdge]] = {job.id: [] for job in graph.jobs}
    for edge in graph.edges:
        if edge.child in found:
            found[edge.child].append(edge)
    return {child: edges for child, edges in found.items() if 0 < len(edges) <= MOST_PARENTS}


def _attached(job: Job, *, is_parent: bool, is_child: bool) -> Document:
    """What changes in a job that was stored before, when a graph hangs on it, or it on a graph."""
    fields: Document = {"revision": job.revision + 1}
    if is_parent:
        fields["dependents"] = True
        if job.status in FINAL:
            fields["alarm"] = AT_ONCE
    return {"$set": fields, "$unset": {"wakes": True}} if is_child else {"$set": fields}
