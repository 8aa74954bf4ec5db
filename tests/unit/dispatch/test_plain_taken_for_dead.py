"""A plain worker whose job was taken away is given nothing before it shows itself again.

It may still answer the old job, and nothing in its answer says which job it means.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from shunter.dispatch import sweep
from shunter.gateway.key_list import KeyList
from shunter.gateway.zmq.backend import Backend
from shunter.model.job import Status
from shunter.model.run_secrets import RunSecrets
from shunter.model.submission import Submission
from shunter.refusal_log import RefusalLog
from shunter.testing.finish import finish

NAME = b"slow"


class Wire:
    """Stands for the socket; writes down what a worker is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, frames: Sequence[bytes]) -> bool:
        self.sent.append(frames[-1])
        return True


class Line:
    """A plain worker at a real gateway, which has been given the job A."""

    def __init__(self, scene: Any) -> None:
        self.scene, self.wire = scene, Wire()
        self.backend = Backend(
            scene.dispatcher,
            RefusalLog(scene.dispatcher.counters),
            worker_expire_seconds=3.0,
            store="store",
            keys=KeyList(None),
            run_secrets=RunSecrets(),
            max_result_bytes=1024,
        )
        self.backend.socket = self.wire
        self.says(b"READY")
        self.asks("A")
        scene.turns()

    def says(self, body: bytes) -> None:
        self.backend.receive([[NAME, b"", body]])
        self.scene.turns()

    def asks(self, name: str) -> None:
        submission = Submission(name, "default", msgspec.msgpack.encode(name.encode()))
        self.scene.dispatcher.submit([submission], lambda receipts: None)


@pytest.fixture
def line(scene: Any) -> Line:
    return Line(scene)


def test_a_job_that_comes_with_the_expiry_does_not_get_the_late_answer(line: Line) -> None:
    line.scene.clock.advance(60.0)
    finish(sweep.ring_alarms(line.scene.dispatcher))
    line.asks("B")
    line.scene.turns()

    line.says(b"the answer to A")

    assert line.scene.job("B").status is not Status.COMPLETED
    assert line.scene.job("A").status is not Status.COMPLETED


def test_a_job_that_comes_with_a_cancel_does_not_get_the_late_answer(line: Line) -> None:
    line.scene.dispatcher.cancel(["A"], lambda receipts: None)
    line.asks("B")
    line.scene.turns()

    line.says(b"the answer to A")

    assert line.scene.job("A").status is Status.CANCELLED
    assert line.scene.job("B").status is not Status.COMPLETED


def test_an_answer_that_comes_while_its_job_is_taken_away_leaves_the_worker_ready(
    line: Line,
) -> None:
    dispatcher, commit = line.scene.dispatcher, line.scene.store.commit

    async def answered_meanwhile(batch: Any) -> Any:
        line.scene.store.commit = commit
        line.backend.receive([[NAME, b"", b"the answer to A"]])
        return await commit(batch)

    line.scene.store.commit = answered_meanwhile
    line.scene.clock.advance(60.0)
    finish(sweep.ring_alarms(dispatcher))
    line.scene.turns()

    assert line.wire.sent == [b"PONG", b"A", b"A"]
