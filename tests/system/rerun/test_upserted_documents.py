"""Upserted documents are there once, however often it is done, and by however many at once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError

from shunter.rerun import StagingError, upsert_documents


@pytest.fixture
def people(database: Database[Any]) -> Collection[Any]:
    collection = database["people"]
    collection.create_index([("first", 1), ("last", 1)], unique=True)
    return collection


def found(collection: Collection[Any]) -> list[Any]:
    return list(collection.find({}, sort=["_id"]))


def test_a_repetition_changes_nothing(database: Database[Any]) -> None:
    documents = [{"_id": number, "text": f"n{number}"} for number in range(2500)]

    assert upsert_documents(database["heap"], documents) == 2500
    assert upsert_documents(database["heap"], iter(documents)) == 2500

    assert found(database["heap"]) == documents


def test_a_key_of_several_fields_in_any_order(people: Collection[Any]) -> None:
    for age in (1, 2):
        document = {"first": "ada", "last": "l", "age": age}
        upsert_documents(people, [document], key=("last", "first"))

    assert [document["age"] for document in found(people)] == [2]


def test_fields_that_are_not_given_stay_or_go_with_replace(database: Database[Any]) -> None:
    heap = database["heap"]
    upsert_documents(heap, [{"_id": 1, "a": 1, "b": {"c": 1}}])

    upsert_documents(heap, [{"_id": 1, "b": {"d": 2}}])
    assert found(heap) == [{"_id": 1, "a": 1, "b": {"d": 2}}]

    upsert_documents(heap, [{"_id": 1, "x.y": 3}], replace=True)
    assert found(heap) == [{"_id": 1, "x.y": 3}]


def test_a_document_that_is_all_key_is_inserted_once(people: Collection[Any]) -> None:
    for _ in range(2):
        upsert_documents(people, [{"first": "ada", "last": "l"}], key=("first", "last"))
        upsert_documents(people, [{"_id": 1}])

    assert sorted(document.get("first", "") for document in found(people)) == ["", "ada"]


def test_an_id_beside_another_key_counts_for_a_new_document_only(people: Collection[Any]) -> None:
    for number in (1, 2):
        document = {"_id": number, "first": "ada", "last": "l", "n": number}
        upsert_documents(people, [document], key=("first", "last"))

    assert found(people) == [{"_id": 1, "first": "ada", "last": "l", "n": 2}]


def test_a_value_that_looks_like_an_operator_is_a_value(database: Database[Any]) -> None:
    for _ in range(2):
        upsert_documents(database["heap"], [{"_id": {"a": {"b": 1}}, "x": 1}])

    assert len(found(database["heap"])) == 1


def test_many_that_upsert_the_same_at_once_leave_one_of_each(people: Collection[Any]) -> None:
    documents = [{"first": f"f{n}", "last": "l", "n": n} for n in range(300)]
    errors = []

    def work() -> None:
        try:
            upsert_documents(people, documents, key=("first", "last"))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert people.count_documents({}) == 300


def duplicate(pattern: dict[str, int], *indexes: int) -> BulkWriteError:
    wrong = [
        {"index": i, "code": 11000, "keyPattern": pattern, "errmsg": "E11000"} for i in indexes
    ]
    return BulkWriteError({"writeErrors": wrong, "writeConcernErrors": []})


def test_what_lost_a_race_is_tried_again_and_nothing_else(
    people: Collection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk_write, sizes = Collection.bulk_write, []

    def racing(self: Any, operations: Any, **options: Any) -> Any:
        sizes.append(len(operations))
        if len(sizes) == 1:
            bulk_write(self, [operations[0]], **options)
            raise duplicate({"first": 1, "last": 1}, 1, 2)
        return bulk_write(self, operations, **options)

    monkeypatch.setattr(Collection, "bulk_write", racing)

    upsert_documents(
        people, [{"first": f"f{n}", "last": "l"} for n in range(3)], key=("first", "last")
    )

    assert sizes == [3, 2]
    assert people.count_documents({}) == 3


def test_a_race_that_never_ends_is_an_error(
    people: Collection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def racing(*_: Any, **__: Any) -> None:
        raise duplicate({"first": 1, "last": 1}, 0)

    monkeypatch.setattr(Collection, "bulk_write", racing)

    with pytest.raises(BulkWriteError):
        upsert_documents(people, [{"first": "a", "last": "l"}], key=("first", "last"))


def test_a_clash_with_another_unique_index_is_an_error(people: Collection[Any]) -> None:
    people.create_index("badge", unique=True, sparse=True)
    upsert_documents(people, [{"_id": 1, "badge": 7}])

    with pytest.raises(BulkWriteError):
        upsert_documents(people, [{"_id": 2, "badge": 7}])


def test_async_handlers_await_it(people: Collection[Any], url: str) -> None:
    async def main() -> int:
        async with AsyncMongoClient[dict[str, Any]](url) as client:
            target = client.get_database()["people"]
            document = {"first": "ada", "last": "l"}
            return await upsert_documents(target, [document], key=["first", "last"])

    assert [asyncio.run(main()) for _ in range(2)] == [1, 1]
    assert people.count_documents({}) == 1


@pytest.mark.parametrize(
    ("documents", "key", "remedy"),
    [
        ([{"first": "a"}], ("first", "last"), "has no 'last'.*give it one"),
        ([{"n": 1}], "n", r"create_index\(\[\('n', 1\)\], unique=True\)"),
        ([{"n": 1}], (), "name the fields"),
        ([{"_id": 1, "a.b": 1}], "_id", "replace=True"),
        ([{"_id": 1, "$a": 1}], "_id", "replace=True"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(
    people: Collection[Any], documents: list[Any], key: Any, remedy: str
) -> None:
    with pytest.raises(StagingError, match=remedy):
        upsert_documents(people, documents, key=key)

    assert found(people) == []
