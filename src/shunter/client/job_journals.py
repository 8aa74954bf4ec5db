"""What a client asks of jobs' journals: signals in, steps and streams out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from shunter.client.handle import raise_refusal
from shunter.client.schedules import Ask
from shunter.client.sealed_values import opened_chunk, opened_entry, sealed_entry, sealed_signal
from shunter.codec import Codec
from shunter.errors import AppError, JobNotFound, JobRefused, ResultTimeout, StreamRestarted
from shunter.model.job_stream import FIRST_PAUSE, Chunk, Restart, StreamReader, next_pause
from shunter.model.journal import EntryKind, JournalEntry, Signal, before_step, signal_fault
from shunter.net.environment import Environment
from shunter.payload import result_of
from shunter.wire.messages import Accepted, JournalAsked, JournalShown, Kind, Signals


def signal_body(job_id: str, name: str, value: Any) -> bytes:
    """Encode the value of a signal, or raise JobRefused."""
    try:
        return result_of(value)
    except AppError:
        kind = type(value).__qualname__
        raise JobRefused(
            job_id,
            "value",
            f"the value of the signal {name!r} can't be sent: it is, or has in it, no plain value "
            f"({kind}); send plain values, datetimes, dataclasses or msgspec structs",
        ) from None


class JobJournals:
    """The journals of all jobs, as one client sees them."""

    def __init__(self, ask: Ask, codec: Codec | None, environment: Environment) -> None:
        self._ask, self._codec, self._environment = ask, codec, environment

    async def signal(self, job_id: str, name: str, value: bytes, signal_id: str) -> None:
        """Send a signal, or raise JobRefused."""
        sent = Signal(job_id, name, signal_id, sealed_signal(self._codec, value, job_id))
        if fault := signal_fault(sent):
            raise JobRefused(job_id, *fault)
        answer = await self._ask(Kind.SIGNAL, lambda n: Signals(n, (sent,)))
        assert isinstance(answer, Accepted)
        for receipt in answer.receipts:
            raise_refusal(receipt)

    async def entries(self, job_id: str, kind: EntryKind = EntryKind.STEP) -> list[JournalEntry]:
        """Return what a job has kept: its steps, or the signals that it was sent."""
        found: list[JournalEntry] = []
        while True:
            shown = await self.page(job_id, kind, found[-1].key if found else "")
            found += shown.entries
            if not shown.is_more:
                return [opened_entry(self._codec, entry) for entry in found]

    async def before(self, job_id: str, step: str, new_id: str) -> tuple[JournalEntry, ...]:
        """Return what a rerun from a step takes over, sealed for the new job."""
        steps = await self.entries(job_id, EntryKind.STEP)
        signals = await self.entries(job_id, EntryKind.SIGNAL)
        found = before_step(job_id, steps, signals, step)
        return tuple(sealed_entry(self._codec, entry, new_id) for entry in found)

    async def stream(
        self, job_id: str, on_restart: Callable[[int], None] | None, timeout: float | None
    ) -> AsyncIterator[Any]:
        """Yield what a job emits, from the start, until it has ended."""
        reader, pause = StreamReader(), FIRST_PAUSE
        heard_at = self._environment.monotonic()
        while True:
            shown = await self.page(job_id, EntryKind.CHUNKS, reader.after)
            for each in reader.read(shown.entries):
                match each:
                    case Restart(_, number) if on_restart is None:
                        raise StreamRestarted(job_id, number)
                    case Restart(_, number):
                        assert on_restart is not None
                        on_restart(number)
                    case Chunk():
                        yield opened_chunk(self._codec, each.body, job_id)
            assert shown.status is not None
            if shown.is_more:
                continue
            if shown.status.is_final:
                return
            now = self._environment.monotonic()
            heard_at = now if shown.entries else heard_at
            if timeout is not None and now - heard_at >= timeout:
                raise ResultTimeout(job_id, timeout)
            pause = next_pause(pause, has_news=bool(shown.entries))
            await asyncio.sleep(pause)

    async def page(self, job_id: str, kind: EntryKind, after: str = "") -> JournalShown:
        """Return some of what a job has kept and how it stands, or raise JobNotFound."""
        answer = await self._ask(Kind.JOURNAL, lambda n: JournalAsked(n, job_id, kind, after))
        assert isinstance(answer, JournalShown)
        if answer.status is None:
            raise JobNotFound(job_id)
        return answer
