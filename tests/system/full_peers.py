"""Peers of the full level that a test speaks for, word by word, also wrongly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import zmq

from shunter.model.key import CurvePair
from shunter.model.report import Advance, Held, Report
from shunter.model.worker import Handler
from shunter.wire import messages
from shunter.wire.messages import Assignments, Beat, Hello, Kind, Message, Refusal, Reports
from system.plain_peers import Peer
from system.yard import PATIENCE


class FullWorker(Peer):
    """A worker that says what it is told to."""

    def __init__(
        self,
        context: zmq.Context[Any],
        backend: str,
        worker_id: str,
        name: bytes = b"",
        *,
        curve: CurvePair | None = None,
    ) -> None:
        identity = name or b"raw-" + worker_id.encode()
        super().__init__(context, zmq.DEALER, backend, identity, curve=curve)
        self.worker_id = worker_id
        self.secrets: dict[tuple[str, int], bytes] = {}
        self._beats = 0

    def tell(self, kind: Kind, body: Message | bytes) -> None:
        packed = body if isinstance(body, bytes) else msgspec.msgpack.encode(body)
        self.send(b"", kind.value.encode(), packed)

    def introduces_itself(
        self, *types: str, max_jobs: int = 1, held: tuple[Held, ...] = ()
    ) -> FullWorker:
        handlers = tuple(Handler(name) for name in types)
        self.tell(Kind.READY, Hello(self.worker_id, 1, handlers, max_jobs, 1, held=held))
        self.hears_kind(Kind.PONG)
        return self

    def beats(self, *held: Held, window: int = 1) -> None:
        self._beats += 1
        self.tell(Kind.PING, Beat(self._beats, 1, window, held))

    def takes_jobs(self) -> tuple[messages.Assignment, ...]:
        took = messages.decode(self.hears_kind(Kind.JOBS), Assignments)
        for job, secret in zip(took.jobs, took.secrets, strict=True):
            self.secrets[job.job_id, job.attempt] = secret
        return took.jobs

    def shows(self, *said: Report | Held | Advance) -> tuple[bytes, ...]:
        """Return the secrets of these runs, as far as it has them."""
        return tuple(self.secrets.get((it.job_id, it.attempt), b"") for it in said)

    def reports(self, *reports: Report, batch: int = 1, window: int = 1) -> None:
        self.tell(Kind.RESULTS, Reports(batch, window, reports, self.shows(*reports)))

    def is_refused(self) -> str:
        """Return the reason of the next refusal."""
        return messages.decode(self.hears_kind(Kind.ERROR), Refusal).reason

    def hears_kind(self, wanted: Kind) -> bytes:
        """Return the body of the next message of this kind."""
        deadline = time.monotonic() + PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            kind, body = self.hears(left)
            if kind == wanted.value.encode():
                return body
        raise AssertionError(f"no {wanted} came within {PATIENCE:g} s")


class FullPeers:
    """Makes workers of one dispatcher, and closes them."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._context: zmq.Context[Any] = zmq.Context()
        self._made: list[FullWorker] = []

    def worker(self, worker_id: str, name: bytes = b"") -> FullWorker:
        """Make one; `name` is that of its connection."""
        self._made.append(FullWorker(self._context, self._backend, worker_id, name))
        return self._made[-1]

    def close(self) -> None:
        for worker in self._made:
            worker.socket.close()
        self._context.term()


def hostile_messages(seed: Any, count: int) -> Iterator[tuple[bytes, ...]]:
    """Yield messages between nonsense and nearly right, the same ones for the same seed."""
    kinds = [kind.value.encode() for kind in Kind]
    for _ in range(count):
        match seed.randrange(6):
            case 0:
                yield tuple(_noise(seed) for _ in range(seed.randrange(1, 6)))
            case 1:
                yield (b"", seed.choice(kinds), _noise(seed))
            case 2:
                yield (b"", seed.choice(kinds), msgspec.msgpack.encode(_value(seed, 3)))
            case 3:
                fields = [_value(seed, 2) for _ in range(seed.randrange(1, 9))]
                yield (b"", seed.choice(kinds), msgspec.msgpack.encode(fields))
            case 4:
                yield (b"", _noise(seed), _noise(seed))
            case _:
                yield (b"", seed.choice(kinds), *(_noise(seed) for _ in range(2)))


def _noise(seed: Any) -> bytes:
    noise: bytes = seed.randbytes(seed.choice([0, 1, 2, 5, 30, 300]))
    return noise


def _value(seed: Any, depth: int) -> Any:
    match seed.randrange(9 if depth else 6):
        case 0:
            return seed.choice([0, 1, -1, 2**31, 2**63 - 1, 2**64 - 1, -(2**63)])
        case 1:
            return seed.choice([0.0, -1.5, float("nan"), float("inf"), 1e308])
        case 2:
            return seed.choice(["", "default", "w-1", "\0", "x" * 200, "é\N{SNOWMAN}"])
        case 3:
            return seed.randbytes(seed.randrange(20))
        case 4:
            return seed.choice([None, True, False])
        case 5:
            return seed.choice(list("qdicfx"))
        case 6:
            return {f"k{n}": _value(seed, depth - 1) for n in range(seed.randrange(4))}
        case _:
            return [_value(seed, depth - 1) for _ in range(seed.randrange(5))]
