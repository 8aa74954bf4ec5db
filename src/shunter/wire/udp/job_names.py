"""How UDP's names become ours: a client's task a job, a calculator a worker. Pure.

A task is known by its client and its number there: that is the job's unique key, so the store
itself finds duplicates, whichever dispatcher they come to. A client is known by the names that it
signs with, or where packets are not signed by its address. Where to notify it, and under which
transmission id, is the job's `reply_to`: that id is part of the record so that it is the same
after a restart and for whoever adds the task again, and nobody can work it out from what others
are told of the job. A job from elsewhere goes to calculators under its own id.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Struct

from shunter.model.job import Callback, Job, ReplyTo
from shunter.model.worker import UDP_PREFIX
from shunter.wire.udp.calculators import TaskId
from shunter.wire.udp.peers import KeyedPeer, Peer

GATEWAY = "udp"
SCHEME = "udp"

NOTICE_SECONDS = 20.0
"""For how long the dispatcher that wrote a task's end notifies the client before others may."""

NOTICES_AT_ONCE = 256
"""How many clients that it did not reach a dispatcher notifies at a time: each costs a packet now
and then, and no connection."""

MOST_CALCULATORS = 10_000
"""So many names are kept, since each is needed several times for every task."""


class _ReplyAddress(Struct, frozen=True, array_like=True, gc=False):
    host: str
    port: int
    task_id: TaskId
    number: int = 0  # where records had it before `ReplyTo` did
    key: str = ""
    sender: str = ""

    @property
    def client(self) -> Peer:
        if self.sender:
            return KeyedPeer(self.host, self.port, self.key, self.sender)
        return self.host, self.port


_decode = msgspec.msgpack.Decoder(_ReplyAddress).decode
_encode = msgspec.msgpack.Encoder().encode


def unique_key(client: Peer, task_id: TaskId) -> str:
    """Return the key under which a client's task is stored once."""
    kind = "#" if isinstance(task_id, int) else "="
    if isinstance(client, KeyedPeer):
        return f"{GATEWAY}:{client.sender}/{client.key}{kind}{task_id}"
    return f"{GATEWAY}:{client[0]}:{client[1]}{kind}{task_id}"


def reply_to(client: Peer, task_id: TaskId, number: int) -> ReplyTo:
    """Say whom to notify of which task, and under which transmission id."""
    key, sender = (client.key, client.sender) if isinstance(client, KeyedPeer) else ("", "")
    place = _ReplyAddress(client[0], client[1], task_id, 0, key, sender)
    return ReplyTo(GATEWAY, _encode(place), number=number)


def client_of(job: Job) -> tuple[Peer, TaskId] | None:
    """Return the client that added a job, and the name that it has there; None for others' jobs."""
    place = _reply_address(job)
    return None if place is None else (place.client, place.task_id)


def notice_number(job: Job) -> int:
    """Return the transmission id of a job's notices; 0 where its record has none."""
    place = _reply_address(job)
    return 0 if place is None or job.reply_to is None else job.reply_to.number or place.number


def _reply_address(job: Job) -> _ReplyAddress | None:
    if job.reply_to is None or job.reply_to.gateway != GATEWAY:
        return None
    return _decode(job.reply_to.address)


def notice(client: Peer, task_id: TaskId) -> Callback:
    """Say by which callback a client hears of a task: that it has heard is part of the record."""
    return Callback(f"{SCHEME}://{client[0]}:{client[1]}/{task_id}", grace=NOTICE_SECONDS)


def task_id_of(job: Job) -> TaskId:
    """Return the name that a job has among calculators."""
    known = client_of(job)
    return job.id if known is None else known[1]


@lru_cache(MOST_CALCULATORS)
def worker_id(calculator: Peer) -> str:
    place = f"{UDP_PREFIX}{calculator[0]}:{calculator[1]}"
    if isinstance(calculator, KeyedPeer):
        return f"{place}/{calculator.sender}/{calculator.key}"
    return place


@lru_cache(MOST_CALCULATORS)
def calculator_of(worker_id: str) -> Peer:
    place, *names = worker_id.removeprefix(UDP_PREFIX).split("/", 2)
    host, _, port = place.rpartition(":")
    if names:
        sender, key = names
        return KeyedPeer(host, int(port), key, sender)
    return host, int(port)
