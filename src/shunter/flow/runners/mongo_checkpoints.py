"""Checkpoints in a MongoDB database, where they lie in GridFS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import gridfs
from pymongo import DESCENDING, MongoClient
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.synchronous.database import Database
from pymongo.write_concern import WriteConcern

from shunter.errors import FlowError
from shunter.flow.runners.checkpoint_folder import KEPT
from shunter.flow.runtime.checkpoint import Checkpoint, decoded, encoded

T = TypeVar("T")
Document = dict[str, Any]


class MongoCheckpoints:
    """In a bucket of GridFS, acknowledged by a majority."""

    def __init__(self, url: str, flow: str) -> None:
        self._url, self._flow = url, flow
        self._do(lambda bucket: bucket.files.find_one({}))

    def keep(self, kept: Checkpoint) -> None:
        def write(bucket: _Bucket) -> None:
            bucket.put(encoded(kept), filename=self._flow, number=kept.number)
            bucket.drop({"filename": self._flow, "number": {"$lte": kept.number - KEPT}})

        self._do(write)

    def latest(self) -> Checkpoint | None:
        newest_first = [("number", DESCENDING), ("_id", DESCENDING)]

        def read(bucket: _Bucket) -> bytes | None:
            newest = bucket.files.find_one({"filename": self._flow}, sort=newest_first)
            return None if newest is None else bucket.get(newest["_id"]).read()

        body = self._do(read)
        return None if body is None else decoded(body, f"of flow {self._flow!r} in MongoDB")

    def clear(self) -> None:
        self._do(lambda bucket: bucket.drop({"filename": self._flow}))

    def _do(self, action: Callable[[_Bucket], T]) -> T:
        try:
            with MongoClient[Document](
                self._url, appname="shunter", serverSelectionTimeoutMS=10_000
            ) as client:
                return action(_Bucket(client.get_default_database()))
        except (PyMongoError, gridfs.errors.GridFSError, ValueError) as error:
            raise FlowError(
                f"the checkpoints of flow {self._flow!r} can't be read or written in MongoDB: "
                f"{error}; see that the server is there, and that the URL names a database"
            ) from error


class _Bucket(gridfs.GridFS):
    def __init__(self, database: Database[Document]) -> None:
        majority = database.with_options(
            write_concern=WriteConcern(w="majority", j=True), read_concern=ReadConcern("majority")
        )
        super().__init__(majority, collection="flow_checkpoints")
        self.files = majority["flow_checkpoints.files"]

    def drop(self, which: Document) -> None:
        for found in self.files.find(which, {"_id": True}):
            self.delete(found["_id"])
