"""What makes a graph of submissions acceptable, and the jobs and edges it becomes. Pure.

Submissions of one message of which any names parents are stored together or not at all. Every
refusal names the job, the field, what was found and what to send instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence

from msgspec.structs import replace

from shunter.errors import JobRefused
from shunter.model.identity import NAME_RULE, is_name
from shunter.model.job import Job, Status, When
from shunter.model.scope import JobScope
from shunter.model.spelling import did_you_mean
from shunter.model.submission import Submission
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome

MAX_NODES = 10_000
MAX_EDGES = 100_000
"""How many jobs and edges one submission may have: what one commit should hold."""


PENDING = ParentOutcome.PENDING

MOMENT_SECONDS = 1e-6
"""By so much a job of a graph counts as older than the next one; ranks are in microseconds."""


def is_graph(submissions: Sequence[Submission]) -> bool:
    """True if any of these names parents, a condition on them, or jobs that wait for it."""
    return any(it.after is not None or it.when is not None or it.awaited_by for it in submissions)


def graph_of(
    submissions: Sequence[Submission], admit: Callable[[Submission], Job], scope: JobScope
) -> JobGraph:
    """Turn submissions into a graph, or raise JobRefused."""
    _check_size(submissions)
    by_id = {submission.id: submission for submission in submissions}
    if len(by_id) < len(submissions):
        counts = Counter(it.id for it in submissions)
        twice = next(name for name, count in counts.items() if count > 1)
        raise JobRefused(twice, "id", "found twice in one submission; give each job its own")
    edges, is_in_order = _edges(submissions, by_id)
    if not is_in_order and (cycle := _cycle(by_id)):
        raise JobRefused(
            cycle[0],
            "after",
            f"these jobs wait for each other: {' after '.join(cycle)}; take one edge away",
        )
    parents = {edge.parent for edge in edges}
    last, jobs = len(submissions) - 1, []
    for at, submission in enumerate(submissions):
        job, has_dependents = admit(submission), submission.id in parents
        # A moment apart, so that the queue keeps them in this order, wherever a store puts them.
        created = job.created - MOMENT_SECONDS * (last - at)
        if submission.after:
            job = replace(
                job,
                created=created,
                status=Status.WAITING,
                when=When.ALL_OK if submission.when is None else When(submission.when),
                wait_until=None,
                place_by=None,
                dependents=has_dependents,
            )
        else:
            job = replace(job, created=created, dependents=has_dependents)
        jobs.append(job)
    return JobGraph(jobs=tuple(jobs), edges=tuple(edges), scope=scope)


def _check_size(submissions: Sequence[Submission]) -> None:
    if len(submissions) > MAX_NODES:
        raise JobRefused(
            submissions[0].id,
            "graph",
            f"{len(submissions):,} jobs; at most {MAX_NODES:,} are accepted at once; submit it in "
            "several graphs: `after` may name jobs that were accepted before",
        )
    edges = sum(len(it.after or ()) + len(it.awaited_by or ()) for it in submissions)
    if edges > MAX_EDGES:
        widest = max(submissions, key=lambda it: len(it.after or ()))
        raise JobRefused(
            widest.id,
            "after",
            f"{edges:,} edges in one submission; at most {MAX_EDGES:,} are accepted; let a job in "
            "between wait for many, and others for that one",
        )


def _edges(submissions: Sequence[Submission], by_id: Container[str]) -> tuple[list[JobEdge], bool]:
    """Return all edges, and whether each job stands behind all of these that it waits for.

    Most graphs are written so, and have no ring in them then.
    """
    edges: list[JobEdge] = []
    seen: set[str] = set()
    is_in_order = True
    for submission in submissions:
        child, after = submission.id, submission.after or ()
        if (
            submission.when is not None
            or submission.unique_key is not None
            or submission.unique is not None
        ):
            _check_terms(submission)
        for at, parent in enumerate(after if len(after) < 2 else dict.fromkeys(after)):
            if parent not in seen:
                if parent in by_id:
                    is_in_order = False
                elif not is_name(parent):
                    raise JobRefused(
                        child, "after", f"found {parent[:64]!r}; send ids: {NAME_RULE}"
                    )
            edges.append(JobEdge(child, parent, PENDING, at))
        if submission.awaited_by:
            edges += _edges_to_earlier(submission)
        seen.add(child)
    return edges, is_in_order


def _check_terms(submission: Submission) -> None:
    """Refuse what a job of a graph can't have."""
    if submission.when is not None:
        if submission.when not in set(When):
            suggestion = did_you_mean(submission.when, [str(it) for it in When])
            fault = f"found {submission.when[:64]!r}; send {', '.join(When)}{suggestion}"
            raise JobRefused(submission.id, "when", fault)
        if not submission.after:
            raise JobRefused(
                submission.id, "when", "found without after; name the jobs it waits for"
            )
    if submission.unique_key is not None or submission.unique is not None:
        field = "unique" if submission.unique_key is None else "unique_key"
        fault = "found in a job of a graph, which is stored as a whole; leave it out"
        raise JobRefused(submission.id, field, fault)


def _edges_to_earlier(submission: Submission) -> Iterable[JobEdge]:
    """Yield the edges of jobs that are stored and are to wait for this rerun, too."""
    if submission.rerun_of is None:
        fault = "found without rerun_of; let those jobs name this one in after"
        raise JobRefused(submission.id, "awaited_by", fault)
    for child in dict.fromkeys(submission.awaited_by or ()):
        if not is_name(child):
            raise JobRefused(
                submission.id, "awaited_by", f"found {child[:64]!r}; send ids: {NAME_RULE}"
            )
        yield JobEdge(child, submission.id)


def _cycle(by_id: dict[str, Submission]) -> list[str]:
    """Return jobs that wait for each other in a ring, or nothing.

    Jobs that wait for nobody here are taken away, again and again; who is left is in a ring, or
    behind one.
    """
    inside = {
        name: {it for it in submission.after or () if it in by_id}
        for name, submission in by_id.items()
    }
    children: dict[str, list[str]] = {}
    for name, parents in inside.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)
    free = [name for name, parents in inside.items() if not parents]
    while free:
        name = free.pop()
        del inside[name]
        for child in children.get(name, ()):
            inside[child].discard(name)
            if not inside[child]:
                free.append(child)
    if not inside:
        return []
    path = [next(iter(inside))]
    while (parent := next(iter(inside[path[-1]]))) not in path:
        path.append(parent)
    return [*path[path.index(parent) :], parent]
