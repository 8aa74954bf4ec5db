"""What a gateway believes of a worker: what is said with the secret of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.gateway.audit_log import AuditLog
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.jobs import JobRoutes
from shunter.gateway.http.logs import LogRoutes
from shunter.gateway.key_list import KeyList
from shunter.gateway.zmq.backend import Backend
from shunter.gateway.zmq.confirmations import WAIT_SECONDS
from shunter.model.job import Job, Status
from shunter.model.report import Advance, Held, Report
from shunter.model.run_secrets import RunSecrets
from shunter.model.submission import Submission
from shunter.model.worker import Handler
from shunter.net.web.refusals import HttpRefusal
from shunter.refusal_log import RefusalLog
from shunter.testing import MemoryStore, VirtualClock
from shunter.testing.finish import finish
from shunter.wire.frames import full
from shunter.wire.messages import (
    Advances,
    Assignments,
    Hello,
    Kind,
    Message,
    Reports,
    Returned,
    Taken,
    decode,
    encode,
)

SECRETS = RunSecrets(b"s" * 32)
RUN = Held("j-1", 1)
DONE = Report(*(RUN.job_id, RUN.attempt), result=b"\x2a")


class Scene:
    """A dispatcher with a worker at its backend, which has been given a job."""

    def __init__(self) -> None:
        self.store, clock = MemoryStore(), VirtualClock()
        finish(self.store.open())
        self.refused: list[str] = []
        self.dispatcher = Dispatcher(
            self.store,
            dispatcher_id="d",
            rules=Rules(),
            now=clock,
            jitter=lambda: 0.5,
            on_refused=lambda _, error: self.refused.append(type(error).__name__),
        )
        self.backend = Backend(
            self.dispatcher,
            RefusalLog(self.dispatcher.counters),
            worker_expire_seconds=3.0,
            max_result_bytes=1024,
            store="s",
            keys=KeyList(None),
            run_secrets=SECRETS,
        )
        self.backend.socket = self  # type: ignore[assignment]
        self.sent: list[tuple[bytes, Kind, bytes]] = []
        self.says(b"real", Kind.READY, Hello("w-1", 1, (Handler("t"),), 2, 1))
        self.dispatcher.submit([Submission("j-1", "t", b"\xc0")], lambda _: None)
        self.turn()

    def send(self, message: Sequence[bytes]) -> bool:
        identity, _, kind, body = message
        self.sent.append((identity, Kind(kind.decode()), body))
        return True

    def says(self, identity: bytes, kind: Kind, body: Message) -> None:
        self.backend.receive([[identity, *full(kind, body)]])

    def heard(self, identity: bytes, kind: Kind) -> list[bytes]:
        return [body for who, what, body in self.sent if (who, what) == (identity, kind)]

    def turn(self) -> None:
        finish(self.dispatcher.turn())

    @property
    def job(self) -> Job:
        (job,) = finish(self.store.get(["j-1"]))
        assert job is not None
        return job


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_job_comes_with_the_secret_of_its_run(scene: Scene) -> None:
    [body] = scene.heard(b"real", Kind.JOBS)

    assert decode(body, Assignments).secrets == (SECRETS.of("j-1", 1),)


def test_a_report_counts_with_its_secret(scene: Scene) -> None:
    scene.says(b"real", Kind.RESULTS, Reports(7, 2, (DONE,), (SECRETS.of("j-1", 1),)))
    assert not scene.heard(b"real", Kind.TAKEN)

    async def turn() -> None:
        await scene.dispatcher.turn()
        await asyncio.sleep(3 * WAIT_SECONDS)

    asyncio.run(turn())

    assert scene.job.status is Status.COMPLETED
    assert [decode(body, Taken) for body in scene.heard(b"real", Kind.TAKEN)] == [Taken((7,))]


@pytest.mark.parametrize("secret", [b"", b"\0" * 16, SECRETS.of("j-1", 2), SECRETS.of("j-2", 1)])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Kind.RESULTS, lambda secret: Reports(7, 2, (DONE,), (secret,))),
        (Kind.RETURN, lambda secret: Returned(2, (RUN,), "mine now", (secret,))),
        (Kind.PROGRESS, lambda secret: Advances((Advance("j-1", 1, 99.0),), (secret,))),
    ],
)
def test_what_is_said_without_the_secret_of_the_run_changes_nothing(
    scene: Scene, kind: Kind, said: Any, secret: bytes
) -> None:
    before = scene.job
    scene.says(b"forger", Kind.READY, Hello("w-1", 1, (Handler("t"),), 2, 1, held=(RUN,)))
    scene.turn()

    scene.says(b"forger", kind, said(secret))
    scene.turn()

    assert scene.job == before
    assert scene.refused == ["RunNotProven"]
    assert scene.dispatcher.counters["reports_refused"] == 1


def test_a_large_report_is_checked_likewise(scene: Scene) -> None:
    forged = encode(Reports(7, 2, (DONE,), (b"",)))

    scene.backend._large._receive(b"real", Kind.RESULTS, forged, lambda: None)
    scene.turn()

    assert scene.job.status is Status.IN_PROGRESS
    assert scene.refused == ["RunNotProven"]


def test_the_refusal_is_for_the_forger_and_not_for_the_worker_that_comes_back(scene: Scene) -> None:
    """The real worker has a batch of the same number, which nobody has taken."""
    scene.says(b"forger", Kind.READY, Hello("w-1", 1, (Handler("t"),), 2, 1, held=(RUN,)))
    scene.says(b"forger", Kind.RESULTS, Reports(1, 2, (DONE,), (b"",)))
    scene.says(b"real", Kind.READY, Hello("w-1", 1, (Handler("t"),), 2, 2, held=(RUN,)))
    scene.turn()

    assert scene.heard(b"real", Kind.TAKEN) == []
    assert [decode(body, Taken) for body in scene.heard(b"forger", Kind.TAKEN)] == [Taken((1,))]


@pytest.mark.parametrize(
    ("are_required", "secret", "is_believed"),
    [
        (False, "", True),
        (True, "", False),
        (False, "0" * 32, False),
        (True, SECRETS.of("j-1", 1).hex(), True),
    ],
)
@pytest.mark.parametrize("what", ["a report", "a log"])
def test_over_http_a_missing_secret_is_waived_unless_keys_are_asked_for(
    scene: Scene, are_required: bool, secret: str, is_believed: bool, what: str
) -> None:
    """One that is believed is refused here for another reason: the worker is another."""
    secrets = RunSecrets(b"s" * 32, are_required=are_required)
    orders = JobOrders(scene.dispatcher)
    jobs = JobRoutes(
        scene.dispatcher,
        orders,
        HttpAudit(AuditLog(scene.dispatcher, new_id=str), scene.store),
        run_secrets=secrets,
        new_id=str,
        max_body_bytes=1000,
    )
    logs = LogRoutes(scene.dispatcher, orders, secrets)
    document = {"attempt": 1, "worker_id": "other", "secret": secret}
    document |= {"status": "c", "result": 1} if what == "a report" else {"log": "half\n"}
    route = jobs.report if what == "a report" else logs.take

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": msgspec.json.encode(document)}

    scope = {
        "type": "http",
        "method": "POST",
        "headers": [(b"content-type", b"application/json")],
        "path_params": {"id": "j-1"},
    }

    async def refusal() -> HttpRefusal:
        with pytest.raises(HttpRefusal) as caught:
            await route(Request(scope, receive))
        return caught.value

    detail = asyncio.run(refusal()).detail
    assert detail.code == ("held_by_another" if is_believed else "stale_attempt")
