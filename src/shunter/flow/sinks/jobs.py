"""Events as jobs: each is submitted once, however often it comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from shunter.client.async_client import AsyncClient
from shunter.client.options import JobOptions
from shunter.client.sync_client import Client
from shunter.codec import Codec
from shunter.errors import FlowError, ShunterError, Unreachable
from shunter.payload import payload_of

AT_ONCE = 1000
WAIT_SECONDS = 0.04
OPEN_SECONDS = 5.0
ANSWER_SECONDS = 30.0


class SubmitJobs:
    """Submits a job of a type for each event.

    `key` makes of an event what no other job has: a second one with the same key is not stored.
    `call` makes the job's arguments of an event; without it the event is what is passed on. A
    dict has named arguments, a tuple or list several, anything else is one. `options` are those
    of a submission, such as `priority`. `codec` is that of the app that does the jobs.
    """

    def __init__(
        self,
        type: str,  # noqa: A002
        *dispatchers: str,
        key: Callable[[Any], object],
        call: Callable[[Any], Any] = lambda event: event,
        codec: Codec | None = None,
        **options: Any,
    ) -> None:
        self._type, self._dispatchers, self._options = type, dispatchers, options
        self._key, self._call, self._codec = key, call, codec
        self._conversation: _Conversation | None = None
        JobOptions(**options)

    def part(self, index: int, count: int) -> SubmitJobs:
        return SubmitJobs(
            self._type,
            *self._dispatchers,
            key=self._key,
            call=self._call,
            codec=self._codec,
            **self._options,
        )

    def open(self, saved: None) -> None:
        self.abandon()
        try:
            with Client(*self._dispatchers, timeout=OPEN_SECONDS) as client:
                client.standing()
        except Unreachable as error:
            raise FlowError(str(error)) from error
        options = {**self._options, "reply": False}
        self._conversation = _Conversation(self._dispatchers, options, self._codec)

    def write(self, events: Sequence[Any]) -> int:
        assert self._conversation is not None, "not open"
        if not self._conversation.is_idle(WAIT_SECONDS):
            return 0
        some = events[:AT_ONCE]
        jobs = [(str(self._key(event)), _payload_of_call(self._call(event))) for event in some]
        self._conversation.submit(self._type, jobs)
        return len(some)

    def checkpoint(self) -> None:
        if self._conversation is not None:
            self._conversation.is_idle(None)

    def close(self) -> None:
        self.checkpoint()
        self.abandon()

    def abandon(self) -> None:
        if self._conversation is not None:
            self._conversation.end()
            self._conversation = None


class _Conversation:
    """An asynchronous client on a thread of its own, which submits some jobs while others come."""

    def __init__(
        self, dispatchers: tuple[str, ...], options: dict[str, Any], codec: Codec | None
    ) -> None:
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, "shunter-sink")
        client = AsyncClient(*dispatchers, timeout=ANSWER_SECONDS, codec=codec)
        self._client = client.with_options(**options)
        self._under_way: Future[None] | None = None

    def __del__(self) -> None:
        self.end()

    def submit(self, job_type: str, jobs: list[tuple[str, bytes]]) -> None:
        """Begin to submit jobs, each with its key and payload."""
        work = _submit(self._client, job_type, jobs)
        self._under_way = self._thread.submit(self._runner.run, work)

    def is_idle(self, timeout: float | None) -> bool:
        """True if all that was begun is stored, or raise why it can't be."""
        if self._under_way is None:
            return True
        if wait([self._under_way], timeout).not_done:
            return False
        done, self._under_way = self._under_way, None
        try:
            done.result()
        except ShunterError as error:
            raise FlowError(str(error)) from error
        return True

    def end(self) -> None:
        """Let go of the connection once nothing is under way."""
        with contextlib.suppress(RuntimeError):
            self._thread.submit(_end, self._runner, self._client)
            self._thread.shutdown(wait=False)


async def _submit(client: AsyncClient, job_type: str, jobs: list[tuple[str, bytes]]) -> None:
    await asyncio.gather(
        *(client.with_options(unique_key=key).submit_raw(job_type, body) for key, body in jobs)
    )


def _end(runner: asyncio.Runner, client: AsyncClient) -> None:
    runner.run(client.close())
    runner.close()


def _payload_of_call(call: Any) -> bytes:
    if isinstance(call, dict):
        return payload_of(**call)
    if isinstance(call, tuple | list):
        return payload_of(*call)
    return payload_of(call)
