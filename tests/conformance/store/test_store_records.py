"""Small documents that dispatchers share: listed by name, written by compare-and-swap."""

from __future__ import annotations

from msgspec.structs import replace

from shunter.model.record import Record, RecordKind


def record(name: str, *, revision: int = 1, document: bytes | None = b'{"a":1}') -> Record:
    return Record(kind=RecordKind.KEY, name=name, revision=revision, document=document)


def test_records_are_listed_by_falling_names_in_pages(run, store):
    names = ["a", "b/c", "b", "z", "ä"]
    assert run(store.swap_records([record(name) for name in names])) == [True] * 5
    others = RecordKind.SECRET, RecordKind.AUDIT  # one is before them in the order, one behind
    run(store.swap_records([replace(record("other"), kind=kind) for kind in others]))

    first = run(store.records(RecordKind.KEY, limit=2))
    rest = run(store.records(RecordKind.KEY, before=first[-1].name))

    assert [it.name for it in first + rest] == sorted(names, reverse=True)
    assert first + rest == [record(name) for name in sorted(names, reverse=True)]
    assert [it.name for it in run(store.records(RecordKind.AUDIT))] == ["other"]
    assert run(store.records(RecordKind.KEY, limit=0)) == []


def test_a_record_is_made_once(run, store):
    assert run(store.swap_records([record("a")])) == [True]
    assert run(store.swap_records([record("a", document=b"2"), record("b")])) == [False, True]

    assert [it.document for it in run(store.records(RecordKind.KEY))] == [b'{"a":1}', b'{"a":1}']


def test_of_two_that_change_a_record_one_succeeds(run, store):
    run(store.swap_records([record("a")]))

    assert run(store.swap_records([record("a", revision=2, document=b"2")])) == [True]
    assert run(store.swap_records([record("a", revision=2, document=b"3")])) == [False]
    assert run(store.swap_records([record("nobody", revision=2)])) == [False]

    assert run(store.records(RecordKind.KEY)) == [record("a", revision=2, document=b"2")]


def test_a_record_is_deleted_if_it_is_the_one_that_was_seen(run, store):
    run(store.swap_records([record("a"), record("b")]))

    assert run(store.swap_records([record("a", revision=3, document=None)])) == [False]
    assert run(store.swap_records([record("a", revision=2, document=None)])) == [True]
    assert run(store.swap_records([record("a", revision=2, document=None)])) == [True]

    assert [it.name for it in run(store.records(RecordKind.KEY))] == ["b"]
    assert run(store.swap_records([record("a")])) == [True]


def test_records_are_shared_by_all_that_use_a_database(run, opened):
    one, two = opened(), opened()

    assert run(one.swap_records([record("a")])) == [True]
    assert run(two.swap_records([record("a")])) == [False]

    assert run(two.records(RecordKind.KEY)) == [record("a")]


def test_records_are_found_by_their_names(run, store):
    run(store.swap_records([record(name) for name in ("a", "b", "c/d", "e")]))
    run(store.swap_records([replace(record("z"), kind=RecordKind.SECRET)]))

    found = run(store.records(RecordKind.KEY, names=["c/d", "a", "z", "nobody", "a"]))

    assert [it.name for it in found] == ["c/d", "a"]
    assert found[0] == record("c/d")
    assert run(store.records(RecordKind.KEY, names=[])) == []
    assert [it.name for it in run(store.records(RecordKind.KEY, names=["a", "b"], limit=1))] == [
        "b"
    ]
