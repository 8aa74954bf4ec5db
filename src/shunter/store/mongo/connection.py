"""How a database is opened: the promises asked of the server, its schema, and whether it is ours.

Writes are acknowledged when a majority has them in its journals, and reads see only what can't
be rolled back. A URL's own options don't weaken that. The one exception is the front of the
queue: there a read of what is newest saves a lost race, and the write behind it counts.
"""

from __future__ import annotations

from math import inf
from typing import Any, Self

from pymongo import AsyncMongoClient, ReadPreference
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.errors import ConfigurationError, DuplicateKeyError, InvalidURI, OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri
from pymongo.write_concern import WriteConcern

from shunter.errors import StoreError
from shunter.model.redaction import redacted_url, without_secrets_of
from shunter.store.mongo import indexes
from shunter.store.mongo.faults import Patience

VERSION = 6
"""Of the schema: collections, indexes, and what documents mean.

2: jobs have a namespace, which older versions would lose, and keys are unique within it.
3: jobs of limited types wait in lanes and occupy places, which older versions would not see.
4: jobs wait for jobs and have journals, which older versions would neither wake nor read.
5: jobs hold the few that they wait for, which older versions would lose at their next write.
6: numbers of places under limits are in their names only, where older versions would not see them.
"""

OLDEST_SERVER = (6, 0)

WAKES_BYTES = 64 * 1024
"""How many notes are kept. Older ones have been heard, or their readers begin anew."""

_EXISTS = 48

Collection = AsyncCollection[dict[str, Any]]


class MongoConnection:
    """A client and the collections of one database."""

    def __init__(self, url: str, *, patience: float) -> None:
        self.name = public_name(url)
        self.patiently = Patience(self.name, patience)
        try:
            self.client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
                url,
                appname="shunter",
                retryWrites=True,
                connectTimeoutMS=3000,
                heartbeatFrequencyMS=2000,
            )
        except (ConfigurationError, ValueError, TypeError, OSError) as error:
            fault = without_secrets_of(url, str(error))  # and not the error itself, which has them
            raise StoreError(f"store {self.name}: {fault}; correct store.url") from None
        database = self.client.get_default_database(
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern(w="majority", j=True),
            read_concern=ReadConcern("majority"),
        )
        self.database = database
        self.jobs: Collection = database["jobs"]
        self.newest_jobs: Collection = self.jobs.with_options(read_concern=ReadConcern("local"))
        self.workers: Collection = database["workers"]
        self.dispatchers: Collection = database["dispatchers"]
        self.records: Collection = database["records"]
        self.edges: Collection = database["edges"]
        self.tellings: Collection = database["tellings"]
        self.blobs: Collection = database["blobs"]
        self.journal: Collection = database["journal"]
        # a note needs no majority: what it speaks of has one
        self.wakes: Collection = database.get_collection("wakes", write_concern=WriteConcern(w=1))
        self._schema: Collection = database["schema"]

    @classmethod
    async def open(cls, url: str, *, patience: float) -> Self:
        """Connect, check whom we talk to, and make or check the schema."""
        connection = cls(url, patience=patience)
        try:
            await connection.patiently(connection._check_server)
            await connection.patiently(connection._check_schema)
            await connection.patiently(connection._ensure_indexes, attempt=inf)
            await connection.patiently(connection._migrate, attempt=inf)
            await connection.patiently(connection._ensure_wakes, attempt=inf)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def close(self) -> None:
        await self.client.close()

    async def all_of(self, query: AsyncCursor[dict[str, Any]]) -> list[dict[str, Any]]:
        """Read all that a query finds, and from the start again where it was interrupted."""
        return await self.patiently(lambda: query.clone().to_list())

    async def _check_server(self) -> None:
        hello = await self.client.admin.command("hello")
        if not hello.get("setName") and hello.get("msg") != "isdbgrid":
            raise StoreError(
                f"store {self.name}: the server is no member of a replica set, so it has neither "
                "majorities nor change streams; start mongod with --replSet, then rs.initiate()"
            )
        version = (await self.client.server_info())["versionArray"]
        if tuple(version[:2]) < OLDEST_SERVER:
            found, needed = (".".join(map(str, numbers)) for numbers in (version, OLDEST_SERVER))
            raise StoreError(
                f"store {self.name}: the server is MongoDB {found}, and {needed} or newer is "
                "needed; upgrade it, or name another server in store.url"
            )

    async def _check_schema(self) -> None:
        """Claim the database for Shunter, or refuse one that is not for us to touch."""
        schema = await self._schema.find_one({"_id": "shunter"})
        if schema is None:
            ours = {self.jobs.name, self.workers.name, self.edges.name, self.blobs.name}
            there = ours & set(await self.database.list_collection_names())
            schema = await self._schema.find_one({"_id": "shunter"})  # another may just begin, too
            if schema is None and there:
                raise StoreError(
                    f"store {self.name}: it has another program's collection "
                    f"{min(there)!r}; name another database in store.url"
                )
        if schema is None:
            try:
                await self._schema.insert_one({"_id": "shunter", "version": VERSION})
            except DuplicateKeyError:
                schema = await self._schema.find_one({"_id": "shunter"})
        version = VERSION if schema is None else schema["version"]
        if version > VERSION:
            raise StoreError(
                f"store {self.name}: its schema has version {version} and this Shunter knows "
                f"version {VERSION}; install the newer Shunter that wrote it, or name another "
                "database in store.url"
            )

    async def _ensure_indexes(self) -> None:
        await indexes.ensure(self.jobs, indexes.OF_JOBS, store=self.name)
        await indexes.ensure(self.edges, indexes.OF_EDGES, store=self.name)
        await indexes.ensure(self.blobs, indexes.OF_BLOBS, store=self.name)

    async def _migrate(self) -> None:
        """Make a database of an older version one of this; what is missing has been made."""
        older = {"_id": "shunter", "version": {"$lt": VERSION}}
        if await self._schema.find_one(older):
            await indexes.retire(self.jobs, indexes.RETIRED_OF_JOBS)
            await self._schema.update_one(older, {"$set": {"version": VERSION}})

    async def _ensure_wakes(self) -> None:
        name = self.wakes.name
        try:
            await self.database.create_collection(
                name, capped=True, size=WAKES_BYTES, check_exists=False
            )
        except OperationFailure as error:
            if error.code != _EXISTS:
                raise
        if not (await self.wakes.options()).get("capped"):
            raise StoreError(
                f"store {self.name}: its collection {name!r} is not capped; drop it with "
                f"db.{name}.drop(), nothing in it is needed, or name another database in store.url"
            )


async def is_shunters(url: str, *, patience: float = 5.0) -> bool:
    """True if a database is one of ours, without making it so."""
    connection = MongoConnection(url, patience=patience)
    try:
        found = await connection.patiently(lambda: connection._schema.find_one({"_id": "shunter"}))
        return found is not None
    finally:
        await connection.close()


def public_name(url: str) -> str:
    """The URL without user, password and options, as messages show it; raises ValueError."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() == "mongodb":
        try:
            parts = parse_uri(url, warn=False)
        except (InvalidURI, ConfigurationError, OSError) as error:  # OSError: of a certificate
            raise ValueError(without_secrets_of(url, str(error))) from None
        database = parts["database"]
    else:
        database = rest.rpartition("@")[2].partition("/")[2].partition("?")[0]
    if not database:
        raise ValueError("it names no database; put one behind the hosts: mongodb://host/shunter")
    hosts = redacted_url(url).partition("://")[2].rpartition("@")[2].partition("/")[0]
    return f"{scheme}://{hosts}/{database}"
