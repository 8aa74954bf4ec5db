"""How UDP's names become ours: a client's task a job, a calculator's address a worker. Pure.

A task is known by its client's address and its number there: that is the job's unique key, so the
store itself finds duplicates, whichever dispatcher they come to. The same two are the job's
`reply_to`. A job from elsewhere goes to calculators under its own id.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from shunter.model.job import Callback, Job, ReplyTo
from shunter.model.worker import UDP_PREFIX
from shunter.wire.udp.calculators import Address, TaskId

GATEWAY = "udp"
SCHEME = "udp"

NOTICE_SECONDS = 20.0
"""For how long the dispatcher that wrote a task's end notifies the client before others may."""

NOTICES_AT_ONCE = 256
"""How many clients that it did not reach a dispatcher notifies at a time: each costs a packet now
and then, and no connection."""

MOST_CALCULATORS = 10_000
"""So many names are kept, since each is needed several times for every task."""

_decode = msgspec.msgpack.Decoder(tuple[str, int, TaskId]).decode
_encode = msgspec.msgpack.Encoder().encode


def unique_key(client: Address, task_id: TaskId) -> str:
    """Return the key under which a client's task is stored once."""
    host, port = client
    kind = "#" if isinstance(task_id, int) else "="
    return f"{GATEWAY}:{host}:{port}{kind}{task_id}"


def reply_to(client: Address, task_id: TaskId) -> ReplyTo:
    """Say whom to notify, and of which task."""
    return ReplyTo(GATEWAY, _encode((*client, task_id)))


def client_of(job: Job) -> tuple[Address, TaskId] | None:
    """Return the client that added a job, and the name that it has there; None for others' jobs."""
    if job.reply_to is None or job.reply_to.gateway != GATEWAY:
        return None
    host, port, task_id = _decode(job.reply_to.address)
    return (host, port), task_id


def notice(client: Address, task_id: TaskId) -> Callback:
    """Say by which callback a client hears of a task: that it has heard is part of the record."""
    host, port = client
    return Callback(f"{SCHEME}://{host}:{port}/{task_id}", grace=NOTICE_SECONDS)


def task_id_of(job: Job) -> TaskId:
    """Return the name that a job has among calculators."""
    known = client_of(job)
    return job.id if known is None else known[1]


@lru_cache(MOST_CALCULATORS)
def worker_id(calculator: Address) -> str:
    host, port = calculator
    return f"{UDP_PREFIX}{host}:{port}"


@lru_cache(MOST_CALCULATORS)
def address_of(worker_id: str) -> Address:
    host, _, port = worker_id.removeprefix(UDP_PREFIX).rpartition(":")
    return host, int(port)
