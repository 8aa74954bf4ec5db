"""States by key at any place: only what changed is written, and what counts is always found."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from shunter.flow.graph.keys import KeyGroupPartitioner
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.states import LiveFiles, StateFile, StateFiles, Written
from shunter.flow.runners.spark.stream.worker_states import WorkerStates


class Kept:
    """The states of one keyed stage, as batch after batch writes them on so many workers."""

    def __init__(self, place: Location, workers: int = 2) -> None:
        self.files = StateFiles(str(place))
        self.files.make()
        self.place, self.workers, self.batch = place, workers, 0
        self.heads: dict[int, list[StateFile]] = {}
        self.live = LiveFiles({})

    def worker(self, index: int) -> WorkerStates:
        return WorkerStates(
            self.files,
            f"counted.{index}",
            index,
            self.workers,
            self.heads.get(index, []),
            stages=["counted"],
            keyed="counted",
        )

    def write(self, states: dict[Any, Any], *, part: Any = None, dropped: Any = ()) -> int:
        """Do a batch; return how many records were written."""
        spread, records = KeyGroupPartitioner(self.workers), 0
        for index in range(self.workers):
            own = self.worker(index)
            stored = own.stored["counted"]
            for each in dropped:
                stored.drop(each)
            for key, state in states.items():
                if spread.index(key) == index:
                    with suppress(KeyError):
                        stored.load(key, part)
                    stored.put(key, state, part)
            records += sum(map(len, stored.changes.values()))
            if own.has_changed({}):
                self.commit(index, own.write(self.batch, {}))
        self.batch += 1
        return records

    def commit(self, index: int, written: Written) -> None:
        self.heads[index] = [StateFile(written.head, written.stages)]
        self.files.drop(self.live.note(written))

    def read(self, part: Any = None) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for index in range(self.workers):
            found |= dict(self.worker(index).stored["counted"].items(part))
        return found

    def names(self) -> set[str]:
        return {info.location.name for info in (self.place / "states").files()}


def test_a_batch_writes_only_the_keys_that_it_changes(place: Location) -> None:
    kept = Kept(place)
    assert kept.write({f"key{n}": n for n in range(1_000)}) == 1_000

    assert kept.write({"key7": -7, "key8": 8, "new": 1}) == 2

    assert kept.read() == {f"key{n}": n for n in range(1_000)} | {"key7": -7, "new": 1}
    assert kept.worker(KeyGroupPartitioner(2).index("key7")).stored["counted"].load("key7") == -7


def test_many_batches_leave_few_files_and_the_newest_states(place: Location) -> None:
    kept, expected, numbers = Kept(place), dict[str, int](), random.Random(1)
    for batch in range(30):
        states = {f"key{numbers.randrange(300)}": batch for _ in range(20)}
        expected |= states
        kept.write(states)
        assert kept.names() == kept.live.names
    assert kept.read() == expected
    assert len(kept.names()) <= 2 * 3 * 8


def test_other_numbers_of_workers_have_the_same_states(place: Location) -> None:
    kept, expected = Kept(place), dict[str, int]()
    for workers in (2, 5, 1, 3, 3):
        heads = [head for each in kept.heads.values() for head in each]
        kept.workers, kept.heads = workers, dict.fromkeys(range(workers), heads)
        kept.live = LiveFiles({str(n): kept.files.names(heads) for n in range(workers)})
        assert kept.read() == expected
        states = {f"key{n}": workers for n in range(0, 400, workers)}
        expected |= states
        kept.write(states)
        assert kept.read() == expected
        assert kept.names() == kept.live.names


def test_a_part_that_is_dropped_is_gone_and_may_come_again(place: Location) -> None:
    kept = Kept(place, workers=1)
    kept.write({"a": 1, "b": 2}, part=60)
    kept.write({"a": 3}, part=120)
    assert sorted(kept.worker(0).stored["counted"].parts()) == [60, 120]

    kept.write({}, dropped=[60])
    assert kept.worker(0).stored["counted"].parts() == [120]
    assert kept.read(60) == {}
    kept.write({"b": 5}, part=60.0)
    for batch in range(20):
        kept.write({"a": batch}, part=120)

    assert kept.read(60) == {"b": 5}
    assert kept.read(120) == {"a": 19}


def test_what_no_commit_names_is_swept_and_harms_nobody(place: Location) -> None:
    kept = Kept(place, workers=1)
    kept.write({"a": 1, "b": 1})
    for attempt in range(3):  # each dies before it is committed
        own = kept.worker(0)
        own.stored["counted"].put("a", attempt)
        own.write(1, {})
    assert kept.read() == {"a": 1, "b": 1}
    assert len(kept.names()) == 4

    kept.files.sweep(kept.files.names(kept.heads[0]))

    assert kept.read() == {"a": 1, "b": 1}
    assert len(kept.names()) == 1


def test_a_file_that_was_not_written_to_its_end_is_swept(place: Location) -> None:
    kept = Kept(place, workers=1)
    kept.write({"a": 1})
    (place / "states" / "00000001-counted.0.torn").write(b"half of it")

    kept.files.sweep(kept.files.names(kept.heads[0]))

    assert kept.read() == {"a": 1}
    assert len(kept.names()) == 1
