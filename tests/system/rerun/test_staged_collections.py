"""Documents reach a user's collection by one rename or a merge, and an old attempt does no harm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import AutoReconnect, DuplicateKeyError, OperationFailure

from shunter.rerun import Owner, StagingError, Superseded, staged_collection, sweep_collections
from shunter.rerun.staging_names import staging_name

OLD, NEW = Owner("november", "01job", 1), Owner("november", "01job", 2)
OTHER = Owner("november", "02job", 1)

Hook = Callable[[Collection[Any]], object]


@pytest.fixture
def people(database: Database[Any]) -> Collection[Any]:
    collection = database["people"]
    collection.create_index("name", unique=True)
    collection.insert_many([{"_id": 1, "name": "ada"}, {"_id": 2, "name": "bob", "age": 7}])
    return collection


def documents(collection: Collection[Any]) -> list[Any]:
    return list(collection.find(sort=["name"]))


def stage(
    target: Collection[Any],
    given: list[Any],
    owner: Owner = NEW,
    meanwhile: Hook = lambda _: None,
    **options: Any,
) -> None:
    with staged_collection(target, run=owner, **options) as staging:
        if given:
            staging.insert_many(given)
        meanwhile(staging)


def names(target: Collection[Any]) -> list[str]:
    return sorted(target.database.list_collection_names())


# ---- replacing


def test_a_collection_is_replaced_at_the_end_of_the_block_and_not_before(
    people: Collection[Any],
) -> None:
    seen: list[Any] = []

    stage(people, [{"_id": 3, "name": "eve"}], meanwhile=lambda _: seen.extend(documents(people)))

    assert [document["name"] for document in seen] == ["ada", "bob"]
    assert documents(people) == [{"_id": 3, "name": "eve"}]
    assert names(people) == ["people"]


def test_a_collection_that_is_missing_is_made(database: Database[Any]) -> None:
    stage(database["guests"], [{"_id": 3}])

    assert documents(database["guests"]) == [{"_id": 3}]
    assert names(database["guests"]) == ["guests"]


def test_indexes_and_options_survive(database: Database[Any]) -> None:
    target = database.create_collection(
        "people",
        validator={"name": {"$type": "string"}},
        collation={"locale": "de", "strength": 1},
    )
    target.create_index("name", unique=True)
    simply: Any = {"collation": {"locale": "simple"}}
    target.create_index([("story", "text")], weights={"story": 3}, **simply)
    target.create_index("badge", unique=True, sparse=True, **simply)
    target.create_index("seen", expireAfterSeconds=10**6, partialFilterExpression={"age": 1})
    before = [target.options(), target.index_information()]

    def more(_: Any) -> None:
        target.create_index("late", sparse=True)

    stage(target, [{"_id": 1, "name": "ada"}], meanwhile=more)

    information = target.index_information()
    assert information.pop("late_1")["sparse"]
    assert [target.options(), information] == before
    with pytest.raises(DuplicateKeyError):
        target.insert_one({"name": "ADA"})


def test_documents_that_break_a_unique_index_are_not_published(people: Collection[Any]) -> None:
    before = documents(people)

    with pytest.raises(OperationFailure, match="E11000"):
        stage(people, [{"name": "same"}, {"name": "same"}])

    assert documents(people) == before
    assert names(people) == ["people"]


def test_a_rename_whose_answer_got_lost_is_recognised(
    people: Collection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, calls = Collection.rename, []

    def losing(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(args)
        rename(self, *args, **options)
        raise AutoReconnect("the answer was lost")

    monkeypatch.setattr(Collection, "rename", losing)

    stage(people, [{"_id": 3, "name": "eve"}])

    assert len(calls) == 1 + 1
    assert documents(people) == [{"_id": 3, "name": "eve"}]
    assert names(people) == ["people"]


def test_a_rename_that_did_not_happen_is_repeated(
    people: Collection[Any], database: Database[Any]
) -> None:
    fault = {"failCommands": ["renameCollection"], "closeConnection": True}
    order = {"configureFailPoint": "failCommand", "mode": {"times": 2}, "data": fault}
    database.client.admin.command(order)

    stage(people, [{"_id": 3, "name": "eve"}])

    assert documents(people) == [{"_id": 3, "name": "eve"}]


# ---- merging


def test_merging_inserts_and_updates_by_id(people: Collection[Any]) -> None:
    stage(people, [{"_id": 2, "name": "rob"}, {"_id": 3, "name": "sue"}], publish="merge")

    assert documents(people) == [
        {"_id": 1, "name": "ada"},
        {"_id": 2, "name": "rob", "age": 7},
        {"_id": 3, "name": "sue"},
    ]
    assert names(people) == ["people"]


def test_merging_by_another_key_keeps_the_ids_there(people: Collection[Any]) -> None:
    for _ in range(2):
        stage(people, [{"name": "bob", "x": 1}, {"name": "eve"}], publish="merge", key="name")

    found = documents(people)
    assert [document["name"] for document in found] == ["ada", "bob", "eve"]
    assert found[1] == {"_id": 2, "name": "bob", "age": 7, "x": 1}


# ---- attempts


@pytest.mark.parametrize("publish", ["replace", "merge"])
def test_an_old_attempt_fails_to_publish_once_a_new_one_has_begun(
    people: Collection[Any], publish: str
) -> None:
    with pytest.raises(Superseded, match="attempt 1 published nothing"):
        stage(
            people,
            [{"_id": 8, "name": "old"}],
            OLD,
            lambda _: stage(people, [{"_id": 9, "name": "new"}]),
            publish=publish,
        )

    assert documents(people) == [{"_id": 9, "name": "new"}]
    assert names(people) == ["people"]


@pytest.mark.parametrize("publish", ["replace", "merge"])
def test_an_old_attempt_that_goes_on_inserting_can_t_publish_its_second_half(
    people: Collection[Any], publish: str
) -> None:
    def go_on(staging: Collection[Any]) -> None:
        stage(people, [{"_id": 9, "name": "new"}])
        staging.insert_one({"_id": 8, "name": "second half"})
        assert staging.name in names(people), "the server has made it anew"

    with pytest.raises(Superseded):
        stage(people, [{"_id": 7, "name": "first half"}], OLD, go_on, publish=publish)

    assert documents(people) == [{"_id": 9, "name": "new"}]
    assert names(people) == ["people"]


def test_an_old_attempt_that_only_now_begins_gives_way(people: Collection[Any]) -> None:
    def late(_: Any) -> None:
        with pytest.raises(Superseded, match="attempt 2 stages the same"):
            stage(people, [], OLD)

    stage(people, [{"_id": 9, "name": "new"}], NEW, late)

    assert documents(people) == [{"_id": 9, "name": "new"}]


def test_of_two_attempts_that_begin_at_once_one_sees_the_other(
    people: Collection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, newer = Database.command, staged_collection(people, run=NEW)

    def late(self: Any, *orders: Any, **options: Any) -> Any:
        monkeypatch.undo()
        newer.__enter__()
        return command(self, *orders, **options)

    monkeypatch.setattr(Database, "command", late)
    with pytest.raises(Superseded, match="attempt 2 stages the same"):
        stage(people, [], OLD)
    newer.__exit__(None, None, None)

    assert names(people) == ["people"]


def test_two_jobs_of_one_run_merge_into_the_same_collection(people: Collection[Any]) -> None:
    def other(_: Any) -> None:
        stage(people, [{"_id": 4, "name": "four"}], OTHER, publish="merge")

    stage(people, [{"_id": 3, "name": "three"}], OLD, other, publish="merge")

    assert sorted(document["_id"] for document in documents(people)) == [1, 2, 3, 4]


def test_an_exception_leaves_the_old_documents_and_no_staging(people: Collection[Any]) -> None:
    before = documents(people)

    with pytest.raises(ZeroDivisionError):
        stage(people, [{"_id": 3}], meanwhile=lambda _: 1 / 0)

    assert documents(people) == before
    assert names(people) == ["people"]


# ---- async


def test_async_handlers_stage_and_sweep_likewise(people: Collection[Any], url: str) -> None:
    async def overtaken(target: Any) -> None:
        async with staged_collection(target, run=OLD) as old:
            await old.insert_one({"_id": 8, "name": "old"})
            async with staged_collection(target, run=NEW) as new:
                await new.insert_one({"_id": 9, "name": "new"})

    async def main() -> None:
        async with AsyncMongoClient[dict[str, Any]](url) as client:
            target = client.get_database()["people"]
            with pytest.raises(Superseded):
                await overtaken(target)
            async with staged_collection(target, publish="merge", run=NEW) as staging:
                await staging.insert_one({"_id": 10, "name": "ten"})
            assert await sweep_collections(client.get_database(), older_than=3600) == []

    asyncio.run(main())

    assert documents(people) == [{"_id": 9, "name": "new"}, {"_id": 10, "name": "ten"}]
    assert names(people) == ["people"]
    assert "name_1" in people.index_information()


def test_an_async_handler_that_is_cancelled_leaves_nothing(
    people: Collection[Any], url: str
) -> None:
    async def work(target: Any, has_begun: asyncio.Event) -> None:
        async with staged_collection(target, run=NEW) as staging:
            await staging.insert_one({"_id": 8})
            has_begun.set()
            await asyncio.sleep(60)

    async def main() -> None:
        async with AsyncMongoClient[dict[str, Any]](url) as client:
            has_begun = asyncio.Event()
            task = asyncio.ensure_future(work(client.get_database()["people"], has_begun))
            await has_begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())

    assert names(people) == ["people"]


# ---- bad input, and sweeping


def test_bad_input_is_refused_with_the_remedy(people: Collection[Any], url: str) -> None:
    database = people.database
    database.command({"create": "view", "viewOn": "people", "pipeline": []})

    with pytest.raises(StagingError, match="'replace' or 'merge'"):
        stage(people, [], publish="append")
    with pytest.raises(StagingError, match=r"create_index\(\[\('age', 1\)\], unique=True\)"):
        stage(people, [], publish="merge", key="age")
    with pytest.raises(StagingError, match="only ordinary collections"):
        stage(database["view"], [])
    with pytest.raises(StagingError, match="pass pymongo's Collection"):
        stage("people", [])  # type: ignore[arg-type]
    with pytest.raises(StagingError, match="pass run="):
        staged_collection(people)
    assert names(people) == ["people", "system.views", "view"]


def test_the_wrong_kind_of_with_is_refused(people: Collection[Any], url: str) -> None:
    async def main() -> None:
        async with AsyncMongoClient[dict[str, Any]](url) as client:
            wrong: Any = staged_collection(client.get_database()["people"], run=NEW)
            with pytest.raises(StagingError, match="write: async with"):
                wrong.__enter__()
            wrong = staged_collection(people, run=NEW)
            with pytest.raises(StagingError, match="write: with"):
                await wrong.__aenter__()

    asyncio.run(main())


def test_sweeping_takes_what_is_old_and_spares_what_is_young(people: Collection[Any]) -> None:
    now = time.time()
    old = staging_name("people", OTHER, opened=now - 7200, unique=1)
    young = staging_name("people", OTHER, opened=now - 60, unique=2)
    for name in (old, young, "staging_of_the_user"):
        people.database.create_collection(name)

    assert sweep_collections(people.database, older_than=3600) == [old]

    assert names(people) == ["people", "staging_of_the_user", young]
