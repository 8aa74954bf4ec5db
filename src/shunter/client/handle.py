"""The handle of one job: what its submitter holds in hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from shunter.client.sealed_values import opened_outcome
from shunter.codec import Codec
from shunter.errors import (
    AppError,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobRefused,
    NotPlaced,
    ResultTimeout,
)
from shunter.model.explanation import Explanation
from shunter.model.job import ErrorKind, Job, Status
from shunter.model.job_log import LogPiece, LogRestart
from shunter.model.submission import Receipt
from shunter.wire.messages import Outcome

R_co = TypeVar("R_co", covariant=True)

ReadResult = Callable[[bytes], Any]
"""How a result becomes a value: as the function is annotated to return it, or plain."""

decode: ReadResult = msgspec.msgpack.Decoder().decode


class _Journals(Protocol):
    def stream(
        self, job_id: str, on_restart: Callable[[int], None] | None, timeout: float | None
    ) -> AsyncIterator[Any]: ...


class _Logs(Protocol):
    async def log(self, job_id: str) -> str: ...

    def follow(
        self, job_id: str, timeout: float | None
    ) -> AsyncIterator[LogPiece | LogRestart]: ...


class _Client(Protocol):
    """What a handle asks of the client it belongs to."""

    def wants(self, job: AsyncJob[Any]) -> None: ...

    async def job(self, job_id: str) -> Job: ...

    async def why(self, job_id: str) -> Explanation: ...

    async def cancel(self, job_ids: Sequence[str]) -> list[Receipt]: ...

    async def signal(self, job_id: str, name: str, value: Any, *, id: str) -> None: ...  # noqa: A002

    @property
    def journals(self) -> _Journals: ...

    @property
    def logs(self) -> _Logs: ...


class AsyncJob(Generic[R_co]):
    """A job that was submitted, or is about to be."""

    def __init__(
        self, client: _Client, job_id: str, job_type: str, codec: Codec | None = None
    ) -> None:
        self.id = job_id
        self.type = job_type
        self.outcome: Outcome | None = None
        self.hint = ""
        self.is_planned = False
        self.read_result = decode
        self._fault: Exception | None = None
        self._client, self._codec = client, codec
        self._waiter: asyncio.Future[Outcome] | None = None

    def __repr__(self) -> str:
        word = self.outcome.status.word if self.outcome else "under way"
        return f"<job {self.id} ({self.type}): {word}>"

    @property
    def is_done(self) -> bool:
        """True if the outcome is known here; `status()` asks the dispatcher."""
        return self.outcome is not None

    async def result(self, timeout: float | None = None) -> R_co:
        """Wait for the result; raise JobFailed, JobCancelled or ResultTimeout."""
        found: R_co = value_of(await self.wait(timeout), self.read_result)
        return found

    async def wait(self, timeout: float | None = None) -> Outcome:
        """Wait until the job has ended, however it ended; raise CodecError if it can't be read."""
        if self.outcome is None:
            try:
                await asyncio.wait_for(asyncio.shield(self._awaited()), timeout)
            except TimeoutError:
                raise ResultTimeout(self.id, timeout or 0.0, self.hint) from None
        known = self.known_outcome()
        assert known is not None
        return known

    def known_outcome(self) -> Outcome | None:
        """Return how the job ended, if that is known here, or raise CodecError."""
        if self._fault is not None:
            raise self._fault
        return self.outcome

    def when_done(self, call: Callable[[AsyncJob[Any]], None]) -> None:
        """Have `call` called with this job once its outcome is known."""
        if self.outcome is not None:
            call(self)
        else:
            self._awaited().add_done_callback(lambda _: call(self))

    def _awaited(self) -> asyncio.Future[Outcome]:
        if self.is_planned:
            raise AppError(
                f"job {self.id}: it is not sent yet; wait for it behind the block of its workflow"
            )
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
            self._client.wants(self)
        return self._waiter

    async def status(self) -> Status:
        """Ask the dispatcher how far the job is."""
        return (await self._client.job(self.id)).status

    async def why(self) -> Explanation:
        """Ask why the job does not run, who runs it, or where its time went."""
        return await self._client.why(self.id)

    async def cancel(self) -> None:
        """Ask for the job to be stopped, or raise JobRefused where it can't be."""
        (receipt,) = await self._client.cancel([self.id])
        raise_refusal(receipt)

    async def signal(self, name: str, value: Any = None, *, id: str = "") -> None:  # noqa: A002
        """Send the job a signal, or raise JobRefused; of those with one `id` the first counts."""
        await self._client.signal(self.id, name, value, id=id)

    def stream(
        self, *, on_restart: Callable[[int], None] | None = None, timeout: float | None = None
    ) -> AsyncIterator[Any]:
        """Yield what the handler emits, from the start, until the job has ended.

        If a run is repeated, `on_restart` is called with the number of the first chunk that is
        void; without it, StreamRestarted is raised. ResultTimeout is raised if nothing comes for
        `timeout` seconds.
        """
        return self._client.journals.stream(self.id, on_restart, timeout)

    async def log(self) -> str:
        """Return what the current run has printed so far, or the last one if none is under way.

        Of a run that goes on it is the last 16 KiB, a second or two old.
        """
        return await self._client.logs.log(self.id)

    async def follow_log(
        self, *, on_restart: Callable[[int], None] | None = None, timeout: float | None = None
    ) -> AsyncIterator[str]:
        """Yield what the handler prints, a second or two later, until the job has ended.

        If the job runs again, `on_restart` is called with the attempt whose log follows.
        ResultTimeout is raised if nothing comes for `timeout` seconds.
        """
        async for each in self._client.logs.follow(self.id, timeout):
            if isinstance(each, LogPiece):
                yield each.text
            elif on_restart is not None:
                on_restart(each.attempt)

    def settle(self, outcome: Outcome) -> None:
        """Take note of how the job ended; a result that can't be opened is for who waits."""
        self.outcome = outcome
        try:
            self.outcome = opened_outcome(self._codec, outcome)
        except Exception as error:
            self._fault = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(self.outcome)

    def mark_lost(self) -> None:
        """Take note that the dispatcher does not know the job."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(JobNotFound(self.id))


def value_of(outcome: Outcome, read: ReadResult = decode) -> Any:
    """Return the result in an outcome, or raise what went wrong."""
    match outcome.status:
        case Status.COMPLETED:
            return None if outcome.result is None else read(outcome.result)
        case Status.CANCELLED:
            message = outcome.error.message if outcome.error else "cancelled"
            raise JobCancelled(outcome.job_id, message)
        case _:
            error = outcome.error
            if error is None:
                raise JobFailed(outcome.job_id, "unknown", "no reason was recorded")
            if error.kind is ErrorKind.UNPLACED:
                raise NotPlaced(outcome.job_id, error.message)
            raise JobFailed(outcome.job_id, error.kind, error.message, error.traceback)


def raise_refusal(receipt: Receipt) -> None:
    """Raise what a receipt says against a job."""
    if receipt.reason:
        reason = receipt.reason.removeprefix(f"job {receipt.job_id}: ")
        if receipt.field == "id" and reason == JobNotFound.REASON:
            raise JobNotFound(receipt.job_id)
        raise JobRefused(receipt.job_id, receipt.field, reason.removeprefix(f"{receipt.field}: "))
