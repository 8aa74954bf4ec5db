"""What must hold of callbacks: calls to receivers over HTTP, and notices to clients over UDP.

Rules: docs/spec/http.md, docs/spec/udp.md. As the judge, it looks at the store and at what really
happened, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from shunter.model.job import Job
from shunter.testing.simulation.judge import Judge
from shunter.wire.udp.job_names import SCHEME, client_of, notice_number
from shunter.wire.udp.methods import NotifyTask
from shunter.wire.udp.packets import Command, Confirmation, parse
from shunter.wire.udp.peers import UdpAddress

MAX_TRIES = 6
CLIENT_PORT = 6000
"""Where UDP clients send from: the same in each of their lives."""


class _Document(Struct, frozen=True):
    """What a receiver looks at."""

    id: str
    status: str


class CallbackJudge:
    """One for a run. `stored` returns what the store has of a job."""

    def __init__(self, judge: Judge, stored: Callable[[str], Job | None]) -> None:
        self._judge, self._stored = judge, stored
        self._answered: set[str] = set()
        self._confirmed: set[tuple[UdpAddress, int | str]] = set()

    def called(self, body: bytes, tries: int) -> str:
        """A receiver has got a call, and is about to say yes; return the job's id."""
        document = msgspec.json.decode(body, type=_Document)
        job = self._stored(document.id)
        if job is None or not job.status.is_final or job.status.value != document.status:
            is_now = "unknown" if job is None else job.status.word
            detail = f"a receiver was told that {document.id} is {document.status}, it is {is_now}"
            self._judge.accuse("callbacks tell what is stored", detail, document.id)
        if tries > MAX_TRIES:
            self._judge.accuse("callbacks are bounded", f"{document.id}: call {tries}", document.id)
        self._answered.add(document.id)
        return document.id

    def packet_sent(self, source: UdpAddress, target: UdpAddress, packet: bytes) -> None:
        """A packet goes out: a client may be told of an end, or confirm that it was."""
        if target[1] == CLIENT_PORT:
            told = parse(packet)
            if isinstance(told, Command) and isinstance(told.params, NotifyTask):
                self._told(told.params.job_id or "", told.transmission_id)
        if source[1] == CLIENT_PORT:
            found = parse(packet)
            if isinstance(found, Confirmation) and found.error is None:
                self._confirmed.add((source, found.transmission_id))

    def _told(self, job_id: str, number: int | str | None) -> None:
        job = self._stored(job_id)
        if job is not None and number != notice_number(job):
            detail = f"{job_id}: a notice has the number {number}, not {notice_number(job)}"
            self._judge.accuse("all notices of a task have one number", detail, job_id)

    def ended(self, job: Job) -> None:
        """A job has ended by a write."""
        if job.callback is not None and job.callback.due is None:
            self._judge.accuse("an end and its callback are one write", job.id, job.id)

    def written(self, before: Job, after: Job) -> None:
        """How far a callback has come was written."""
        callback = after.callback
        assert callback is not None
        if callback.tries > MAX_TRIES or (
            callback.due is None and not callback.delivered and callback.tries < MAX_TRIES
        ):
            detail = f"{after.id} has seen {callback.tries} tries, next at {callback.due}"
            self._judge.accuse("callbacks are bounded", detail, after.id)
        if callback.delivered and not self._is_heard(after):
            detail = f"{after.id} is written down as delivered, but nobody has confirmed it"
            self._judge.accuse("a callback is delivered before that is written", detail, after.id)

    def _is_heard(self, job: Job) -> bool:
        assert job.callback is not None
        if not job.callback.url.startswith(SCHEME):
            return job.id in self._answered
        known = client_of(job)
        return known is not None and (known[0], notice_number(job)) in self._confirmed


def is_settled(job: Job) -> bool:
    """True if nobody has to call back for this job any more."""
    return job.callback is None or (job.status.is_final and job.callback.due is None)


def given_up(job: Job) -> bool:
    """True if nobody was reached."""
    return job.callback is not None and is_settled(job) and not job.callback.delivered
