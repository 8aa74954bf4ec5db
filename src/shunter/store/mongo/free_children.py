"""Children that wait for nobody any more and are still parked, known to one client alone.

The claim that starts such a child is also what wakes it: one write instead of two. What no claim
took is queued by the end of its batch. Only a dispatcher that is alone may leave it parked for a
while (`Batch.may_hold`): nobody else could take it, and often there are many more such children
than free slots.
Their parents have ended, and are told. The note that says so to others (`telling.py`) stays until
the last of its children is started or queued: if this client dies, another one takes them up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from time import monotonic

from pymongo.write_concern import WriteConcern

from shunter.store.mongo.children import Child, Told, make_due, tell
from shunter.store.mongo.connection import MongoConnection

HELD_SECONDS = 3.0
"""How long a child stays parked that could start. Notes are left alone for longer than that."""

MOST_HELD = 10_000

_Entry = tuple[int, int, str]


class FreeChildren:
    """Those of one client, in the order of the queue."""

    def __init__(self) -> None:
        self._children: dict[str, Child] = {}
        self._notes: dict[str, set[str]] = {}
        self._note_of: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._entries: dict[str, list[_Entry]] = {}
        self._unclear: set[str] = set()
        self._told_at = 0.0

    @property
    def has_work(self) -> bool:
        """True if there are any, or something about them is to be written."""
        return bool(self._notes or self._unclear)

    def add(self, note: str, children: Iterable[Child], *, since: float, now: float) -> None:
        """Take note of children whose last parents have ended, `since` then as the note says."""
        added = {child.id: child for child in children if child.id not in self._children}
        self._children |= added
        self._note_of |= dict.fromkeys(added, note)
        self._notes.setdefault(note, set()).update(added)
        self._since.setdefault(note, since)
        self._told_at = max(self._told_at, now)
        by_type: dict[str, list[_Entry]] = {}
        for child in added.values():
            by_type.setdefault(child.type, []).append((child.wakes or 0, child.seq, child.id))
        for kind, entries in by_type.items():
            self._entries[kind] = sorted(self._entries.get(kind, []) + entries)

    def first(self, types: Sequence[str], wanted: int, below: int | None) -> list[str]:
        """The ids of those that a claim of these types would take, if there were no others.

        The first by rank, and the first of each type.
        """
        fronts = [self._front(kind, wanted, below) for kind in types if kind in self._entries]
        heads = [front[0] for front in fronts if front]
        first = sorted(entry for front in fronts for entry in front)[:wanted]
        return list(dict.fromkeys(entry[2] for entry in (*first, *heads)))

    def _front(self, kind: str, wanted: int, below: int | None) -> list[_Entry]:
        entries = self._entries[kind]
        end = len(entries) if below is None else bisect_left(entries, (below,))
        return entries[: min(wanted, end)]

    def settle(self, ids: Collection[str]) -> None:
        """Forget children that were started or queued."""
        gone = {name for name in ids if name in self._children}
        for kind in {self._children.pop(name).type for name in gone}:
            left = [entry for entry in self._entries[kind] if entry[2] not in gone]
            self._entries[kind] = left
            if not left:
                del self._entries[kind]
        for name in gone:
            self._notes[self._note_of.pop(name)].discard(name)

    def refuse(self, ids: Iterable[str]) -> None:
        """Leave children that somebody else has changed to whoever tells their parents' others."""
        refused = [self._children[name] for name in ids if name in self._children]
        self._unclear.update(*(child.pending for child in refused))
        self.settle([child.id for child in refused])

    async def queue(self, connection: MongoConnection, *, may_hold: bool, stamp: str) -> Told:
        """Queue those that may not stay, and take back notes of which nothing is left.

        Where somebody else has changed a child, its parents become due.
        """
        leaving = [self._children[name] for name in self._leaving(may_hold)]
        woken: frozenset[str] = frozenset()
        if leaving:
            parents = set[str]().union(*(child.pending for child in leaving))
            told = await tell(connection, leaving, parents, now=self._told_at, stamp=stamp)
            self._unclear |= told.unclear
            woken = told.woken
        if unclear := frozenset(self._unclear):
            await connection.patiently(partial(make_due, connection, unclear, stamp))
            self._unclear -= unclear
        self.settle([child.id for child in leaving])
        if done := [note for note, ids in self._notes.items() if not ids]:
            await connection.patiently(partial(forget, connection, done))
            for note in done:
                del self._notes[note], self._since[note]
        return Told(woken, unclear)

    def _leaving(self, may_hold: bool) -> list[str]:
        if not may_hold:
            return list(self._children)
        leaving = [name for note in self._late_notes() for name in self._notes[note]]
        over = len(self._children) - len(leaving) - MOST_HELD
        if over > 0:
            late = set(leaving)
            entries = sorted(entry for some in self._entries.values() for entry in some)
            leaving += [name for _, _, name in entries if name not in late][-over:]
        return leaving

    def _late_notes(self) -> list[str]:
        until = monotonic() - HELD_SECONDS
        return [note for note, since in self._since.items() if since <= until]


async def forget(connection: MongoConnection, notes: Sequence[str]) -> None:
    """Remove notes; one that comes back after a failover costs only a look."""
    soon = connection.tellings.with_options(write_concern=WriteConcern(w=1))
    await soon.delete_many({"_id": {"$in": list(notes)}})
