"""What makes a graph of submissions acceptable, and the jobs and edges it becomes. Pure.

Submissions of one message of which any names parents are stored together or not at all. Every
refusal names the job, the field, what was found and what to send instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from msgspec.structs import replace

from shunter.errors import JobRefused
from shunter.model.identity import NAME_RULE, is_name
from shunter.model.job import Job, Status, When
from shunter.model.scope import JobScope
from shunter.model.spelling import did_you_mean
from shunter.model.submission import Submission
from shunter.model.workflow import JobEdge, JobGraph

MAX_NODES = 10_000
MAX_EDGES = 100_000
"""How many jobs and edges one submission may have: what one commit should hold."""


def is_graph(submissions: Sequence[Submission]) -> bool:
    """True if any of these names parents, a condition on them, or jobs that wait for it."""
    return any(
        wish.after is not None or wish.when is not None or wish.awaited_by for wish in submissions
    )


def graph_of(
    submissions: Sequence[Submission], admit: Callable[[Submission], Job], scope: JobScope
) -> JobGraph:
    """Turn submissions into a graph, or raise JobRefused."""
    _check_size(submissions)
    by_id = {wish.id: wish for wish in submissions}
    if len(by_id) < len(submissions):
        seen: set[str] = set()
        twice = next(wish.id for wish in submissions if wish.id in seen or seen.add(wish.id))  # type: ignore[func-returns-value]
        raise JobRefused(twice, "id", "found twice in one submission; give each job its own")
    edges = [edge for wish in submissions for edge in _edges(wish, by_id)]
    if not _is_in_order(submissions, by_id) and (cycle := _cycle(by_id)):
        raise JobRefused(
            cycle[0],
            "after",
            f"these jobs wait for each other: {' after '.join(cycle)}; take one edge away",
        )
    parents = {edge.parent for edge in edges}
    jobs = []
    for wish in submissions:
        job, has_dependents = admit(wish), wish.id in parents
        if wish.after:
            job = replace(
                job,
                status=Status.WAITING,
                when=When.ALL_OK if wish.when is None else When(wish.when),
                wait_until=None,
                place_by=None,
                dependents=has_dependents,
            )
        elif has_dependents:
            job = replace(job, dependents=True)
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
    edges = sum(len(wish.after or ()) + len(wish.awaited_by or ()) for wish in submissions)
    if edges > MAX_EDGES:
        widest = max(submissions, key=lambda wish: len(wish.after or ()))
        raise JobRefused(
            widest.id,
            "after",
            f"{edges:,} edges in one submission; at most {MAX_EDGES:,} are accepted; let a job in "
            "between wait for many, and others for that one",
        )


def _edges(wish: Submission, by_id: Container[str]) -> Iterable[JobEdge]:
    if wish.when is not None:
        if wish.when not in set(When):
            suggestion = did_you_mean(wish.when, set(When))
            fault = f"found {wish.when[:64]!r}; send {', '.join(When)}{suggestion}"
            raise JobRefused(wish.id, "when", fault)
        if not wish.after:
            raise JobRefused(wish.id, "when", "found without after; name the jobs it waits for")
    if wish.unique_key is not None or wish.unique is not None:
        field = "unique" if wish.unique_key is None else "unique_key"
        fault = "found in a job of a graph, which is stored as a whole; leave it out"
        raise JobRefused(wish.id, field, fault)
    for at, parent in enumerate(dict.fromkeys(wish.after or ())):
        if parent not in by_id and not is_name(parent):
            raise JobRefused(wish.id, "after", f"found {parent[:64]!r}; send ids: {NAME_RULE}")
        yield JobEdge(wish.id, parent, at=at)
    if wish.awaited_by and wish.rerun_of is None:
        fault = "found without rerun_of; let those jobs name this one in after"
        raise JobRefused(wish.id, "awaited_by", fault)
    for child in dict.fromkeys(wish.awaited_by or ()):
        if not is_name(child):
            raise JobRefused(wish.id, "awaited_by", f"found {child[:64]!r}; send ids: {NAME_RULE}")
        yield JobEdge(child, wish.id)


def _is_in_order(submissions: Sequence[Submission], by_id: Container[str]) -> bool:
    """True if each job stands behind all of these that it waits for, as most graphs are written."""
    seen: set[str] = set()
    for wish in submissions:
        for parent in wish.after or ():
            if parent not in seen and parent in by_id:
                return False
        seen.add(wish.id)
    return True


def _cycle(by_id: dict[str, Submission]) -> list[str]:
    """Return jobs that wait for each other in a ring, or nothing.

    Jobs that wait for nobody here are taken away, again and again; who is left is in a ring, or
    behind one.
    """
    inside = {name: {it for it in wish.after or () if it in by_id} for name, wish in by_id.items()}
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
