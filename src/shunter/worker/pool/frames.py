"""What a child process tells its parent, over a stream: the outcome of each run, and its own state.

A frame is a fixed head and a body. The body of a plain result is the result itself, byte for
byte, so that the most frequent frame needs no decoding at all.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import IntEnum
from struct import Struct as Packer

import msgspec
from msgspec import Struct

from shunter.model.job import Failure
from shunter.worker.asks import JournalAnswer, JournalAsk, RunAsk

_HEAD = Packer("=IBQdd")
HEAD_BYTES = _HEAD.size
_pack, _unpack = _HEAD.pack, _HEAD.unpack_from
_encode = msgspec.msgpack.Encoder().encode


class Mark(IntEnum):
    """What a frame is about."""

    READY = 0
    RESULT = 1
    RESULT_WITH_LOG = 2
    FAILED = 3
    PROGRESS = 4
    RETIRED = 5
    STARTED = 6
    BLOCKED = 7
    GOES_ON = 8
    FULL = 9
    HEARD = 10
    PARKED = 11
    ASK = 12


class LoggedResult(Struct, frozen=True, array_like=True):
    """The body of RESULT_WITH_LOG."""

    result: bytes
    log: str


class LoggedFailure(Struct, frozen=True, array_like=True):
    """The body of FAILED."""

    failure: Failure
    log: str


class LastProgress(Struct, frozen=True, array_like=True):
    """The body of PROGRESS: where the run was when it ended."""

    done: float
    total: float | None
    note: str = ""


class BlockedAt(Struct, frozen=True, array_like=True):
    """The body of BLOCKED: where the run stands that lets no other go on, and what it printed."""

    place: str
    stack: str
    log: str


Frame = tuple[int, int, float, float, bytes]
"""Mark, key of the run, when it began by the monotonic clock, seconds that it took, body."""

read_logged_result = msgspec.msgpack.Decoder(LoggedResult).decode
read_logged_failure = msgspec.msgpack.Decoder(LoggedFailure).decode
read_last_progress = msgspec.msgpack.Decoder(LastProgress).decode

read_run_ask = msgspec.msgpack.Decoder(RunAsk).decode
read_blocked_at = msgspec.msgpack.Decoder(BlockedAt).decode

_RESULT = int(Mark.RESULT)


def bare(mark: Mark) -> bytes:
    """A frame about the child itself."""
    return _pack(0, mark, 0, 0.0, 0.0)


def result(key: int, begun: float, seconds: float, body: bytes, log: str) -> bytes:
    """A run completed."""
    if log:
        body = _encode(LoggedResult(body, log))
        return _pack(len(body), Mark.RESULT_WITH_LOG, key, begun, seconds) + body
    return _pack(len(body), _RESULT, key, begun, seconds) + body


def failed(key: int, begun: float, seconds: float, failure: Failure, log: str) -> bytes:
    """A run ended without a result."""
    body = _encode(LoggedFailure(failure, log))
    return _pack(len(body), Mark.FAILED, key, begun, seconds) + body


def progress(key: int, begun: float, done: float, total: float | None, note: bytes = b"") -> bytes:
    """Where a run was when it ended."""
    body = _encode(LastProgress(done, total, note.decode()))
    return _pack(len(body), Mark.PROGRESS, key, begun, 0.0) + body


def parked(key: int, begun: float, seconds: float, park: bytes, log: str) -> bytes:
    """A run ended that is to go on later."""
    body = _encode(LoggedResult(park, log))
    return _pack(len(body), Mark.PARKED, key, begun, seconds) + body


def asked(key: int, number: int, ask: JournalAsk) -> bytes:
    """A run wants something of its journal."""
    body = _encode(RunAsk(number, ask))
    return _pack(len(body), Mark.ASK, key, 0.0, 0.0) + body


ANSWER_HEAD = Packer("=IQ")
_read_answer = msgspec.msgpack.Decoder(JournalAnswer).decode


def answered(number: int, answer: JournalAnswer) -> bytes:
    """What a parent answers, on the same stream."""
    body = _encode(answer)
    return ANSWER_HEAD.pack(len(body), number) + body


def answers_in(data: bytearray) -> Iterator[tuple[int, JournalAnswer]]:
    """Take all answers that are complete off the front."""
    at, head = 0, ANSWER_HEAD.size
    while at + head <= len(data):
        length, number = ANSWER_HEAD.unpack_from(data, at)
        body_at, end = at + head, at + head + length
        if end > len(data):
            break
        at = end
        yield number, _read_answer(data[body_at:end])
    del data[:at]


def started(key: int, begun: float) -> bytes:
    """A run that has a time-out, and shares its child, began."""
    return _pack(0, Mark.STARTED, key, begun, 0.0)


def heard(key: int) -> bytes:
    """What was said about a run has been heard."""
    return _pack(0, Mark.HEARD, key, 0.0, 0.0)


def blocked(key: int, since: float, at: BlockedAt) -> bytes:
    """A run (0 if it is none) has kept the child's event loop from all others since then."""
    body = _encode(at)
    return _pack(len(body), Mark.BLOCKED, key, since, 0.0) + body


class FrameReader:
    """Cuts what arrives on the stream into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Return all frames that are now complete; all must be taken before the next feed."""
        if not self._rest:
            used = yield from self._cut(data)
            self._rest += memoryview(data)[used:]
            return
        self._rest += data
        if len(self._rest) < HEAD_BYTES or len(self._rest) < HEAD_BYTES + _unpack(self._rest)[0]:
            return
        with memoryview(self._rest) as view:
            used = yield from self._cut(view)
        del self._rest[:used]

    def _cut(self, data: bytes | memoryview) -> Generator[Frame, None, int]:
        at, end = 0, len(data)
        while at + HEAD_BYTES <= end:
            length, mark, key, begun, seconds = _unpack(data, at)
            body_at = at + HEAD_BYTES
            if body_at + length > end:
                break
            at = body_at + length
            yield mark, key, begun, seconds, bytes(data[body_at:at])
        return at
