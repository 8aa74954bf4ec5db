"""What the registry asks about stores in MongoDB: names, whether one is there, and how it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from shunter.errors import StoreError
from shunter.model.redaction import redacted_url
from shunter.store.finding import Finding, State
from shunter.store.mongo import indexes
from shunter.store.mongo.connection import VERSION, MongoConnection, is_shunters, public_name
from shunter.store.mongo.store import MongoStore

PATIENCE_SECONDS = 5.0
START = "start the server, or correct store.url"


def made(url: str) -> MongoStore:
    return MongoStore(url)


async def check_exists(url: str) -> None:
    if not await is_shunters(url):
        raise StoreError(
            f"store {public_name(url)}: no dispatcher has used this database; name the one that "
            "the dispatcher has in store.url (see: shunter config)"
        )


def mark_of(url: str) -> str:
    return public_name(url)


def absolute(url: str) -> str:
    return url


def glance(url: str) -> Finding:
    """Open the store, as a dispatcher would."""

    async def open_and_close() -> None:
        store = made(url)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await store.open()
        await store.close()

    try:
        asyncio.run(open_and_close())
    except (StoreError, TimeoutError) as error:
        fact = f"{redacted_url(url)} can't be opened: {str(error) or 'no answer'}"
        return Finding("store", State.MISSING, fact, START)
    return Finding("store", State.OK, f"{redacted_url(url)} answers")


def examine(url: str) -> Iterator[Finding]:
    async def all_of_it() -> list[Finding]:
        return [finding async for finding in _examined(url)]

    yield from asyncio.run(all_of_it())


def repair(url: str) -> Iterator[Finding]:
    """Make the indexes that are missing; the server mends its own files."""

    async def opened() -> None:
        connection = await MongoConnection.open(url, patience=PATIENCE_SECONDS)
        await connection.close()

    try:
        asyncio.run(opened())
    except StoreError as error:
        remedy = "see to what it says, or restore a backup with mongorestore"
        yield Finding("repair", State.MISSING, str(error), remedy)
    else:
        yield Finding("repair", State.OK, "collections and indexes are there or were made")
    yield from examine(url)


async def _examined(url: str) -> AsyncIterator[Finding]:
    try:
        connection = MongoConnection(url, patience=PATIENCE_SECONDS)
    except StoreError as error:
        yield Finding("server", State.MISSING, str(error), START)
        return
    try:
        for finding in await _server(connection):
            yield finding
    except StoreError as error:
        yield Finding("server", State.MISSING, str(error), START)
    finally:
        await connection.close()


async def _server(connection: MongoConnection) -> list[Finding]:
    patiently, database = connection.patiently, connection.database
    await patiently(connection._check_server)
    hello = await patiently(lambda: connection.client.admin.command("hello"))
    members = len(hello.get("hosts", ()))
    fact = f"{connection.name} answers: replica set {hello.get('setName', 'behind mongos')!r}"
    found = [Finding("server", State.OK, f"{fact} of {members}")]
    if members in (1, 2):
        remedy = "three members stay writable when one of them is lost"
        found.append(Finding("members", State.WARN, f"only {members} in the replica set", remedy))
    schema = await patiently(lambda: database["schema"].find_one({"_id": "shunter"}))
    if schema is None:
        remedy = "start a dispatcher, which makes it, or correct store.url"
        fact = "no dispatcher has used this database"
        return [*found, Finding("schema", State.MISSING, fact, remedy)]
    if schema["version"] > VERSION:
        fact = f"version {schema['version']}, and this Shunter knows {VERSION}"
        remedy = "install the newer Shunter that wrote it"
        return [*found, Finding("schema", State.MISSING, fact, remedy)]
    found.append(Finding("schema", State.OK, f"version {schema['version']}"))
    return [*found, await _indexes(connection), await _content(connection)]


async def _indexes(connection: MongoConnection) -> Finding:
    missing = []
    for collection, wanted in (
        (connection.jobs, indexes.OF_JOBS),
        (connection.blobs, indexes.OF_BLOBS),
    ):
        there = await connection.patiently(collection.index_information)
        missing += [
            f"{collection.name}.{index.document['name']}"
            for index in wanted
            if index.document["name"] not in there
        ]
    if missing:
        remedy = "type: shunter doctor --store --repair"
        return Finding("indexes", State.MISSING, f"without {', '.join(missing)}", remedy)
    return Finding("indexes", State.OK, "all there")


async def _content(connection: MongoConnection) -> Finding:
    jobs = await connection.patiently(connection.jobs.estimated_document_count)
    workers = await connection.patiently(connection.workers.estimated_document_count)
    return Finding("content", State.OK, f"about {jobs:,} jobs, {workers:,} workers")
