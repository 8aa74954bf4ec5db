"""Each job that ends is found once, in whatever order jobs end and wherever reading stops."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from long_runs import examples
from shunter.flow.sources import job_harvest
from shunter.flow.sources.job_harvest import Harvest
from shunter.flow.sources.reading_ahead import ReadingAhead
from shunter.model.job import FINAL, Job, Status
from unit.flow.io_steps import carried


class Store:
    """Jobs in the order of storing, listed as a dispatcher lists them, some at a time."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.listed = 0

    def add(self, created: float) -> None:
        self.jobs.append(Job(id=f"j{len(self.jobs)}", type="t", created=created, updated=created))

    def end(self, place: int, status: Status) -> None:
        job = self.jobs[place]
        self.jobs[place] = Job(
            id=job.id, type="t", created=job.created, updated=job.created, status=status
        )

    def listing(self, status: Status | None, before: str | None) -> list[Job]:
        below = len(self.jobs) if before is None else int(before[1:])
        fitting = [job for job in self.jobs[:below] if status in (None, job.status)]
        page = fitting[: -job_harvest.LISTED_AT_ONCE - 1 : -1]
        self.listed += len(page)
        return page


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_harvest, "LISTED_AT_ONCE", 3)
    monkeypatch.setattr(job_harvest, "FEW", 4)


class Follower:
    """Gives out what is found, and may be stopped and begun again at its position."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.found: list[str] = []
        self._mark, self._given = 0.0, dict[str, float]()
        self.begin_again()

    def begin_again(self) -> None:
        kept = {job_id: at for job_id, at in self._given.items() if at >= self._mark}
        self._given = carried(kept)
        self._harvest = Harvest(self._store.listing, mark=self._mark, given=self._given)

    def round(self, most: int | None = None) -> None:
        """Give out all that is new, or stop in the middle of it."""
        for count, ended in enumerate(self._harvest.round()):
            if count == most:
                self.begin_again()
                return
            self.found.append(ended.id)
            self._given[ended.id], self._mark = ended.created, ended.mark


@settings(max_examples=examples(200))
@given(seed=st.integers(0, 2**32), lateness=st.sampled_from([0.0, 30.0, 59.0]))
def test_each_job_is_found_once(seed: int, lateness: float) -> None:
    chance, store = random.Random(seed), Store()
    follower = Follower(store)
    for number in range(200):
        match chance.choice(["add", "add", "end", "end", "round", "stop"]):
            case "add":
                store.add(1000.0 + 10.0 * number - lateness * chance.random())
            case "end":
                under_way = [p for p, job in enumerate(store.jobs) if not job.status.is_final]
                if under_way:
                    store.end(chance.choice(under_way), chance.choice(sorted(FINAL)))
            case "round":
                follower.round(chance.choice([None, chance.randrange(5)]))
            case "stop":
                follower.begin_again()
    follower.round()

    assert sorted(follower.found) == sorted(job.id for job in store.jobs if job.status.is_final)


def test_only_the_statuses_asked_for_are_found() -> None:
    store = Store()
    for place, status in enumerate([Status.COMPLETED, Status.FAILED, Status.CANCELLED]):
        store.add(1000.0)
        store.end(place, status)
    harvest = Harvest(store.listing, statuses={Status.FAILED})

    assert [ended.id for ended in harvest.round()] == ["j1"]
    assert list(harvest.round()) == []


def test_following_looks_only_at_what_is_recent() -> None:
    store = Store()
    harvest = Harvest(store.listing)
    found = 0
    for place in range(2000):
        store.add(1000.0 + 10.0 * place)
        store.end(place, Status.COMPLETED)
        found += len(list(harvest.round()))

    assert found == 2000
    assert store.listed < 2000 * 60


# ---- reading ahead


def until_taken(ahead: ReadingAhead) -> Any:
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        taken = ahead.take()
        if taken is not None or ahead.is_at_end:
            return taken
    raise AssertionError("nothing came")


def test_batches_come_in_order_and_then_the_end() -> None:
    def batches(_: threading.Event) -> Generator[list[int], None, None]:
        yield from ([number] for number in range(20))

    ahead = ReadingAhead(batches)

    assert [until_taken(ahead) for _ in range(20)] == [[number] for number in range(20)]
    assert until_taken(ahead) is None
    assert ahead.is_at_end


def test_an_error_comes_behind_the_batches_before_it() -> None:
    def batches(_: threading.Event) -> Generator[list[int], None, None]:
        yield [1]
        raise ValueError("oops")

    ahead = ReadingAhead(batches)

    assert until_taken(ahead) == [1]
    for _ in range(2):
        with pytest.raises(ValueError, match="oops"):
            until_taken(ahead)


def test_only_some_batches_are_made_ahead_and_closing_ends_it() -> None:
    made, ended = [0], threading.Event()

    def batches(_: threading.Event) -> Generator[list[int], None, None]:
        try:
            while True:
                made[0] += 1
                yield [made[0]]
        finally:
            ended.set()

    ahead = ReadingAhead(batches)
    assert until_taken(ahead) == [1]
    ahead.close()

    assert ended.wait(10.0)
    assert made[0] <= 7
