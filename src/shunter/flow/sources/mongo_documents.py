"""Events from a collection of the user's MongoDB, in the order of `_id`."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from datetime import UTC
from typing import Any

import msgspec
from bson import json_util
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from pymongo.collection import Collection

from shunter.flow.sources.mongo_client import connected, mongo_faults
from shunter.flow.sources.reading_ahead import ReadingAhead

BATCH = 1000
POLL_SECONDS = 0.2

_EXACT = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True, tzinfo=UTC)
_PLAIN: dict[type, Any] = {ObjectId: str, Int64: int, Decimal128: Decimal128.to_decimal}


class MongoDocuments:
    """The documents of a collection that match `filter`, in the order of `_id`.

    `url` names the database too. Documents become plain values: an ObjectId is its text; with
    `type` they become objects of a dataclass or msgspec Struct. With `follow` there is no end:
    new documents come as they are found, and their `_id` must be higher, also if several insert.
    The position is the last `_id`.
    """

    def __init__(
        self,
        url: str,
        collection: str,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        fields: list[str] | None = None,
        type: Any = None,  # noqa: A002
        follow: bool = False,
    ) -> None:
        self._url, self._name = url, collection
        self._filter, self._fields = dict(filter or {}), fields
        self.event_type, self._follow = type, follow
        self._collection: Collection[dict[str, Any]] | None = None
        self._ahead: ReadingAhead | None = None
        self._waiting: list[dict[str, Any]] = []
        self._position: str | None = None

    def open(self, position: str | None) -> None:
        self.close()
        self._collection = connected(self._url)[self._name]
        self._position = position
        self._ahead = ReadingAhead(self._batches)

    def read(self, limit: int) -> list[Any] | None:
        assert self._ahead is not None, "not open"
        if not self._waiting:
            self._waiting = self._ahead.take() or []
        if not self._waiting:
            return None if self._ahead.is_at_end else []
        documents, self._waiting = self._waiting[:limit], self._waiting[limit:]
        self._position = json_util.dumps(documents[-1]["_id"], json_options=_EXACT)
        events = [_plain(document) for document in documents]
        if self.event_type is not None:
            events = [msgspec.convert(event, self.event_type) for event in events]
        return events

    def position(self) -> str | None:
        return self._position

    def close(self) -> None:
        self._waiting = []
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        if self._collection is not None:
            self._collection.database.client.close()
            self._collection = None

    def _batches(self, stopped: threading.Event) -> Generator[list[dict[str, Any]], None, None]:
        collection, position = self._collection, self._position
        assert collection is not None
        last = [] if position is None else [json_util.loads(position, json_options=_EXACT)]
        while not stopped.is_set():
            with mongo_faults(self._url):
                found = self._behind(collection, last)
            if found:
                last = [found[-1]["_id"]]
                yield found
            elif self._follow:
                stopped.wait(POLL_SECONDS)
            else:
                return

    def _behind(self, collection: Collection[dict[str, Any]], last: list[Any]) -> list[Any]:
        """Find the next documents; other than `$gt`, `min` also finds ids of other types."""
        query = collection.find(self._filter, self._fields).sort("_id").hint("_id_")
        if not last:
            return query.limit(BATCH).to_list()
        found = query.min([("_id", last[0])]).limit(BATCH + 1).to_list()
        return found[1:] if found and found[0]["_id"] == last[0] else found


def _plain(value: Any) -> Any:
    """Return a value without types of BSON."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    convert = _PLAIN.get(type(value))
    return value if convert is None else convert(value)
