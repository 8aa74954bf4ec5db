"""The database: whether it is ours, its version, its indexes, and what documents look like."""

from __future__ import annotations

import asyncio
import re

import pytest
from pymongo import AsyncMongoClient

from conformance.store.given import NOW, claim, ended, job, running, worker
from shunter.errors import SettingsError, StoreError
from shunter.model.job import Execution, ReplyTo
from shunter.store.mongo import MongoStore, indexes
from shunter.store.mongo.connection import VERSION
from shunter.store.registry import store_for


@pytest.fixture
def database(run, url):
    client = AsyncMongoClient(url)
    yield client.get_default_database()
    run(client.close())


def opening_error(run, url, **options):
    with pytest.raises(StoreError) as caught:
        run(MongoStore(url, **options).open())
    return str(caught.value)


def test_a_new_database_gets_the_current_version_and_all_indexes(run, store, database):
    async def names(collection):
        return {index["name"] async for index in await database[collection].list_indexes()}

    assert run(database.schema.find_one()) == {"_id": "shunter", "version": VERSION}
    assert run(names("jobs")) == {"_id_", *(it.document["name"] for it in indexes.OF_JOBS)}
    assert run(names("blobs")) == {"_id_", "loose"}


def test_a_database_of_a_newer_version_is_refused_and_left_alone(run, url, database):
    newer = {"_id": "shunter", "version": VERSION + 4}
    run(database.schema.insert_one(newer))

    error = opening_error(run, url)

    assert f"version {VERSION + 4} and this Shunter knows version {VERSION}" in error
    assert "install the newer Shunter" in error
    assert run(database.list_collection_names()) == ["schema"]


def test_a_database_of_an_older_version_becomes_one_of_this(run, opened, database):
    opened()
    run(database.jobs.drop_index("named_key"))
    run(database.jobs.create_index("unique_key", name="unique_key", unique=True))
    run(database.schema.update_one({}, {"$set": {"version": 1}}))

    store = opened()

    assert run(database.schema.find_one())["version"] == VERSION
    names = set(run(database.jobs.index_information()))
    assert names == {"_id_", *(it.document["name"] for it in indexes.OF_JOBS)}
    both = [job("a", unique_key="k"), job("b", unique_key="k", namespace="team")]
    assert run(store.insert(both)) == both


def test_a_database_with_another_programs_jobs_is_refused_and_left_alone(run, url, database):
    run(database.jobs.insert_one({"title": "baker"}))

    assert "another program's collection 'jobs'; name another database" in opening_error(run, url)
    assert run(database.list_collection_names()) == ["jobs"]


def test_a_collection_for_notes_that_is_not_capped_is_refused_with_the_remedy(run, url, database):
    run(database.wakes.insert_one({"by": "hand"}))

    error = opening_error(run, url)

    assert "its collection 'wakes' is not capped; drop it with db.wakes.drop()" in error
    run(database.wakes.drop())
    store = MongoStore(url)
    run(store.open())
    run(store.close())


@pytest.mark.parametrize("name", [it.document["name"] for it in indexes.OF_JOBS])
def test_an_index_that_is_another_one_is_refused_with_its_name_and_the_remedy(
    run, url, opened, database, name
):
    opened()
    run(database.jobs.drop_index(name))
    run(database.jobs.create_index("elsewhere", name=name))

    error = opening_error(run, url)

    assert re.search(rf"index '{name}' of jobs is not.*db\.jobs\.dropIndex\('{name}'\)", error)
    run(database.jobs.drop_index(name))
    opened()


def test_an_index_with_other_options_is_refused(run, url, opened, database):
    opened()
    run(database.jobs.drop_index("ready"))
    run(database.jobs.create_index([("type", 1), ("ready", 1), ("seq", 1)], name="ready"))

    assert "index 'ready' of jobs" in opening_error(run, url)


