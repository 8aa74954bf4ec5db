"""The client of the UDP dialogue. The synchronous one is a face over it.

A task is named here before it is sent, so that adding it may be repeated and remains one task.
`add_task` returns when the dispatcher has confirmed the task, which it does once it is stored.
Notices of the end are pushed by the dispatcher until they are confirmed here. Spec:
docs/spec/udp.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any

import msgspec
from msgspec.structs import replace

from shunter.app import JobFunction, payload_of
from shunter.client.input_checks import checked_type
from shunter.client.sealed_values import opened_outcome, sealed_payload
from shunter.client.session_opener import session_opener
from shunter.client.tasks import NoticeVerdict, TaskName, Tasks, outcome_of
from shunter.codec import Codec
from shunter.errors import (
    AppError,
    DispatcherBusy,
    JobError,
    JobFailed,
    JobRefused,
    NotPlaced,
    ResultTimeout,
    ShunterError,
    Unreachable,
)
from shunter.key_file import read_key_file
from shunter.model.document import NIL
from shunter.model.job import DEFAULT_TYPE, ErrorKind, Status
from shunter.model.key import udp_key
from shunter.model.retry import Retry, backoff
from shunter.net.dialogue import (
    DEFAULT_DISPATCHER,
    Dialogue,
    peer_name,
    place_to_bind,
    resolved,
    seal_of,
    unguessable_id,
)
from shunter.net.environment import REAL, Environment
from shunter.payload import result_of
from shunter.wire.messages import Outcome
from shunter.wire.udp.keys import Secret, UdpKey
from shunter.wire.udp.methods import AddTask, NotifyTask, Packed, Ping
from shunter.wire.udp.packets import (
    MAX_PACKET_BYTES,
    Command,
    Confirmation,
    PacketFault,
    PacketReason,
)
from shunter.wire.udp.peers import UdpAddress
from shunter.wire.udp.transmissions import RESENT_SECONDS

UNCONFIRMED_AT_ONCE = 256
"""So many additions are under way at a time: what a dispatcher's socket surely holds."""

BUSY_CODE = "busy"

PINGS = Retry(delay=5.0, factor=1.5, max_delay=30.0)
"""How soon a client that waits says that it is there, and at most how seldom: a dispatcher sends
little to an address that it knows nothing of, and after a restart it knows of none."""


