"""The synchronous UDP client: the asynchronous one on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from os import PathLike
from typing import Any, TypeVar

from shunter.app import JobFunction
from shunter.client.tasks import TaskName
from shunter.client.udp_client import AsyncTask, AsyncUdpClient, task_value
from shunter.codec import Codec
from shunter.net.dialogue import DEFAULT_DISPATCHER
from shunter.wire.messages import Outcome
from shunter.wire.udp.keys import Secret
from shunter.wire.udp.packets import MAX_PACKET_BYTES
from shunter.wire.udp.peers import UdpAddress

T = TypeVar("T")


class AddedTask:
    """A task that was added."""

    def __init__(self, client: UdpClient, task: AsyncTask) -> None:
        self._client, self._task = client, task

    def __repr__(self) -> str:
        return repr(self._task)

    @property
    def id(self) -> TaskName:
        """This client's own name for it."""
        return self._task.id

    @property
    def job_id(self) -> str:
        """The dispatcher's name for it, where the notice of its end said so."""
        return self._task.job_id

    @property
    def is_done(self) -> bool:
        """True if the notice of its end has come."""
        return self._task.is_done

    def wait(self, timeout: float | None = None) -> Outcome:
        """Wait until the task has ended, however it ended."""
        return self._task.known_outcome() or self._client._do(self._task.wait(timeout))

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result; raise JobFailed, NotPlaced or ResultTimeout."""
        return task_value(self.wait(timeout))


class UdpClient:
    """Adds tasks at a dispatcher. Use it with `with`, from any thread."""

    def __init__(
        self,
        dispatcher: UdpAddress = DEFAULT_DISPATCHER,
        secret: Secret | bytes | None = None,
        *,
        key: str = "",
        key_file: str | PathLike[str] | None = None,
        timeout: float = 10.0,
        name: str = "",
        bind: UdpAddress | None = None,
        max_packet_bytes: int = MAX_PACKET_BYTES,
        codec: Codec | None = None,
    ) -> None:
        self._async = AsyncUdpClient(
            dispatcher,
            secret,
            key=key,
            key_file=key_file,
            timeout=timeout,
            name=name,
            bind=bind,
            max_packet_bytes=max_packet_bytes,
            codec=codec,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="shunter-udp-client", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> UdpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; tasks that were added go on."""
        if self._loop.is_closed():
            return
        self._do(self._async.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add_task(
        self,
        type: str | None = None,  # noqa: A002 - the name that the protocol gives it
        payload: Any = None,
        *,
        task_id: TaskName | None = None,
        priority: int | None = None,
    ) -> AddedTask:
        """Add a task; when this returns, the dispatcher has confirmed it.

        A payload that is a list is positional arguments, a map is named ones; `Packed` bytes are
        a msgpack document already. Raises JobRefused, DispatcherBusy or Unreachable.
        """
        work = self._async.add_task(type, payload, task_id=task_id, priority=priority)
        return AddedTask(self, self._do(work))

    def submit(self, job: str | JobFunction[..., Any], /, *args: Any, **kwargs: Any) -> AddedTask:
        """Add a task for a call of this job, under an id made here."""
        return AddedTask(self, self._do(self._async.submit(job, *args, **kwargs)))

    def submit_many(
        self, job: str | JobFunction[..., Any], calls: Iterable[Any]
    ) -> list[AddedTask]:
        """Add a task for each call: a list of positional arguments, a dict of named ones, or one.

        Some hundreds are on their way at a time. Where one is refused, that is raised, and the
        others go on.
        """
        return [AddedTask(self, task) for task in self._do(self._async.submit_many(job, calls))]

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
