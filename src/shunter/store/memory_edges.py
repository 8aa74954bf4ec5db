"""Edges between jobs, in dictionaries: what the store that forgets knows of workflows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from shunter.model.workflow import JobEdge, ParentOutcome


class MemoryEdges:
    """Edges by parent and by child."""

    def __init__(self) -> None:
        self._by_parent: dict[str, dict[str, JobEdge]] = {}
        self._by_child: dict[str, dict[str, JobEdge]] = {}

    def add(self, edges: Iterable[JobEdge]) -> None:
        """Keep edges, and what is known of those that are there already."""
        for edge in edges:
            if edge.parent not in self._by_child.get(edge.child, {}):
                self._put(edge)

    def note(self, outcomes: Iterable[JobEdge]) -> None:
        """Write outcomes into edges that are there and have none."""
        for edge in outcomes:
            stored = self._by_child.get(edge.child, {}).get(edge.parent)
            if stored is not None and stored.outcome is ParentOutcome.PENDING:
                self._put(replace(stored, outcome=edge.outcome))

    def of_parents(
        self, parents: Sequence[str], after: JobEdge | None, limit: int
    ) -> list[JobEdge]:
        last = ("", "") if after is None else (after.parent, after.child)
        edges = (edge for name in set(parents) for edge in self._by_parent.get(name, {}).values())
        behind = [edge for edge in edges if (edge.parent, edge.child) > last]
        return sorted(behind, key=lambda edge: (edge.parent, edge.child))[:limit]

    def of_children(
        self, children: Sequence[str], after: JobEdge | None, limit: int
    ) -> list[JobEdge]:
        last = ("", "") if after is None else (after.child, after.parent)
        edges = (edge for name in set(children) for edge in self._by_child.get(name, {}).values())
        behind = [edge for edge in edges if (edge.child, edge.parent) > last]
        return sorted(behind, key=lambda edge: (edge.child, edge.parent))[:limit]

    def standing(self, child: str) -> frozenset[ParentOutcome]:
        return frozenset(edge.outcome for edge in self._by_child.get(child, {}).values())

    def children(self, parent: str) -> Iterable[str]:
        return self._by_parent.get(parent, {}).keys()

    def forget(self, child: str) -> None:
        """Drop the edges of a child that is purged."""
        for parent in self._by_child.pop(child, {}):
            del self._by_parent[parent][child]

    def _put(self, edge: JobEdge) -> None:
        self._by_parent.setdefault(edge.parent, {})[edge.child] = edge
        self._by_child.setdefault(edge.child, {})[edge.parent] = edge