class AsyncTask:
    """A task that was added, or is about to be. Its id is the client's own name for it."""

    def __init__(self, task_id: TaskName, job_type: str, codec: Codec | None = None) -> None:
        self.id = task_id
        self.type = job_type
        self._codec = codec
        self._fault: Exception | None = None
        self.job_id = ""
        """The dispatcher's name for it, where the notice of its end said so."""
        self.outcome: Outcome | None = None
        self._ended = asyncio.Event()

    def __repr__(self) -> str:
        word = self.outcome.status.word if self.outcome else "under way"
        return f"<task {self.id} ({self.type}): {word}>"

    @property
    def is_done(self) -> bool:
        """True if the notice of its end has come."""
        return self.outcome is not None

    async def wait(self, timeout: float | None = None) -> Outcome:
        """Wait until the task has ended, however it ended."""
        if timeout is None:
            await self._ended.wait()
        elif self.outcome is None:
            await self._wait_at_most(timeout)
        if self.outcome is None:
            raise JobError(str(self.id), "its client was closed; it goes on, but unheard")
        return self.known_outcome() or self.outcome

    def known_outcome(self) -> Outcome | None:
        """Return how the task ended, if that is known here, or raise CodecError."""
        if self._fault is not None:
            raise self._fault
        return self.outcome

    async def _wait_at_most(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            raise ResultTimeout(str(self.id), timeout) from None

    async def result(self, timeout: float | None = None) -> Any:
        """Wait for the result; raise JobFailed, NotPlaced or ResultTimeout."""
        return task_value(await self.wait(timeout))

    def settle(self, outcome: Outcome, job_id: str) -> None:
        """Take note of how the task ended; what was sealed was so for the dispatcher's job."""
        self.outcome, self.job_id = outcome, job_id
        try:
            opened = opened_outcome(self._codec, replace(outcome, job_id=job_id))
            self.outcome = replace(opened, job_id=outcome.job_id)
        except Exception as error:
            self._fault = error
        self._ended.set()

    def abandon(self) -> None:
        """Let nobody wait any longer: no notice can come."""
        self._ended.set()


class _Addition:
    """A task on its way: `confirmed` is done when the dispatcher has it."""

    __slots__ = ("confirmed", "task")

    def __init__(self, task: AsyncTask) -> None:
        self.task = task
        self.confirmed: asyncio.Future[Confirmation | None] = (
            asyncio.get_running_loop().create_future()
        )

    def answered(self, answer: Confirmation | None) -> None:
        if not self.confirmed.done():
            self.confirmed.set_result(answer)


class AsyncUdpClient:
    """Adds tasks at a dispatcher. Use it with `async with`.

    `key_file` is what `shunter key new` wrote for this client. Else `secret` and `key` are a key
    and its name; without a name, the secret is what the dispatcher's `udp.secret_file` has in it.
    `codec` is that of the app that does the jobs.

    A dispatcher knows a client by its address, so one that is to get the notices of an earlier one
    has to be given the same with `bind`; where packets are signed, also the `name` that the
    earlier one signed with.
    """

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
        environment: Environment = REAL,
    ) -> None:
        if not 0 < timeout <= RESENT_SECONDS:
            raise ValueError(f"timeout {timeout}: use seconds above 0, at most {RESENT_SECONDS:g}")
        if session_opener.get() is not None:
            raise AppError(
                "UdpClient: this handler runs in a sandbox, which has no UDP, and must not reach a "
                "real dispatcher; open a Client, which reaches the sandbox"
            )
        self._dispatcher, self._bind, self._codec = dispatcher, bind, codec
        self._key = _key(key, secret, key_file)
        self._environment = environment
        self._name = name or peer_name("client", environment)
        self._timeout, self._max_packet_bytes = timeout, max_packet_bytes
        self._tasks = Tasks()
        self._additions: dict[TaskName, _Addition] = {}
        self._turn = asyncio.Semaphore(UNCONFIRMED_AT_ONCE)
        self._dialogue: Dialogue[_Addition] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._pings = 0

    async def __aenter__(self) -> AsyncUdpClient:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the socket; `add_task` does so by itself where it was not done."""
        if self._dialogue is None:
            address = await resolved(self._dispatcher, self._environment)
            if self._dialogue is None:
                self._dialogue = self._opened(address)

    def _opened(self, address: UdpAddress) -> Dialogue[_Addition]:
        return Dialogue(
            address,
            self._bind or place_to_bind(address),
            on_command=self._take_command,
            on_answer=_Addition.answered,
            seal=seal_of(self._key, self._name, self._environment),
            max_packet_bytes=self._max_packet_bytes,
            environment=self._environment,
        )

    async def close(self) -> None:
        """Close the socket. Tasks go on; whoever still waits for one here is told so."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._dialogue is not None:
            self._dialogue.close()
        for addition in self._additions.values():
            addition.task.abandon()
            addition.answered(None)

    @property
    def address(self) -> UdpAddress:
        """The address by which the dispatcher knows this client."""
        assert self._dialogue is not None, "open the client first, with 'async with'"
        return self._dialogue.address

    # ---- adding

    async def add_task(
        self,
        type: str | None = None,  # noqa: A002 - the name that the protocol gives it
        payload: Any = None,
        *,
        task_id: TaskName | None = None,
        priority: int | None = None,
    ) -> AsyncTask:
        """Add a task; when this returns, the dispatcher has confirmed it.

        A payload that is a list is positional arguments, a map is named ones; `Packed` bytes are
        a msgpack document already. Raises JobRefused, DispatcherBusy or Unreachable.
        """
        return await self._add(type, payload, task_id, priority, None)

    async def _add(
        self,
        type: str | None,  # noqa: A002
        payload: Any,
        task_id: TaskName | None,
        priority: int | None,
        codec: Codec | None,
    ) -> AsyncTask:
        if self._dialogue is None:
            await self.open()
        task_id = unguessable_id(self._environment) if task_id is None else task_id
        packed = payload if isinstance(payload, Packed) else Packed(result_of(payload))
        if codec := codec or self._codec:
            packed = Packed(sealed_payload(codec, packed, "", type or DEFAULT_TYPE))
        params = AddTask(
            task_id=task_id,
            type=type,
            payload=None if packed == NIL else packed,
            priority=priority,
        )
        if not self._tasks.add(task_id):
            raise JobRefused(str(task_id), "task_id", "is under way already; use another")
        addition = self._additions[task_id] = _Addition(AsyncTask(task_id, type or "", codec))
        self._ping_later()
        try:
            await self._confirmed(params, addition)
        except ShunterError:
            self._tasks.drop(task_id)
            self._additions.pop(task_id, None)
            raise
        return addition.task

    async def submit(
        self, job: str | JobFunction[..., Any], /, *args: Any, **kwargs: Any
    ) -> AsyncTask:
        """Add a task for a call of this job, under an id made here."""
        job_type, payload = checked_type(job), Packed(payload_of(*args, **kwargs))
        if not isinstance(job, JobFunction):
            return await self._add(job_type, payload, None, None, None)
        return await self._add(job_type, payload, None, job.handler.priority or None, job.codec)

    async def submit_many(
        self, job: str | JobFunction[..., Any], calls: Iterable[Any]
    ) -> list[AsyncTask]:
        """Add a task for each call: a list of positional arguments, a dict of named ones, or one.

        Some hundreds are on their way at a time. Where one is refused, that is raised, and the
        others go on.
        """
        return await asyncio.gather(*(self._submit_call(job, call) for call in calls))

    async def _submit_call(self, job: str | JobFunction[..., Any], call: Any) -> AsyncTask:
        if isinstance(call, dict):
            return await self.submit(job, **call)
        return await self.submit(job, *(call if isinstance(call, (tuple, list)) else [call]))

    async def _confirmed(self, params: AddTask, addition: _Addition) -> None:
        dialogue, name = self._dialogue, str(params.task_id)
        assert dialogue is not None
        async with self._turn:
            try:
                dialogue.ask(params, addition, give_up_after=self._timeout)
            except PacketFault as fault:
                raise JobRefused(
                    name, "payload", f"{fault}; store the data elsewhere and send its address"
                ) from None
            answer = await addition.confirmed
        if answer is None:
            host, port = dialogue.dispatcher
            raise Unreachable(f"udp {host}:{port}", self._timeout)
        if (error := answer.error) is not None:
            if error.code == BUSY_CODE:
                raise DispatcherBusy(name, error.message or "")
            raise JobRefused(name, error.field or "task", error.message or error.code)

    # ---- notices

    def _ping_later(self) -> None:
        if self._alarm is None:
            loop = asyncio.get_running_loop()
            wait = backoff(PINGS, self._pings + 1, jitter=0.0)
            self._alarm = loop.call_later(wait, self._ping)

    def _ping(self) -> None:
        """Let the dispatcher know that somebody waits here, ever less often."""
        self._alarm = None
        if self._additions and self._dialogue is not None:
            self._dialogue.tell(Ping())
            self._pings += 1
            self._ping_later()

    def _take_command(self, command: Command) -> None:
        dialogue, notice = self._dialogue, command.params
        assert dialogue is not None
        if not isinstance(notice, NotifyTask):
            dialogue.refuse(
                command,
                PacketReason.METHOD,
                "not for a client to receive; send notify_task",
                "method",
            )
            return
        match self._tasks.notified(notice):
            case NoticeVerdict.UNKNOWN:
                dialogue.leave_unanswered(command)
            case NoticeVerdict.AGAIN:
                dialogue.confirm(command)
            case NoticeVerdict.SETTLE:
                self._pings = 0
                addition = self._additions.pop(notice.task_id)
                addition.task.settle(outcome_of(notice), notice.job_id or "")
                addition.answered(Confirmation(0))  # it must have been accepted
                dialogue.confirm(command)


def _key(
    name: str, secret: Secret | bytes | None, key_file: str | PathLike[str] | None
) -> UdpKey | None:
    if key_file is not None:
        own = read_key_file(fspath(key_file))
        return UdpKey(own.name, Secret(udp_key(own.token)))
    if secret is None:
        return None
    if isinstance(secret, bytes):
        secret = Secret(secret) if name else Secret.of_file(secret)
    return UdpKey(name, secret)


def task_value(outcome: Outcome) -> Any:
    """Return the result of a task, or raise what went wrong."""
    error = outcome.error
    if outcome.status is Status.COMPLETED:
        if error is not None:
            raise JobError(outcome.job_id, error.message)
        return None if outcome.result is None else msgspec.msgpack.decode(outcome.result)
    assert error is not None
    if error.kind is ErrorKind.UNPLACED:
        raise NotPlaced(outcome.job_id, error.message)
    raise JobFailed(outcome.job_id, error.kind, error.message)