def test_a_missing_index_is_made_again(run, url, opened, database):
    opened()
    run(database.jobs.drop_index("ready"))

    store = opened()

    run(store.insert([job("one")]))
    assert [it.id for it in run(store.claim(claim()))] == ["one"]
    assert "ready" in run(database.jobs.index_information())


def test_dispatchers_that_start_at_once_on_a_new_database_all_get_in(run, url):
    async def all_at_once():
        stores = [MongoStore(url) for _ in range(5)]
        await asyncio.gather(*(store.open() for store in stores))
        await stores[0].insert([job("one")])
        taken = await stores[4].claim(claim())
        await asyncio.gather(*(store.close() for store in stores))
        return taken

    assert [it.id for it in run(all_at_once())] == ["one"]


@pytest.mark.usefixtures("lost_sockets")
def test_a_server_that_is_not_there_is_an_error_that_says_what_to_do(run):
    error = opening_error(run, "mongodb://somebody:secret@127.0.0.1:1/jobs", patience=0.3)

    assert error.startswith("store mongodb://127.0.0.1:1/jobs: no primary answered for 0.3 s;")
    assert "see that mongod runs there" in error
    assert "secret" not in error


def test_writes_wait_for_a_majority_and_its_journals_whatever_the_url_says(run, url):
    store = MongoStore(f"{url}&w=1&journal=false&readConcernLevel=local&readPreference=secondary")
    run(store.open())

    for collection in (store._connection.jobs, store._connection.workers, store._connection.blobs):
        assert collection.write_concern.document == {"w": "majority", "j": True}
        assert collection.read_concern.level == "majority"
        assert collection.read_preference.name == "Primary"
    assert store._connection.client.options.retry_writes
    run(store.close())


def test_a_url_of_mongodb_is_a_store(url):
    store = store_for("mongodb://u:p@one:27017,two/jobs?replicaSet=r")

    assert isinstance(store, MongoStore)
    assert store.name == "mongodb://one:27017,two/jobs"
    assert isinstance(store_for("mongodb+srv://cluster.example.net/jobs"), MongoStore)


@pytest.mark.parametrize(
    "bad",
    [
        "mongodb://",
        "mongodb://host",
        "mongodb://host/",
        "mongodb://u:secret@host",
        "mongodb://h:x/d",
    ],
)
def test_a_url_without_host_or_database_is_refused_without_its_password(bad):
    with pytest.raises(SettingsError) as caught:
        store_for(bad)

    assert caught.value.key == "store.url"
    assert "mongodb://host:port/database" in caught.value.allowed
    assert "secret" not in str(caught.value)


def test_a_document_can_be_read_by_people(run, store, database):
    reply_to = ReplyTo("zmq", b"\x01")
    run(running(store, "one", priority=2, execution=Execution(timeout=9.0), reply_to=reply_to))

    document = run(database.jobs.find_one({"_id": "one"}))

    assert isinstance(document.pop("seq"), int)
    assert document.pop("stamp").startswith(store.client_id)
    assert document == {
        "_id": "one",
        "type": "type-of-one",
        "payload": b"\x93\x01\x02\x03",
        "status": "i",
        "priority": 2,
        "revision": 2,
        "attempt": 1,
        "created": NOW,
        "updated": NOW,
        "dispatcher": {"id": "d-1", "date": NOW, "expiry": NOW + 5},
        "execution": {"worker_id": "w-1", "sent": NOW, "expiry": NOW + 9, "timeout": 9.0},
        "reply_to": {"gateway": "zmq", "address": b"\x01"},
        "alarm": NOW + 9,
        "held": True,
    }


def test_an_ended_job_keeps_nothing_of_the_queue(run, store, database):
    run(ended(store, "one"))
    run(store.put_workers([worker("w-1")]))

    document = run(database.jobs.find_one({"_id": "one"}))

    assert document["ended"] == document["execution"]["ended"] == NOW
    assert not {"ready", "alarm", "held"} & document.keys()
    assert run(database.workers.find_one())["_id"] == "w-1"
