"""What runs ask of their journals, on its way to a dispatcher and back. Pure.

An ask is repeated until it is answered, to whichever dispatcher then has the job: what is kept
twice is kept once. Of a run's chunks one message at a time is under way; what is emitted meanwhile
goes together with the next: so many chunks become one row and one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from shunter.model.journal import EntryKind, Keep, encode_chunks
from shunter.wire.batches import BATCH_BYTES
from shunter.wire.messages import Assignment, Recalled
from shunter.worker.asks import Answer, JournalAnswer, KeepAsk, RecallAsk, RunAsked

REPEAT_SECONDS = 2.0
"""An ask that is not answered for so long is sent again."""


class JournalRequest(Struct, frozen=True):
    """What goes to a dispatcher: several to keep, or one recall; and whom to answer."""

    key: int
    job_id: str
    attempt: int
    keeps: tuple[Keep, ...] = ()
    recall: RecallAsk | None = None
    numbers: tuple[int, ...] = ()

    @property
    def is_log(self) -> bool:
        """True if it has what a run has printed so far, which the next one has as well."""
        return [keep.kind for keep in self.keeps] == [EntryKind.LOG]

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return sum(len(keep.body) + 256 for keep in self.keeps)


_Chunk = tuple[int, str, bytes]


class JournalRelay:
    """All asks of a worker's runs that are not answered yet."""

    def __init__(self) -> None:
        self._last = 0
        self._unsent: list[JournalRequest] = []
        self._sent: dict[int, tuple[float, list[JournalRequest]]] = {}
        self._chunks: dict[int, list[_Chunk]] = {}
        self._emitting: set[int] = set()  # runs of which chunks are under way
        self.ready: list[Answer] = []  # answers that need no dispatcher

    def __len__(self) -> int:
        return len(self._unsent) + sum(len(some) for _, some in self._sent.values())

    def ask(self, run: RunAsked) -> None:
        """Take an ask on."""
        job, (number, ask) = run.job, (run.asked.number, run.asked.ask)
        if isinstance(ask, RecallAsk):
            self._unsent.append(
                JournalRequest(run.key, job.job_id, job.attempt, recall=ask, numbers=(number,))
            )
            return
        if ask.kind is EntryKind.LOG:
            self._unsent = [it for it in self._unsent if it.key != run.key or not it.is_log]
        keeps = tuple(_keep(job, mark) for mark in ask.marks)
        if ask.kind is EntryKind.CHUNKS:
            self._chunks.setdefault(run.key, []).append((number, ask.key, ask.body))
            if run.key not in self._emitting:
                self._emit(run.key, job.job_id, job.attempt, keeps)
            elif keeps:
                self._unsent.append(JournalRequest(run.key, job.job_id, job.attempt, keeps))
            return
        self._unsent.append(
            JournalRequest(
                run.key, job.job_id, job.attempt, (*keeps, _keep(job, ask)), numbers=(number,)
            )
        )

    def take_unsent(self) -> list[JournalRequest]:
        """Return what is to be sent now; `sent` says under which number it was."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def sent(self, requests: Sequence[JournalRequest], *, now: float) -> int:
        """Return the number under which these are sent together."""
        self._last += 1
        self._sent[self._last] = (now, list(requests))
        return self._last

    def kept(self, number: int, is_kept: Sequence[bool]) -> Iterator[Answer]:
        """Yield what to tell runs, now that a message of keeps is answered."""
        _, requests = self._sent.pop(number, (0.0, []))
        answers = iter(is_kept)
        for request in requests:
            is_all = set(islice(answers, len(request.keeps))) == {True}
            for ask in request.numbers:
                if ask:
                    yield request.key, ask, JournalAnswer(is_kept=is_all)
            if any(keep.kind is EntryKind.CHUNKS for keep in request.keeps):
                self._emitting.discard(request.key)
                if request.key in self._chunks:
                    self._emit(request.key, request.job_id, request.attempt, ())

    def recalled(self, number: int, recalled: Recalled) -> Iterator[Answer]:
        """Yield what to tell the run, now that a recall is answered."""
        _, requests = self._sent.pop(number, (0.0, []))
        for request in requests:
            for ask in request.numbers:
                yield request.key, ask, JournalAnswer(recalled=recalled)

    def repeat(self, *, now: float, is_open: set[int] | None = None) -> None:
        """Have sent again what was not answered in time, and drop what no open run waits for."""
        for number, (at, requests) in list(self._sent.items()):
            if now - at >= REPEAT_SECONDS:
                del self._sent[number]
                self._unsent = requests + self._unsent
        if is_open is not None:
            self._unsent = [request for request in self._unsent if request.key in is_open]
            self._chunks = {key: some for key, some in self._chunks.items() if key in is_open}
            self._emitting &= is_open

    def clear(self) -> None:
        """Forget all: the runs have been stopped."""
        self._unsent.clear()
        self._sent.clear()
        self._chunks.clear()
        self._emitting.clear()

    def _emit(self, key: int, job_id: str, attempt: int, keeps: tuple[Keep, ...]) -> None:
        """Send a run's chunks on, as many as one message may have."""
        waiting = self._chunks.pop(key)
        size, count = 0, 0
        while count < len(waiting) and (not count or size + len(waiting[count][2]) <= BATCH_BYTES):
            size += len(waiting[count][2])
            count += 1
        some, rest = waiting[:count], waiting[count:]
        if rest:
            self._chunks[key] = rest
        bodies = [body for _, _, body in some if body]
        numbers = tuple(number for number, _, _ in some)
        if bodies:
            body = encode_chunks(bodies)
            keeps = (*keeps, Keep(job_id, attempt, EntryKind.CHUNKS, some[0][1], body))
            self._emitting.add(key)
        if not keeps:  # nothing but the wish to know that all is kept, which it is
            self.ready += [(key, it, JournalAnswer(is_kept=True)) for it in numbers if it]
            return
        self._unsent.append(JournalRequest(key, job_id, attempt, keeps, numbers=numbers))


def _keep(job: Assignment, ask: KeepAsk) -> Keep:
    return Keep(job.job_id, job.attempt, ask.kind, ask.key, ask.body, ask.digest, ask.seconds)
