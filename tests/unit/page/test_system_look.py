"""What open pages read: once for all who ask at once, and anew after a change from here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from shunter.page.system_look import SystemLook


def looking() -> SystemLook:
    ports: Any = SimpleNamespace(dispatcher=SimpleNamespace(store=None))
    return SystemLook(ports)


def test_twenty_who_ask_for_the_same_are_answered_by_one_read() -> None:
    look, reads = looking(), []

    async def read() -> int:
        await asyncio.sleep(0)
        reads.append(1)
        return len(reads)

    async def play() -> list[int]:
        together = await asyncio.gather(*(look.once("a", read) for _ in range(20)))
        return [*together, await look.once("a", read)]

    assert set(asyncio.run(play())) == {1}


def test_after_a_change_nobody_sees_what_was_read_before_it() -> None:
    look, store, go, began = looking(), ["old"], asyncio.Event(), asyncio.Event()

    async def read() -> str:
        found = store[0]
        began.set()
        await go.wait()
        return found

    async def play() -> tuple[str, str, str]:
        early = asyncio.create_task(look.once("a", read))
        await began.wait()
        began.clear()
        store[0] = "new"
        look.forget()
        late = asyncio.create_task(look.once("a", read))
        await began.wait()
        go.set()
        return await early, await late, await look.once("a", read)

    assert asyncio.run(play()) == ("old", "new", "new")
