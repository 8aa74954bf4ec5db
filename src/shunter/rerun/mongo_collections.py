"""A staging collection in the user's MongoDB, published by a rename, or by a merge.

The server makes a collection when somebody inserts into one that is not there. So a run that
was taken for dead, whose staging the next attempt has dropped, would build a second half under
the same name. That is why a collection is known by its UUID: it is compared before the rename,
which keeps it, and after a rename whose answer got lost it tells whether it happened.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from shunter.errors import StagingError, Superseded
from shunter.rerun.mongo_documents import check_unique, key_fields
from shunter.rerun.mongo_steps import (
    AnyCollection,
    AnyDatabase,
    Steps,
    awaited,
    done,
    is_asynchronous,
)
from shunter.rerun.ownership import Attempt, new_name, owner_of
from shunter.rerun.staging_names import PREFIX, left_behind, overdue

D = TypeVar("D", bound=Mapping[str, Any])

_NAMESPACE_NOT_FOUND = 26
_RENAMES = 5


@overload
def staged_collection(
    target: Collection[D],
    *,
    publish: Literal["replace", "merge"] = "replace",
    key: str | Sequence[str] = "_id",
    run: Attempt | str | None = None,
) -> AbstractContextManager[Collection[D]]: ...


@overload
def staged_collection(
    target: AsyncCollection[D],
    *,
    publish: Literal["replace", "merge"] = "replace",
    key: str | Sequence[str] = "_id",
    run: Attempt | str | None = None,
) -> AbstractAsyncContextManager[AsyncCollection[D]]: ...


def staged_collection(
    target: AnyCollection,
    *,
    publish: Literal["replace", "merge"] = "replace",
    key: str | Sequence[str] = "_id",
    run: Attempt | str | None = None,
) -> Any:
    """Yield an empty collection to fill; at the end of the block it becomes `target`.

    With "replace" by one rename: all or nothing, and with the target's indexes. With "merge" the
    server inserts its documents into `target`, or updates by `key`, a field or fields with a
    unique index: each document at once, all of them not; a run that dies between is completed by
    the next. If the block raises, or the process dies before its end, `target` stays as it was.
    Raises Superseded if a newer attempt of the job has begun.

    With an AsyncCollection write `async with`.
    """
    if publish not in ("replace", "merge"):
        raise StagingError(f"publish is {publish!r}; it is 'replace' or 'merge'")
    return _StagedCollection(target, publish, key_fields(key), run)


@overload
def sweep_collections(database: Database[Any], *, older_than: float) -> list[str]: ...


@overload
def sweep_collections(
    database: AsyncDatabase[Any], *, older_than: float
) -> Awaitable[list[str]]: ...


def sweep_collections(
    database: AnyDatabase, *, older_than: float
) -> list[str] | Awaitable[list[str]]:
    """Drop staging collections of runs that never came back; return their names.

    Those opened more than `older_than` seconds ago. Allow more than your longest job takes: what
    belongs to a job that still runs would fail to publish. With an AsyncDatabase, await it.
    """
    steps = _sweep(database, older_than)
    return awaited(steps) if is_asynchronous(database) else done(steps)


class _StagedCollection:
    """The staging collection of one attempt; a context manager of both kinds."""

    def __init__(
        self,
        target: AnyCollection,
        publish: str,
        fields: tuple[str, ...],
        run: Attempt | str | None,
    ) -> None:
        self._is_async = is_asynchronous(target)
        self._target, self._publish, self._fields = target, publish, fields
        self._owner = owner_of(run)
        self._database: Any = target.database
        self._staging: Any = self._database.get_collection(
            new_name(target.name, self._owner),
            codec_options=target.codec_options,
            read_preference=target.read_preference,
            write_concern=target.write_concern,
            read_concern=target.read_concern,
        )
        self._uuid: Any = None

    def __enter__(self) -> Any:
        if self._is_async:
            raise StagingError(f"{self._target.name} is an AsyncCollection; write: async with")
        return done(self._opened())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        done(self._closed(is_complete=kind is None))

    async def __aenter__(self) -> Any:
        if not self._is_async:
            raise StagingError(f"{self._target.name} is a blocking Collection; write: with")
        return await awaited(self._opened())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await awaited(self._closed(is_complete=kind is None))

    def _opened(self) -> Steps[Any]:
        if self._publish == "merge":
            yield from check_unique(self._target, self._fields)
        model = yield from self._described(self._target.name)
        if model.get("type", "collection") != "collection":
            raise StagingError(
                f"{self._target.name} is a {model['type']}; only ordinary collections can be staged"
            )
        yield self._database.command({"create": self._staging.name, **model.get("options", {})})
        try:
            self._uuid = yield from self._uuid_of(self._staging.name)
            # Only now: of two attempts that begin at once, one sees the other.
            names = yield from _stagings(self._database)
            for name in left_behind(names, self._target.name, self._owner):
                if name != self._staging.name:
                    yield self._database.drop_collection(name)
            if self._publish == "replace":
                yield from self._copy_indexes()
        except GeneratorExit:
            raise  # nobody will do another step
        except BaseException:
            yield from self._dropped()
            raise
        return self._staging

    def _closed(self, *, is_complete: bool) -> Steps[None]:
        if not is_complete:
            yield from self._dropped()
            return
        try:
            yield from self._check_present()
            if self._publish == "replace":
                yield from self._copy_indexes()
                yield from self._renamed()
            else:
                yield from self._merged()
                yield self._staging.drop()
        except GeneratorExit:
            raise  # nobody will do another step
        except BaseException:
            yield from self._dropped()
            raise

    def _renamed(self) -> Steps[None]:
        for tries in range(1, _RENAMES + 1):
            try:
                yield self._staging.rename(self._target.name, dropTarget=True)
                return
            except OperationFailure as error:
                if error.code != _NAMESPACE_NOT_FOUND:
                    raise
                # It is gone: because it was dropped, or because an earlier try has renamed it.
                is_published = (yield from self._uuid_of(self._target.name)) == self._uuid
                if tries > 1 and is_published:
                    return
                raise self._superseded() from None
            except AutoReconnect:
                if tries == _RENAMES:
                    raise

    def _merged(self) -> Steps[None]:
        found = {"whenMatched": "merge", "whenNotMatched": "insert"}
        order = {"into": self._target.name, "on": list(self._fields), **found}
        # The _id of a staged document is a new one, unless documents are known by it.
        shape = [] if "_id" in self._fields else [{"$unset": "_id"}]
        yield self._staging.aggregate([*shape, {"$merge": order}])
        # Where there is nothing, nothing is merged, and that is no error to the server.
        yield from self._check_present()

    def _check_present(self) -> Steps[None]:
        found = yield from self._uuid_of(self._staging.name)
        if found is None or found != self._uuid:
            raise self._superseded()

    def _superseded(self) -> Superseded:
        fact = "what it has staged was dropped"
        return Superseded(self._target.name, self._owner.attempt, fact)

    def _copy_indexes(self) -> Steps[None]:
        cursor = yield self._target.list_indexes()
        found = yield cursor.to_list()
        # An index that says nothing compares simply, whatever its collection does by default.
        wanted = [
            {"collation": {"locale": "simple"}}
            | {name: value for name, value in index.items() if name not in ("v", "ns")}
            for index in found
            if index["name"] != "_id_" and not index.get("clustered")
        ]
        if wanted:
            order = {"createIndexes": self._staging.name, "indexes": wanted}
            yield self._database.command(order)

    def _described(self, name: str) -> Steps[dict[str, Any]]:
        cursor = yield self._database.list_collections(filter={"name": name})
        found = yield cursor.to_list()
        return found[0] if found else {}

    def _uuid_of(self, name: str) -> Steps[Any]:
        described = yield from self._described(name)
        return described.get("info", {}).get("uuid")

    def _dropped(self) -> Steps[None]:
        # Who is here has an error on its way. The next attempt drops what can't be dropped now.
        with contextlib.suppress(PyMongoError):
            yield self._staging.drop()


def _stagings(database: Any) -> Steps[list[str]]:
    names: list[str] = yield database.list_collection_names(
        filter={"name": {"$regex": f"^{PREFIX}"}}
    )
    return names


def _sweep(database: Any, older_than: float) -> Steps[list[str]]:
    names = yield from _stagings(database)
    due = overdue(names, now=time.time(), older_than=older_than)
    for name in due:
        yield database.drop_collection(name)
    return sorted(due)
