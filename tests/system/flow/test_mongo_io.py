"""MongoDB: documents are read in the order of their ids, and upserted by their keys."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.database import Database

from conformance.mongo.server import is_frozen, new_database, shared_server
from long_runs import examples
from shunter.errors import FlowError
from shunter.flow.sinks import UpsertDocuments
from shunter.flow.sources import MongoDocuments, mongo_client, mongo_documents
from shunter.testing.mongod import LocalMongod
from system.yard import PATIENCE, until
from unit.flow.io_steps import all_of, carried, limits, read_with_a_stop, rest_of, write_with_a_kill


@pytest.fixture(scope="module")
def url() -> str:
    return new_database()


@pytest.fixture(scope="module")
def database(url: str) -> Iterator[Database[Any]]:
    with MongoClient[dict[str, Any]](url) as client:
        yield client.get_database()


keys = (
    st.integers(-5, 5)
    | st.text(max_size=3)
    | st.floats(-5, 5).filter(lambda number: not number.is_integer())
    | st.binary(min_size=12, max_size=12).map(ObjectId)
    | st.datetimes(datetime(2000, 1, 1), datetime(2001, 1, 1)).map(
        lambda at: at.replace(microsecond=0, tzinfo=UTC)
    )
)


@settings(max_examples=examples(60))
@given(
    ids=st.sets(keys, max_size=20), sizes=limits, batches=st.integers(0, 12), per=st.integers(1, 4)
)
def test_documents_with_ids_of_any_type_are_read_from_any_position(
    url: str, database: Database[Any], ids: set[Any], sizes: list[int], batches: int, per: int
) -> None:
    database["things"].delete_many({})
    if ids:
        database["things"].insert_many([{"_id": key, "at": place} for place, key in enumerate(ids)])
    expected = [document["at"] for document in database["things"].find(sort=["_id"])]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mongo_documents, "BATCH", per)
        found = read_with_a_stop(lambda: MongoDocuments(url, "things"), sizes, batches)

    assert [event["at"] for event in found] == expected


def test_documents_become_plain_values(url: str, database: Database[Any]) -> None:
    key, at = ObjectId(), datetime(2026, 1, 2, tzinfo=UTC)
    database["plain"].insert_one(
        {"_id": key, "n": Int64(2**40), "d": [Decimal128("1.5"), {"o": key}], "at": at, "b": b"x"}
    )

    (event,) = all_of(MongoDocuments(url, "plain"))

    assert event == {
        "_id": str(key), "n": 2**40, "d": [Decimal("1.5"), {"o": str(key)}], "at": at, "b": b"x",
    }  # fmt: skip
    assert msgspec.msgpack.encode(event)


@dataclass
class Person:
    _id: int
    name: str


def test_documents_are_chosen_and_become_objects(url: str, database: Database[Any]) -> None:
    database["people"].insert_many([{"_id": n, "name": f"n{n}", "age": n} for n in range(5)])

    chosen = MongoDocuments(url, "people", filter={"age": {"$gt": 2}}, fields=["name"], type=Person)
    assert all_of(chosen) == [Person(3, "n3"), Person(4, "n4")]


def test_a_collection_is_followed(url: str, database: Database[Any]) -> None:
    database["log"].insert_many([{"_id": 1}, {"_id": 2}])
    source = MongoDocuments(url, "log", follow=True)
    source.open(None)
    first = until(lambda: source.read(1))
    position = carried(source.position())
    source.close()

    source.open(position)
    database["log"].insert_one({"_id": 3})
    found = [*first]
    until(lambda: found.extend(source.read(10) or []) or len(found) == 3)
    assert found == [{"_id": 1}, {"_id": 2}, {"_id": 3}]
    assert source.read(10) == []
    source.close()


def test_reading_never_waits_for_the_server(url: str, database: Database[Any]) -> None:
    database["many"].insert_many([{"_id": n} for n in range(12_000)])
    source = MongoDocuments(url, "many")
    source.open(None)
    batches = [until(lambda: source.read(1000))]

    with frozen(shared_server()), ThreadPoolExecutor(1) as beside:
        reading = beside.submit(lambda: [source.read(1000) for _ in range(30)])
        try:
            batches += reading.result(PATIENCE / 2)
        finally:  # else the other thread may go on, and keep this one, for ever
            os.kill(shared_server().pid, signal.SIGCONT)
    assert batches[-1] == [], "there is more, and nobody to ask for it"
    while (batch := source.read(1000)) is not None:
        batches.append(batch)
    source.close()

    assert sum(map(len, batches)) == 12_000


@contextmanager
def frozen(server: LocalMongod) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        until(lambda: is_frozen(server.pid))
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


# ---- upserts


@settings(max_examples=25)
@given(
    numbers=st.lists(st.tuples(st.integers(1, 5), st.text(max_size=3)), max_size=12),
    data=st.data(),
)
def test_after_a_kill_the_collection_is_what_it_would_have_been(
    url: str, database: Database[Any], numbers: list[tuple[int, str]], data: st.DataObject
) -> None:
    database["sink"].delete_many({})
    events = [{"_id": number, "name": name} for number, name in numbers]
    saved_at = data.draw(st.integers(0, len(events)))
    killed_at = data.draw(st.integers(saved_at, len(events)))

    write_with_a_kill(lambda: UpsertDocuments(url, "sink"), events, saved_at, killed_at)

    last = {event["_id"]: event for event in events}
    assert list(database["sink"].find(sort=["_id"])) == [last[key] for key in sorted(last)]


def test_of_one_key_in_a_batch_the_last_counts(url: str, database: Database[Any]) -> None:
    database["pairs"].create_index([("a", 1), ("b", 1)], unique=True)
    sink = UpsertDocuments(url, "pairs", key=("a", "b")).part(0, 2)
    sink.open(None)
    sink.write([{"a": {"x": 1}, "b": 1, "n": n} for n in range(100)])
    sink.close()

    assert [document["n"] for document in database["pairs"].find()] == [99]


def test_a_key_without_an_index_or_a_value_is_refused(url: str) -> None:
    for key, fault in (("name", "no unique index on name"), ("_id", "has no '_id'")):
        sink = UpsertDocuments(url, "refused", key=key)
        sink.open(None)
        with pytest.raises(FlowError, match=fault):
            sink.write([{"age": 1}])
        sink.close()


@pytest.mark.parametrize("make", [MongoDocuments, UpsertDocuments])
def test_a_server_that_does_not_answer_is_named_without_its_password(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_client, "ANSWER_SECONDS", 0.2)

    with pytest.raises(
        FlowError, match=r"^mongodb://me:\*\*\*@127.0.0.1:1/my: the server does not"
    ) as found:
        make("mongodb://me:secret@127.0.0.1:1/my", "things").open(None)
    assert "secret" not in str(found.value)
    with pytest.raises(FlowError, match="a URL is such as mongodb://host:27017/database"):
        make("mongodb://127.0.0.1:1", "things").open(None)


def test_a_part_of_the_rest_is_read_after_all(url: str, database: Database[Any]) -> None:
    database["rest"].insert_many([{"_id": n} for n in range(10)])
    source = MongoDocuments(url, "rest")
    source.open(carried(None))
    assert until(lambda: source.read(3)) == [{"_id": 0}, {"_id": 1}, {"_id": 2}]

    assert [event["_id"] for event in rest_of(source, [4])] == list(range(3, 10))
