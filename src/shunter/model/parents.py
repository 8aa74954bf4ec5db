"""What a handler can know of the jobs that its job waited for. Pure.

It travels with the job as one msgpack document, bounded in bytes: where results are more than
that, the rest are left out, and asking for one of them says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from shunter.errors import AppError
from shunter.model.job import Job, Status
from shunter.model.workflow import JobEdge

MAX_PARENT_BYTES = 4 << 20
"""How many bytes of parents' results go to a worker with a job."""


NOT_SENT = b"\xc0"
"""In place of how parents ended, where the way to the worker does not carry it."""


class ParentRun(Struct, frozen=True, array_like=True):
    """How one parent ended, as it travels; `is_left_out` says that its record does not."""

    id: str
    status: Status
    type: str = ""
    result: bytes | None = None
    error: str = ""
    is_left_out: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[ParentRun]).decode

_STATUSES = {
    "": Status.IN_PROGRESS,
    "c": Status.COMPLETED,
    "f": Status.FAILED,
    "x": Status.CANCELLED,
    "n": Status.CANCELLED,
}


def parents_document(runs: list[ParentRun]) -> bytes:
    """Write what is sent with a job."""
    return _encode(runs)


def run_of(edge: JobEdge, parent: Job | None) -> ParentRun:
    """Return what a handler is told of one parent; without its record, how it ended."""
    status = _STATUSES[edge.outcome.value]
    if parent is None:
        return ParentRun(edge.parent, status, is_left_out=edge.outcome.value != "")
    if not parent.status.is_final:
        return ParentRun(parent.id, parent.status, parent.type)
    error = parent.error.message if parent.error is not None else ""
    return ParentRun(parent.id, parent.status, parent.type, parent.result, error)


def newest(runs: list[ParentRun], newer: Mapping[str, str]) -> list[ParentRun]:
    """Return runs with those in place of which others were done later, where both are here."""
    by_id = {run.id: run for run in runs}
    stand_ins = {name: newer[name] for name in by_id if newer.get(name) in by_id}
    found = [by_id[_last(run.id, stand_ins)] for run in runs if run.id not in stand_ins.values()]
    return found if stand_ins else runs


def _last(name: str, stand_ins: Mapping[str, str]) -> str:
    while name in stand_ins:
        name = stand_ins[name]
    return name


class Parent:
    """A job that this one waited for."""

    def __init__(self, run: ParentRun, opened: Callable[[str, bytes], bytes]) -> None:
        self._run, self._opened = run, opened
        self.id, self.type, self.status, self.error = run.id, run.type, run.status, run.error

    def __repr__(self) -> str:
        return f"<parent {self.id} ({self.type}): {self.status.word}>"

    @property
    def is_ok(self) -> bool:
        """True if it completed."""
        return self.status is Status.COMPLETED

    @property
    def result(self) -> Any:
        """What its handler returned; None if it did not complete."""
        if self._run.is_left_out:
            raise AppError(
                f"job {self.id}: its result is not here, for those of all parents are more than "
                f"{MAX_PARENT_BYTES >> 20} MiB; ask a Client for it: client.job(id).value"
            )
        if self._run.result is None:
            return None
        return msgspec.msgpack.decode(self._opened(self.id, self._run.result))


class Parents(Mapping[str, Parent]):
    """The jobs that this one waited for, by id; empty for a job that waited for none."""

    def __init__(
        self,
        document: bytes = b"",
        opened: Callable[[str, bytes], bytes] = lambda job_id, result: result,
    ) -> None:
        if document == NOT_SENT:
            raise AppError(
                "ctx.parents is only for workers over ZeroMQ; serve jobs of this type with "
                "'shunter worker', or ask a Client for the results: client.job(id).value"
            )
        runs = _decode(document) if document else []
        self._by_id = {run.id: Parent(run, opened) for run in runs}

    def __getitem__(self, job_id: str) -> Parent:
        return self._by_id[job_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def results(self, job_type: str | None = None) -> list[Any]:
        """Return the results of all that completed, or of those of one type, by their ids."""
        found = (it for it in self._by_id.values() if it.is_ok)
        return [it.result for it in found if job_type in (None, it.type)]
