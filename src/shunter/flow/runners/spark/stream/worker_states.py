"""The states of one worker in one micro-batch: loaded by key when it comes, written if changed.

Older files are looked into, the newest first, and never changed; so a try that fails leaves
nothing behind that another could mistake for the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from shunter.flow.graph.keys import hash_of, hashes_of, stable_hash, written_key
from shunter.flow.runners.spark.stream.compaction import (
    TableKey,
    drops_of,
    live_records,
    needed,
    table_of,
    to_merge,
)
from shunter.flow.runners.spark.stream.segments import (
    DroppedPart,
    Hashed,
    HashRange,
    Segment,
    SegmentRef,
    SegmentTable,
    SegmentView,
    item_in,
    key_in,
    record_of,
    state_in,
)
from shunter.flow.runners.spark.stream.states import StateFile, StateFiles, Written, encoded


@dataclass
class _Part:
    """One table: what older files have of it, and what this batch has changed.

    Each of `tables` counts for a range of hashes, and has those for which older ones don't count.
    """

    value: Any
    tables: Sequence[tuple[SegmentTable | None, HashRange, Sequence[HashRange]]]
    loaded: dict[bytes, bytes | None] = field(default_factory=dict)
    changed: dict[bytes, Hashed] = field(default_factory=dict)
    is_dropped: bool = False

    def find(self, number: int, written: bytes) -> bytes | None:
        if self.is_dropped:
            return None
        for table, (first, last), dropped in self.tables:
            if not first <= number <= last:
                continue
            if table is not None and (record := table.find(number, written)) is not None:
                return record
            if any(begin <= number <= end for begin, end in dropped):
                return None
        return None


class StageStates:
    """The states of one stage by key: what `KeyedStates` asks for."""

    def __init__(
        self, stage: str, worker: str, views: Sequence[SegmentView], own: HashRange
    ) -> None:
        self.stage, self._worker, self._views, self._own = stage, worker, views, own
        self._parts: dict[bytes, _Part] = {}

    def load(self, key: Any, part: Any = None) -> Any:
        written = written_key(key)
        table = self._part(part)
        record = table.loaded[written] = table.find(hash_of(written), written)
        if record is None:
            raise KeyError(key)
        return state_in(record)

    def items(self, part: Any = None) -> Iterator[tuple[Any, Any]]:
        """Return all states that were not loaded yet."""
        table = self._part(part)
        if table.is_dropped:
            return
        for _, record in live_records(self._views, self._key(part)):
            if (written := key_in(record)) not in table.loaded:
                table.loaded[written] = record
                yield item_in(record)

    def parts(self) -> list[Any]:
        """Return the parts that older files have, and that were not dropped."""
        found: dict[bytes, Any] = {}
        gone: set[bytes] = {part for part, table in self._parts.items() if table.is_dropped}
        for view in self._views:
            for stage, part in view.segment.tables:
                if stage == self.stage and part not in gone:
                    found[part] = view.segment.tables[stage, part].part
            gone |= {
                part
                for _, part in view.segment.dropped
                if self._own in view.dropped((self.stage, part))
            }
        return list(found.values())

    def put(self, key: Any, state: Any, part: Any = None) -> None:
        written = written_key(key)
        record = encoded(self._worker, record_of, written, key, state)
        table = self._part(part)
        if table.is_dropped or table.loaded.get(written) != record:
            table.changed[written] = Hashed(hash_of(written), record)

    def drop(self, part: Any) -> None:
        table = self._part(part)
        table.is_dropped = True
        table.changed.clear()

    # ---- for whoever writes them

    @property
    def has_changed(self) -> bool:
        return any(table.changed or table.is_dropped for table in self._parts.values())

    @property
    def changes(self) -> dict[TableKey, list[Hashed]]:
        """What was put, by table, in the order of hashes."""
        return {
            (self.stage, part): sorted(table.changed.values())
            for part, table in self._parts.items()
            if table.changed
        }

    @property
    def values(self) -> dict[TableKey, Any]:
        """The parts that this batch has had to do with, as they were given."""
        return {(self.stage, part): table.value for part, table in self._parts.items()}

    @property
    def dropped(self) -> list[DroppedPart]:
        return [
            DroppedPart(self.stage, table.value, *self._own)
            for part, table in self._parts.items()
            if table.is_dropped
            and any((self.stage, part) in view.segment.tables for view in self._views)
        ]

    def _key(self, part: Any) -> TableKey:
        return self.stage, written_key(part)

    def _part(self, value: Any) -> _Part:
        key = self._key(value)
        if key[1] not in self._parts:
            tables = [
                (view.segment.tables.get(key), (view.first, view.last), view.dropped(key))
                for view in self._views
            ]
            self._parts[key[1]] = _Part(value, [each for each in tables if each[0] or each[2]])
        return self._parts[key[1]]


class WorkerStates:
    """All states of the worker `index` of `count`, with the stages named, from their last files.

    `keyed` names the stage whose states are kept by key, if there is one.
    """

    def __init__(
        self,
        files: StateFiles,
        worker: str,
        index: int,
        count: int,
        heads: Sequence[StateFile],
        *,
        stages: Sequence[str],
        keyed: str | None,
    ) -> None:
        self._files, self._worker, self._index = files, worker, index
        self._own, self._stages = hashes_of(index, count), list(stages)
        self._heads = [(head, files.open(head.name)) for head in heads]
        self._before = {head.name for head in heads}
        self._views: list[SegmentView] = []
        for head, newest in self._heads:
            self._before |= {ref.name for ref in newest.footer.older}
            if keyed in head.stages:
                self._views += self._counting(newest)
        self.stored: dict[str, StageStates] = {}
        if keyed is not None:
            self.stored[keyed] = StageStates(keyed, worker, self._views, self._own)

    def _counting(self, newest: Segment) -> Iterator[SegmentView]:
        """Return a file and those that it leads to, as far as they count for one's own keys."""
        footer = newest.footer
        for ref in (SegmentRef(newest.name, footer.first, footer.last), *footer.older):
            if ref.first <= self._own[1] and self._own[0] <= ref.last:
                segment = newest if ref.name == newest.name else self._files.open(ref.name)
                view = SegmentView(segment, ref.first, ref.last).within(*self._own)
                if view.counts:
                    yield view

    @property
    def is_new(self) -> bool:
        """True if nothing was ever kept for this worker."""
        return not self._heads

    @property
    def is_taken_over(self) -> bool:
        """True if the last files are of workers that had other keys."""
        ranges = {(segment.footer.first, segment.footer.last) for _, segment in self._heads}
        return ranges != {self._own}

    def has_key(self, key: Any) -> bool:
        """True if a key belongs to this worker."""
        return self._own[0] <= stable_hash(key) <= self._own[1]

    def whole(self, stage: str, *, is_keyed: bool) -> list[Any]:
        """Return the small states that were kept of a stage.

        They are those of this worker's index; behind a key, those of all whose keys it has now.
        """
        return [
            segment.footer.whole[stage]
            for head, segment in self._heads
            if stage in head.stages and stage in segment.footer.whole
            if is_keyed or segment.footer.index == self._index
        ]

    def has_changed(self, whole: Mapping[str, Any]) -> bool:
        """True if a file must be written, for a key or for the small states."""
        if len(self._heads) != 1 or any(each.has_changed for each in self.stored.values()):
            return True
        before = self._heads[0][1].footer.whole
        encode = msgspec.msgpack.encode
        return bool(encoded(self._worker, lambda: encode(dict(whole)) != encode(before)))

    def write(self, batch: int, whole: Mapping[str, Any]) -> Written:
        """Write a file for a batch, with older ones in it where they are many."""
        changes = self._all(states.changes for states in self.stored.values())
        dropped = [each for states in self.stored.values() for each in states.dropped]
        size = sum(len(record) for records in changes.values() for _, record in records)
        count = to_merge(size, [view.segment.size for view in self._views])
        merged, older = self._views[:count], self._views[count:]
        with self._files.new(batch, self._worker) as (name, writer):
            for table, part in self._tables(merged).items():
                records = live_records(
                    merged,
                    table,
                    changes=changes.get(table, ()),
                    hidden=[(e.first, e.last) for e in dropped if table_of(e) == table],
                )
                writer.add_table(table[0], part, records)
            dropped += [each for view in merged for each in drops_of(view)]
            older, dropped = needed(older, dropped, self._own)
            finish = partial(
                writer.finish,
                batch=batch,
                worker=self._worker,
                index=self._index,
                own=self._own,
                whole=dict(whole),
                dropped=dropped,
                older=[view.ref for view in older],
            )
            encoded(self._worker, finish)
        after = {name, *(view.segment.name for view in older)}
        self._files.forget_copies(after, self._worker)
        return Written(name, self._stages, sorted(self._before - after))

    def _tables(self, merged: Iterable[SegmentView]) -> dict[TableKey, Any]:
        """Return the tables that go into the next file, with their parts as they were given."""
        found = self._all(states.values for states in self.stored.values())
        for view in merged:
            for table, kept in view.segment.tables.items():
                if table[0] in self.stored:
                    found.setdefault(table, kept.part)
        return found

    @staticmethod
    def _all(parts: Iterable[dict[TableKey, Any]]) -> dict[TableKey, Any]:
        return {key: value for part in parts for key, value in part.items()}
