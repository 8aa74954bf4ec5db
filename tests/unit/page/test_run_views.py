"""Runs and relations of jobs, read from a store: what is shown, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from shunter.model.job import Job, Status, When
from shunter.model.key import Action
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.workflow import JobEdge, JobGraph
from shunter.net.web.refusals import HttpRefusal
from shunter.page.relations import read_relations
from shunter.page.run_views import read_run, read_runs
from shunter.page.system_look import SystemLook
from shunter.page.view import PageRequest
from shunter.store.memory import MemoryStore
from shunter.store.port import Batch

T = TypeVar("T")
SHOP = JobScope(namespace="shop", sees_all=False)


def job(name: str, *, waits: bool = False, namespace: str = "shop", run: str = "r-1") -> Job:
    return Job(
        id=name,
        type=f"type-{name}",
        created=1.0,
        updated=1.0,
        status=Status.WAITING if waits else Status.QUEUED,
        when=When.ALL_OK if waits else None,
        namespace=namespace,
        workflow="nightly",
        run=run,
    )


def seen(read: Callable[[SystemLook], Awaitable[T]]) -> T:
    """What is read of a run of two jobs and one more of another namespace that waits for both."""

    async def play() -> T:
        store = MemoryStore()
        await store.open()
        jobs = (job("first"), job("second", waits=True), job("third", waits=True, namespace=""))
        edges = tuple(
            JobEdge(*it) for it in (("second", "first"), ("third", "first"), ("third", "second"))
        )
        await store.commit(Batch(now=1.0, graphs=[JobGraph(jobs=jobs, edges=edges)]))
        await store.insert([job("other", run="r-2")])
        ports: Any = SimpleNamespace(dispatcher=SimpleNamespace(store=store, now=lambda: 2.0))
        return await read(SystemLook(ports))

    return asyncio.run(play())


def asked(scope: JobScope = EVERYTHING, **more: Any) -> PageRequest:
    fields: dict[str, Any] = {"key": None, "may": frozenset(Action), "query": {}, **more}
    return PageRequest(scope=scope, **fields)


def test_runs_are_listed_with_how_their_jobs_stand() -> None:
    data = seen(lambda look: read_runs(look, asked()))
    assert list(data["runs"]) == ["r-2", "r-1"]
    run, state = data["runs"]["r-1"]
    assert (run.counts, state) == ({Status.QUEUED: 1, Status.WAITING: 2}, "queued")
    filtered = seen(lambda look: read_runs(look, asked(query={"workflow": "daily"})))
    assert filtered["runs"] == {}


@pytest.mark.parametrize(
    ("scope", "jobs", "lines"),
    [(EVERYTHING, {"first", "second", "third"}, 3), (SHOP, {"first", "second"}, 1)],
)
def test_a_run_is_drawn_as_far_as_it_may_be_seen(
    scope: JobScope, jobs: set[str], lines: int
) -> None:
    data = seen(lambda look: read_run(look, asked(scope, id="r-1")))
    assert set(data["jobs"]) == jobs
    assert len(data["drawing"].lines) == lines
    assert data["total"] == len(jobs)


@pytest.mark.parametrize("name", ["r", "r-11", "r-0", "r-9", ""])
def test_a_run_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(HttpRefusal, match="there is no run"):
        seen(lambda look: read_run(look, asked(id=name)))


@pytest.mark.parametrize(
    ("scope", "children"), [(EVERYTHING, ["second", "third"]), (SHOP, ["second"])]
)
def test_both_sides_of_a_job_are_shown_as_far_as_they_may_be_seen(
    scope: JobScope, children: list[str]
) -> None:
    first = seen(lambda look: read_relations(look, asked(scope), job("first")))
    assert first is not None
    assert [name for name, _ in first["children"]] == children
    assert first["parents"] == []
    [(name, parent)] = _parents("second", scope)
    assert (name, parent.type) == ("first", "type-first")


def _parents(name: str, scope: JobScope) -> list[Any]:
    data = seen(lambda look: read_relations(look, asked(scope), job(name, waits=True)))
    assert data is not None
    return list(data["parents"])


def test_a_job_without_relations_has_no_such_panel() -> None:
    alone = job("other", run="r-2")
    assert seen(lambda look: read_relations(look, asked(), alone)) is None
