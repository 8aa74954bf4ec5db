"""Events into a collection of the user's MongoDB, such that a repetition changes nothing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from pymongo import WriteConcern
from pymongo.collection import Collection

from shunter.errors import FlowError, StagingError
from shunter.flow.sinks.records import records_of
from shunter.flow.sources.mongo_client import connected, mongo_faults
from shunter.rerun.mongo_documents import key_fields, upsert_documents


class UpsertDocuments:
    """Inserts each event as a document, or replaces the document that has its key.

    `url` names the database too. A key other than `_id` needs a unique index. After a death,
    documents may be written again, and stay the same. Events of one key go to one worker, so that
    the last one is the one that stays.
    """

    runs_in_tasks = True

    def __init__(self, url: str, collection: str, *, key: str | Sequence[str] = "_id") -> None:
        self._url, self._name, self._key = url, collection, key
        self._collection: Collection[dict[str, Any]] | None = None

    @property
    def route_key(self) -> DocumentKey:
        """By what events go to workers."""
        return DocumentKey(key_fields(self._key))

    def __del__(self) -> None:
        self.close()

    def part(self, index: int, count: int) -> UpsertDocuments:
        return UpsertDocuments(self._url, self._name, key=self._key)

    def open(self, saved: None) -> None:
        self.close()
        collection = connected(self._url)[self._name]
        self._collection = collection.with_options(write_concern=WriteConcern("majority", j=True))

    def write(self, events: Sequence[Any]) -> int:
        assert self._collection is not None, "not open"
        fields = key_fields(self._key)
        # Documents of one batch are written in any order, so of each key only the last one is.
        last = {_identity(record, fields): record for record in records_of(events)}
        try:
            with mongo_faults(self._url):
                upsert_documents(self._collection, last.values(), key=fields, replace=True)
        except StagingError as error:
            raise FlowError(str(error)) from error
        return len(events)

    def checkpoint(self) -> None:
        return

    def close(self) -> None:
        if self._collection is not None:
            self._collection.database.client.close()
            self._collection = None

    abandon = close


class DocumentKey:
    """The key of an event's document, as a text, for it may be of any type that MongoDB has."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = tuple(fields)

    def __call__(self, event: Any) -> str:
        return repr(_identity(records_of([event])[0], self._fields))


def _identity(record: dict[str, Any], fields: Sequence[str]) -> Hashable:
    key = tuple(record.get(name) for name in fields)
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key
