"""How runs in a child ask their parent: together, and woken together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from shunter.app import App
from shunter.model.journal import EntryKind
from shunter.wire.messages import Assignment
from shunter.worker.asks import JournalAnswer, JournalAsk, KeepAsk, RecallAsk
from shunter.worker.journal_methods import journal_of
from shunter.worker.pool.first_runs import run_key
from shunter.worker.pool.frames import FrameReader, Mark, answered, read_run_ask
from shunter.worker.pool.parent_line import ParentLine
from shunter.worker.run_seal import RunSeal

KEPT = JournalAnswer(is_kept=True)
ASK = KeepAsk(EntryKind.STEP, "only", b"\x01")


class Parent:
    """The other end of the line."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream, self._reader = stream, FrameReader()
        stream.setblocking(False)

    async def asks(self) -> list[tuple[int, JournalAsk]]:
        """Return what one read brings: number and ask of each."""
        data = await asyncio.get_running_loop().sock_recv(self._stream, 1 << 16)
        frames = list(self._reader.feed(data))
        assert {mark for mark, *_ in frames} == {Mark.ASK}
        return [(it.number, it.ask) for it in (read_run_ask(body) for *_, body in frames)]

    def answer(self, *numbers: int) -> None:
        self._stream.sendall(b"".join(answered(number, KEPT) for number in numbers))


@pytest.fixture
def ends() -> Iterator[tuple[ParentLine, Parent]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ParentLine(ours), Parent(theirs)


def journal(line: ParentLine, name: str, *, is_first: bool) -> Any:
    job = Assignment(name, 1, "work", b"\xc0", None, None)
    seal = RunSeal(App(), name, "work")
    return journal_of(line, run_key(7, is_first=is_first), job, seal)


def test_asks_of_one_turn_of_a_loop_arrive_together(ends: tuple[ParentLine, Parent]) -> None:
    line, parent = ends

    async def scenario() -> None:
        answers = [line.ask_soon(key, ASK) for key in (2, 4, 6)]

        asked = await parent.asks()
        parent.answer(*(number for number, _ in asked))

        assert len(asked) == 3
        assert await asyncio.gather(*answers) == [KEPT] * 3

    asyncio.run(asyncio.wait_for(scenario(), 10.0))


def test_answers_that_arrive_together_wake_their_loop_once(
    ends: tuple[ParentLine, Parent], monkeypatch: pytest.MonkeyPatch
) -> None:
    line, parent = ends
    wakes: list[object] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
            wakes.append(args)
            return wake(*args, **kwargs)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        answers = [line.ask_soon(key, ASK) for key in range(2, 100, 2)]
        parent.answer(*(number for number, _ in await parent.asks()))
        await asyncio.gather(*answers)

    asyncio.run(asyncio.wait_for(scenario(), 10.0))

    assert len(wakes) == 1


def test_an_answer_to_a_coroutine_that_was_cancelled_harms_no_other(
    ends: tuple[ParentLine, Parent],
) -> None:
    line, parent = ends

    async def scenario() -> None:
        gone, other = line.ask_soon(2, ASK), line.ask_soon(4, ASK)
        asked = await parent.asks()
        gone.cancel()

        parent.answer(*(number for number, _ in asked))

        assert await other == KEPT

    asyncio.run(asyncio.wait_for(scenario(), 10.0))


def test_a_thread_asks_at_once_and_is_answered(ends: tuple[ParentLine, Parent]) -> None:
    line, parent = ends

    async def scenario() -> None:
        waiting = asyncio.create_task(asyncio.to_thread(line.ask(2, ASK).result, 10.0))
        parent.answer(*(number for number, _ in await parent.asks()))
        assert await waiting == KEPT

    asyncio.run(asyncio.wait_for(scenario(), 10.0))


@pytest.mark.parametrize(("is_first", "expected"), [(True, KeepAsk), (False, RecallAsk)])
def test_a_first_run_asks_for_nothing_that_was_kept_before(
    ends: tuple[ParentLine, Parent], is_first: bool, expected: type[JournalAsk]
) -> None:
    line, parent = ends
    mine = journal(line, "j", is_first=is_first)

    async def scenario() -> None:
        stepping = asyncio.ensure_future(mine.step("only", partial(int, "1"), (), {}, "fail"))
        ((_, ask),) = await parent.asks()
        stepping.cancel()

        assert isinstance(ask, expected)

    asyncio.run(asyncio.wait_for(scenario(), 10.0))


def test_a_run_that_has_only_kept_steps_can_end_without_waiting(
    ends: tuple[ParentLine, Parent],
) -> None:
    line, _ = ends
    mine = journal(line, "j", is_first=True)

    assert not mine.is_unsynced
    mine.emit("a chunk")
    assert mine.is_unsynced
