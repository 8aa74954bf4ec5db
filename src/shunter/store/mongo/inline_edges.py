"""The edges that stand in the child's own document: those of a job that waits for few.

`after.parents` are the jobs that it named, `after.pending` those of them that have not ended, and
`after.bad` how others ended that did not complete. `after.at` is there only where parents did not
come in a row. While there is `wakes`, the job can be queued as it is once nothing is pending: it is
gone when a parent did not complete, when edges were added that have documents of their own
(`edges.py`), and with each write of the whole job.
A job of many parents would be rewritten as a whole for each of them, so its edges stand apart.
Must not know collections or connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pymongo import UpdateMany, UpdateOne

from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.store.mongo.documents import Document

MOST_PARENTS = 100
"""So many edges a child's document holds at most."""

HAS_ANY: Document = {"after.parents": {"$gte": ""}}


def after_of(edges: Sequence[JobEdge]) -> Document:
    """What the document of a child says of its edges, which are new."""
    parents = [edge.parent for edge in edges]
    after: Document = {"parents": parents, "pending": parents}
    numbers = [edge.at for edge in edges]
    if numbers != list(range(len(edges))):
        after["at"] = numbers
    return after


def edges_in(document: Document) -> list[JobEdge]:
    """The edges that a child's document holds."""
    after = document["after"]
    pending = set(after.get("pending", ()))
    bad = {each["parent"]: ParentOutcome(each["outcome"]) for each in after.get("bad", ())}
    parents = after.get("parents", ())
    return [
        JobEdge(
            document["_id"],
            parent,
            ParentOutcome.PENDING
            if parent in pending
            else bad.get(parent, ParentOutcome.COMPLETED),
            at,
        )
        for parent, at in zip(parents, after.get("at", range(len(parents))), strict=True)
    ]


def completed(children: Sequence[str], parents: Sequence[str]) -> UpdateMany:
    """The statement that takes parents that have completed from what these children wait for."""
    return UpdateMany(
        {"_id": {"$in": children}, "after.pending": {"$in": parents}},
        {"$pull": {"after.pending": {"$in": parents}}},
    )


def marks(outcomes: Mapping[ParentOutcome, Iterable[JobEdge]]) -> list[UpdateMany | UpdateOne]:
    """The statements that write outcomes into edges that have none, if they stand in children."""
    writes: list[UpdateMany | UpdateOne] = []
    for outcome, edges in outcomes.items():
        if outcome is ParentOutcome.COMPLETED:
            children, parents = ({getattr(it, end) for it in edges} for end in ("child", "parent"))
            writes.append(completed(sorted(children), sorted(parents)))
        else:
            writes += [
                UpdateOne(
                    {"_id": edge.child, "after.pending": edge.parent},
                    {
                        "$pull": {"after.pending": edge.parent},
                        "$push": {"after.bad": {"parent": edge.parent, "outcome": outcome.value}},
                        "$unset": {"wakes": True},
                    },
                )
                for edge in edges
            ]
    return writes
