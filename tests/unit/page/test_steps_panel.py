"""The kept steps of a job, on its page."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from shunter.model.job import Job
from shunter.model.journal import EntryKind, JournalEntry
from shunter.page import steps_panel
from shunter.page.steps_panel import read_steps, step_row
from shunter.page.system_look import SystemLook
from shunter.page.view import Data, PageRequest
from shunter.store.port import JournalPage

JOB = Job(id="j", type="t", created=0.0, updated=0.0, attempt=2)


def a_step(name: str, at: float = 1.0, result: object = None) -> JournalEntry:
    body = msgspec.msgpack.encode(result)
    return JournalEntry(
        job_id="j", kind=EntryKind.STEP, key=name, attempt=1, at=at, body=body, seconds=0.5
    )


class TwoPages:
    """A store that shows one entry at a time, by its key."""

    def __init__(self, *entries: JournalEntry) -> None:
        self.entries = sorted(entries, key=lambda it: it.key)
        self.asked = 0

    async def journal(self, job_id: str, kind: EntryKind, *, after: str = "") -> JournalPage:
        self.asked += 1
        left = [it for it in self.entries if it.key > after]
        return JournalPage(left[:1], is_more=len(left) > 1)


def shown(store: TwoPages, job: Job = JOB) -> Data | None:
    look = SystemLook(cast(Any, SimpleNamespace(dispatcher=SimpleNamespace(store=store))))
    return asyncio.run(read_steps(look, cast(PageRequest, None), job))


def test_steps_are_in_the_order_in_which_they_were_kept() -> None:
    data = shown(TwoPages(a_step("a", 3.0), a_step("b", 1.0), a_step("c", 2.0)))

    assert data is not None
    assert [row.name for row in data["steps"]] == ["b", "c", "a"]
    assert data["left_out"] == 0


def test_of_very_many_the_last_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_panel, "SHOWN", 2)

    data = shown(TwoPages(a_step("a", 1.0), a_step("b", 2.0), a_step("c", 3.0)))

    assert data is not None
    assert ([row.name for row in data["steps"]], data["left_out"]) == (["b", "c"], 1)


def test_a_job_without_steps_has_no_panel_and_one_that_has_not_run_is_not_asked_for() -> None:
    store = TwoPages()

    assert shown(store) is None
    assert shown(store, msgspec.structs.replace(JOB, attempt=0)) is None
    assert store.asked == 1


def test_a_long_result_is_cut() -> None:
    assert step_row(a_step("a", result=[1, "x"])).result == '[1,"x"]'
    assert len(step_row(a_step("a", result="x" * 5000)).result) == 201
