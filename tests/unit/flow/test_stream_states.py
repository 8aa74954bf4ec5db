"""Files of states: what one has in it, when several become one, and a crash at each step."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.graph.keys import (
    KEY_GROUPS,
    KeyGroupPartitioner,
    hash_of,
    hashes_of,
    key_group,
    read_key,
    stable_hash,
    written_key,
)
from shunter.flow.runners.spark.stream.compaction import FILES, SMALL, to_merge
from shunter.flow.runners.spark.stream.segments import (
    ALL_HASHES,
    Hashed,
    Segment,
    SegmentWriter,
    item_in,
    record_of,
    state_in,
)
from shunter.flow.runners.spark.stream.states import StateFile, StateFiles, Written
from shunter.flow.runners.spark.stream.worker_states import WorkerStates


def segment_of(states: dict[Any, Any]) -> Segment:
    file = io.BytesIO()
    writer = SegmentWriter(file)
    records = [Hashed(stable_hash(key), record_of(written_key(key), key, state))
               for key, state in states.items()]  # fmt: skip
    writer.add_table("counted", None, sorted(records))
    writer.finish(batch=3, worker="counted.0", index=0, own=ALL_HASHES, whole={"marks": [1]})
    return Segment("one", memoryview(file.getvalue()))


keys = st.one_of(
    st.text(max_size=5), st.integers(), st.booleans(), st.none(), st.binary(max_size=3),
    st.floats(allow_nan=False), st.dates(), st.uuids(), st.datetimes(),
    st.tuples(st.integers(0, 3), st.dates()),
)  # fmt: skip


@given(states=st.dictionaries(keys, st.integers(-9, 9), max_size=30), others=st.lists(keys))
def test_each_key_is_found_with_its_state_and_no_other(
    states: dict[Any, Any], others: list[Any]
) -> None:
    segment = segment_of(states)
    table = segment.tables.get(("counted", written_key(None)))

    assert segment.footer.whole == {"marks": [1]}
    assert (table is None) == (not states)
    for key in [*states, *others] if table is not None else ():
        record = table.find(stable_hash(key), written_key(key))
        assert (record is not None) == (key in states)
        if record is not None:
            assert item_in(record) == (key, states[key])
            assert state_in(record) == states[key]
    found = [] if table is None else [item_in(each.record) for each in table.between(*ALL_HASHES)]
    assert dict(found) == states


@pytest.mark.parametrize(
    "key",
    [date(2026, 3, 1), UUID(int=7), 2**80, -(2**70), ("a", (1, date(1, 1, 1))), b"\0", None,
     datetime(2026, 3, 1, 5, tzinfo=timezone(timedelta(hours=5, minutes=30))),
     datetime(2026, 3, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999), 1.5],
)  # fmt: skip
def test_a_key_comes_back_equal_from_its_canonical_form(key: Any) -> None:
    assert read_key(written_key(key)) == key
    assert hash_of(written_key(key)) == stable_hash(key)


@given(key=st.text(), workers=st.integers(1, 3_000))
def test_a_key_belongs_to_the_worker_that_has_its_group(key: str, workers: int) -> None:
    index = KeyGroupPartitioner(workers).index(key)
    first, last = hashes_of(index, workers)

    assert 0 <= key_group(key) < KEY_GROUPS
    assert 0 <= index < workers
    assert first <= stable_hash(key) <= last


@given(workers=st.integers(1, 2_000))
def test_workers_share_all_hashes_without_a_gap(workers: int) -> None:
    at = 0
    for index in range(workers):
        first, last = hashes_of(index, workers)
        assert first == at
        at = last + 1
    assert at == 2**64


@given(batches=st.lists(st.integers(1, SMALL * 600), min_size=1, max_size=400))
def test_files_stay_few_and_a_byte_is_written_few_times(batches: list[int]) -> None:
    """Nothing is ever overwritten here, so that files only grow."""
    sizes: list[int] = []
    written = 0
    for added in batches:
        count = to_merge(added, sizes)
        sizes = [added + sum(sizes[:count]), *sizes[count:]]
        written += sizes[0]
    orders = 8
    assert len(sizes) <= orders * (FILES - 1)
    assert written <= orders * sum(batches)


def test_a_file_without_its_end_is_not_read() -> None:
    whole = io.BytesIO()
    SegmentWriter(whole).finish(batch=0, worker="b.0", index=0, own=ALL_HASHES, whole={})
    for length in (0, 5, len(whole.getvalue()) - 1):
        with pytest.raises(FlowError, match="its end is missing"):
            Segment("torn", memoryview(whole.getvalue()[:length]))


class Crash(Exception):
    """Where this is raised, the power went."""


@contextmanager
def crashing_after(writes: int) -> Iterator[None]:
    """Let so many pieces of files be written, and not one more."""
    left, real = [writes], SegmentWriter._write

    def write(writer: SegmentWriter, data: bytes) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Crash
        real(writer, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SegmentWriter, "_write", write)
        yield


def worker_of(files: StateFiles, heads: list[StateFile]) -> WorkerStates:
    return WorkerStates(files, "b.0", 0, 1, heads, stages=["b"], keyed="b")


def test_a_crash_at_any_step_of_a_merge_loses_nothing(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path))
    files.make()
    heads: list[StateFile] = []
    expected: dict[str, int] = {}
    crashes = 0
    for batch in range(3 * FILES):
        for step in range(10_000):
            own = worker_of(files, heads)
            assert dict(own.stored["b"].items()) == expected
            changes = {f"key{(batch + n) % 5}": batch for n in range(2)}
            for key, state in changes.items():
                own.stored["b"].put(key, state)
            try:
                with crashing_after(step):
                    written = own.write(batch, {})
            except Crash:
                crashes += 1
                continue
            break
        expected |= changes
        heads = [StateFile(written.head, written.stages)]
        files.sweep(files.names(heads))
        assert len(list((tmp_path / "states").iterdir())) <= FILES
    assert dict(worker_of(files, heads).stored["b"].items()) == expected
    assert crashes > 3 * FILES


def test_two_keys_of_one_hash_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "shunter.flow.runners.spark.stream.worker_states.hash_of", lambda written: len(written)
    )
    files = StateFiles(str(tmp_path))
    files.make()
    heads: list[StateFile] = []
    for batch in range(2 * FILES):
        own = worker_of(files, heads)
        own.stored["b"].put(f"k{batch % 7}", batch)
        heads = [StateFile(own.write(batch, {}).head, ["b"])]

    stored = worker_of(files, heads).stored["b"]
    assert {key: stored.load(key) for key in ("k0", "k1", "k2", "k6")} == {
        "k0": 14, "k1": 15, "k2": 9, "k6": 13,
    }  # fmt: skip
    with pytest.raises(KeyError):
        stored.load("k9")


def test_a_state_that_is_as_it_was_is_not_written_again(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path))
    files.make()
    own = worker_of(files, [])
    own.stored["b"].put("a", {"n": 1})
    heads = [StateFile(own.write(0, {"c": 5}).head, ["b"])]

    own = worker_of(files, heads)
    own.stored["b"].load("a")
    own.stored["b"].put("a", {"n": 1})

    assert not own.has_changed({"c": 5})
    assert own.has_changed({"c": 6})


def test_what_a_worker_has_written_goes_through_a_text() -> None:
    written = Written("00000001-b.0.abc", ["b", "c"], ["old"])
    assert Written.of(written.text()) == written


def test_an_executor_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    own = worker_of(StateFiles(str(tmp_path / "elsewhere")), [])
    with pytest.raises(FlowError, match="a folder that all hosts of the cluster share"):
        own.write(0, {})


def test_a_state_that_can_not_be_kept_names_its_worker(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path))
    files.make()
    own = worker_of(files, [])

    with pytest.raises(FlowError, match=r"a state of b\.0 can't be kept"):
        own.stored["b"].put("a", object())
    with pytest.raises(FlowError, match=r"a state of b\.0 can't be kept"):
        own.write(0, {"b": object()})
    with suppress(FlowError):
        own.has_changed({"b": object()})
