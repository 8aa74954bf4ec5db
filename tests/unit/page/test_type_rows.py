"""Which types the page lists, and how many workers do each."""

from __future__ import annotations

from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.page.overview import type_rows
from shunter.store.search import QueueDepth

WORKER = Worker(
    id="w",
    kind=WorkerKind.FULL,
    hostname="",
    port=0,
    handlers=(Handler("pay", has_hooks=True),),
    max_jobs=1,
    registered=0.0,
    last_pinged=0.0,
)


def test_calls_of_hooks_are_listed_where_there_are_any_with_the_workers_that_do_them() -> None:
    assert [row.type for row in type_rows([], [], [WORKER], [])] == ["pay"]

    depths = [QueueDepth(type="final-failure/pay")]
    rows = {row.type: row.workers for row in type_rows(depths, [], [WORKER], [])}

    assert rows == {"pay": 1, "final-failure/pay": 1}
