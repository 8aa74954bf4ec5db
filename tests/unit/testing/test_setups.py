"""Setups: what is open while handlers run, as a sandbox and an app show it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from shunter import App, Context, JobFailed
from shunter.errors import AppError
from shunter.testing import Sandbox


class Database:
    def __init__(self, name: str = "db") -> None:
        self.name = name
        self.is_open = True

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False


class Cache:
    def __init__(self, database: Database) -> None:
        self.database = database


class Session:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()


class Told:
    """An app, and what its setups did."""

    def __init__(self) -> None:
        self.app = App()
        self.events: list[str] = []
        self.databases: list[Database] = []

        @self.app.job
        def names(n: int, db: Database, *, ctx: Context, cache: Cache) -> list[Any]:
            return [n, db.name, db.is_open, cache.database is db, ctx.attempt]

        @self.app.job
        async def same_loop(session: Session, n: int = 0) -> list[Any]:
            return [session.loop is asyncio.get_running_loop(), n]

        @self.app.setup
        def database() -> Iterator[Database]:
            self.events.append("database opens")
            with Database() as made:
                self.databases.append(made)
                yield made
            self.events.append("database closes")

        @self.app.setup
        @contextlib.contextmanager
        def cache(db: Database) -> Iterator[Cache]:
            self.events.append("cache opens")
            yield Cache(db)
            self.events.append("cache closes")

        @self.app.setup
        async def session() -> AsyncIterator[Session]:
            async with asyncio.timeout(None):  # to be left by the task that entered it
                self.events.append("session opens")
                await asyncio.sleep(1)
                yield Session()
                self.events.append("session closes")


@pytest.fixture
def told() -> Told:
    return Told()


def test_what_a_setup_yields_goes_where_its_type_is_asked_for(told: Told) -> None:
    with Sandbox(told.app) as sandbox:
        assert sandbox.submit("names", 1).result() == [1, "db", True, True, 1]
        assert sandbox.submit("names", n=2).result()[0] == 2
        assert sandbox.submit("same_loop", 3).result() == [True, 3]
        assert sandbox.submit("same_loop").result() == [True, 0]

    assert len(told.databases) == 1


def test_setups_open_in_order_and_close_in_the_other_order(told: Told) -> None:
    with Sandbox(told.app):
        assert told.events == ["database opens", "cache opens", "session opens"]
        told.events.clear()

    assert told.events == ["session closes", "cache closes", "database closes"]
    assert not told.databases[0].is_open


def test_nobody_can_send_what_a_setup_yields(told: Told) -> None:
    with Sandbox(told.app) as sandbox, pytest.raises(JobFailed, match="it has no parameter 'db'"):
        sandbox.submit("names", n=1, db={"name": "forged"}).result()


def test_a_setup_that_fails_is_named_with_its_line_and_those_before_it_are_closed(
    told: Told,
) -> None:
    @told.app.setup
    def broken() -> Iterator[None]:
        raise ConnectionError("no\nroute")
        yield

    with (
        pytest.raises(
            AppError,
            match=r"setup 'broken' \(test_setups.py:\d+\) could not be opened: "
            r"ConnectionError: no route \(raised at test_setups.py:\d+\)",
        ),
        Sandbox(told.app),
    ):
        raise AssertionError("unreachable")

    assert told.events[-1] == "database closes"


def test_a_class_that_is_a_context_manager_may_be_returned() -> None:
    app = App()
    app.setup(opened_database)

    @app.job
    def is_open(db: Database) -> bool:
        return db.is_open

    with Sandbox(app) as sandbox:
        assert sandbox.submit(is_open).result() is True


def test_a_handler_without_its_setup_says_what_it_misses(told: Told) -> None:
    with pytest.raises(AppError, match="handler 'same_loop': it wants Session, and no setup is"):
        told.app.run("same_loop", b"\xc0", None)  # type: ignore[arg-type]


def opened_database() -> Database:
    return Database("returned")


def unannotated():  # type: ignore[no-untyped-def]
    yield 1


def of_a_number() -> Iterator[int]:
    yield 1


def of_the_context() -> Iterator[Context]:
    raise NotImplementedError
    yield


async def awaited() -> Database:
    return Database()


def from_nowhere(cache: Cache) -> Iterator[Session]:
    raise NotImplementedError
    yield


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (unannotated, "it does not say what it yields; annotate it"),
        (of_a_number, "it yields int, which handlers have for their arguments as well"),
        (of_the_context, "it yields Context, which handlers have"),
        (awaited, "is a coroutine; let it yield once"),
        (from_nowhere, "its parameter 'cache' can't be filled in; annotate it with what a setup"),
        (opened_database, r"it yields Database, and so does setup 'opened_database'"),
    ],
)
def test_a_setup_that_can_t_be_is_refused_with_its_line(
    function: Callable[..., Any], reason: str
) -> None:
    app = App()
    app.setup(opened_database)

    with pytest.raises(
        AppError, match=rf"setup '{function.__name__}' \(test_setups.py:\d+\): {reason}"
    ):
        app.setup(function)


def test_a_setup_that_returns_no_context_manager_is_refused_when_it_opens() -> None:
    app = App()

    def database() -> contextlib.AbstractContextManager[Database]:
        return 5  # type: ignore[return-value]

    app.setup(database)

    with (
        pytest.raises(AppError, match="returned a int; yield the value, or return a context"),
        Sandbox(app),
    ):
        pass
