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
        stream = live.stream(look, shared=live.SharedChanges(), shown=shown, is_over=lambda: over)
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


def test_one_look_that_had_to_wait_does_not_slow_a_page_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[float] = []
    took = iter([0.01, 3.0, 0.02, 3.0, 3.0])
    at = [0.0]

    async def look() -> Snapshot:
        at[0] += next(took)
        return ONE

    async def rest(seconds: float, is_over: object) -> None:
        rests.append(round(seconds, 2))

    monkeypatch.setattr(live, "SHARE", 20)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.7)
    monkeypatch.setattr(live, "_rest", rest)
    monkeypatch.setattr(live, "monotonic", lambda: at[0])

    async def play() -> None:
        stream = live.stream(
            look, shared=live.SharedChanges(), shown="", is_over=lambda: len(rests) == 5
        )
        async for _ in stream:
            pass

    asyncio.run(play())
    assert rests == [0.7, 0.7, 0.7, 0.7, 0.7]
    took = iter([3.0] * 3)
    rests[:] = [0.0] * 2
    asyncio.run(play())
    assert rests[2:] == [30.0] * 3


def test_what_changed_is_found_out_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(live, "changes", lambda *pair: asked.append(pair) or {"regions": {}})
    shared = live.SharedChanges()
    assert len({shared.between(ONE, TWO) for _ in range(20)}) == 1
    assert asked == [(ONE, TWO)]
    assert shared.between(ONE, ONE) == b""
