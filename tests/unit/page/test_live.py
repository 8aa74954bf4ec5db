"""The stream of a page: what changed, trouble while the store fails, and an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from shunter.errors import StoreError
from shunter.page import live
from shunter.page.changes import Snapshot


def events(steps: list[Snapshot | Exception], *, shown: str = "") -> list[tuple[str, object]]:
    """Play looks to a stream; it is over when there are no more."""
    left: Iterator[Snapshot | Exception] = iter(steps)
    told: list[bytes] = []
    over = False

    async def look() -> Snapshot:
        nonlocal over
        step = next(left, None)
        if step is None:
            over = True
            raise StoreError("over")
        if isinstance(step, Exception):
            raise step
        return step

    async def play() -> None:
        stream = live.stream(look, feed=live.Feed(look), shown=shown, is_over=lambda: over)
        told.extend([event async for event in stream])

    asyncio.run(play())
    found = []
    for event in told:
        lines = event.decode().splitlines()
        if lines[0].startswith("event: "):
            found.append((lines[0][7:], json.loads(lines[1][6:])))
    return found


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(live, "SHARE", 0)


ONE, TWO = Snapshot({"a": "1"}), Snapshot({"a": "2"})


def test_only_what_changed_is_told() -> None:
    kinds = events([ONE, ONE, TWO], shown=ONE.digest)
    assert kinds[0] == ("change", {"regions": {"a": "2"}})


def test_a_page_that_shows_something_else_is_told_all() -> None:
    assert events([ONE], shown="other")[0] == ("change", {"regions": {"a": "1"}})


def test_trouble_is_told_once_and_all_is_shown_again_after_it() -> None:
    fault = StoreError("the disk is full")
    assert events([ONE, fault, fault, ONE], shown=ONE.digest)[:2] == [
        ("trouble", {"message": "the disk is full"}),
        ("change", {"regions": {"a": "1"}}),
    ]


def test_a_text_with_line_breaks_can_not_end_an_event() -> None:
    nasty = Snapshot({"a": "x\n\nevent: change\ndata: {}\r\r"})
    [(kind, data), *_] = events([nasty])
    assert (kind, data) == ("change", {"regions": {"a": nasty.regions["a"]}})


def test_a_stream_says_when_it_ends() -> None:
    assert events([])[-1] == ("bye", {})


class Clock:
    """Time, and how much of a processor was used until then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.used = 0.0
        monkeypatch.setattr(live, "monotonic", lambda: self.now)
        monkeypatch.setattr(live, "process_time", lambda: self.used)
        monkeypatch.setattr(live.asyncio, "sleep", self._sleep)
        monkeypatch.setattr(live, "LOOK_SECONDS", 0.7)
        monkeypatch.setattr(live, "SHARE", 20)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


def rests(clock: Clock, looks: list[tuple[float, float]]) -> list[float]:
    """Return how long a feed rests after looks that take so long at so much of a processor."""
    left = iter(looks)

    async def look() -> Snapshot:
        took, _ = next(left)
        clock.now += took
        return ONE

    async def play() -> list[float]:
        feed, found = live.Feed(look), []
        for _, busy in looks:
            await feed.look()
            began = clock.now
            await feed.rest(lambda: False)
            found.append(round(clock.now - began, 2))
            clock.used += busy * (clock.now - began)
        return found

    return asyncio.run(play())


def test_one_look_that_had_to_wait_does_not_slow_a_page_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    assert rests(clock, [(0.01, 0), (3.0, 0), (0.02, 0), (3.0, 0), (3.0, 0)]) == [0.7] * 5
    assert rests(clock, [(3.0, 0)] * 3) == [30.0] * 3


def test_pages_look_half_as_often_while_the_dispatcher_is_busy_and_see_events_within_two_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused = rests(Clock(monkeypatch), [(0.0, 0.0), (0.0, 1.7), (0.0, 0.0), (0.0, 0.0)])
    assert paused == [0.7, 0.7, 1.4, 0.7]


def test_who_is_refused_before_a_look_waits_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    asyncio.run(live.Feed(never).rest(lambda: False))
    assert clock.now == pytest.approx(0.7)


async def never() -> Snapshot:
    raise AssertionError("nobody is to look")


def test_what_changed_is_found_out_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(live, "changes", lambda *pair: asked.append(pair) or {"regions": {}})
    feed = live.Feed(never)
    assert len({feed.between(ONE, TWO) for _ in range(20)}) == 1
    assert asked == [(ONE, TWO)]
    assert feed.between(ONE, ONE) == b""


def test_all_who_watch_a_view_look_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty pages that were opened one after the other cost one look for each interval."""
    clock, looked = Clock(monkeypatch), []

    async def read() -> Snapshot:
        looked.append(clock.now)
        return ONE

    async def play() -> None:
        feed = live.Feed(read)
        await feed.look()
        for opened in (0.1, 0.3, 0.6):
            clock.now = opened
            await feed.rest(lambda: False)
            assert clock.now == pytest.approx(0.7)

    asyncio.run(play())
    assert looked == [0.0]
