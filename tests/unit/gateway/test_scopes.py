"""What gateways show to whom: a job out of scope is answered like one that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.gateway.audit_log import AuditLog
from shunter.gateway.http.access import KEY
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.jobs import JobRoutes
from shunter.gateway.http.logs import LogRoutes
from shunter.gateway.key_list import KeyList
from shunter.gateway.zmq.frontend import Frontend
from shunter.model.job import Job, Status
from shunter.model.journal import EntryKind
from shunter.model.key import Key, Role
from shunter.model.run_secrets import RunSecrets
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.submission import Submission
from shunter.net.web.refusals import HttpRefusal
from shunter.refusal_log import RefusalLog
from shunter.testing import MemoryStore, VirtualClock
from shunter.testing.finish import finish
from shunter.wire.messages import (
    Accepted,
    Cancel,
    Fetch,
    Fetched,
    JobsAsked,
    JobsListed,
    JournalAsked,
    JournalShown,
    Kind,
    Message,
    Submit,
    WhyAsked,
    WhyShown,
    decode,
    encode,
)

MINE = JobScope("team")
ENDED = {"status": Status.COMPLETED, "result": b"\x01"}


def client_of(namespace: str) -> Key:
    """Return the key of a client of a namespace."""
    return Key(
        name="c", role=Role.CLIENT, public="", token_hash="", udp_key="", namespace=namespace
    )


class Scene:
    """A dispatcher with a job of each of two namespaces, `mine` and `theirs`."""

    def __init__(self) -> None:
        self.store, clock = MemoryStore(), VirtualClock()
        finish(self.store.open())
        jobs = [("mine", "team", ENDED), ("theirs", "rivals", ENDED), ("waits", "rivals", {})]
        for name, namespace, fields in jobs:
            job = Job(id=name, type="t", created=0, updated=0, namespace=namespace, **fields)
            finish(self.store.insert([job]))
        self.dispatcher = Dispatcher(
            self.store, dispatcher_id="d", rules=Rules(), now=clock, jitter=lambda: 0.5
        )
        refusals = RefusalLog(self.dispatcher.counters)
        self.frontend = Frontend(self.dispatcher, refusals, new_id=str, keys=KeyList(None))
        self.frontend.socket = self  # type: ignore[assignment]
        self.sent: list[Sequence[bytes]] = []
        self.routes = JobRoutes(
            self.dispatcher,
            JobOrders(self.dispatcher),
            HttpAudit(AuditLog(self.dispatcher, new_id=lambda: "a"), self.store),
            run_secrets=RunSecrets(),
            new_id=lambda: "new",
            max_body_bytes=1000,
        )

    def send(self, message: Sequence[bytes]) -> bool:
        self.sent.append(message)
        return True

    def says(self, kind: Kind, body: Message, scope: JobScope) -> Accepted:
        """Have the frontend take a message, and return what it answers after the commit."""
        self.frontend._receive_full(b"c", scope, kind, encode(body))
        finish(self.dispatcher.turn())
        return decode(self.sent[-1][-1], Accepted)

    def job(self, job_id: str) -> Job:
        (job,) = finish(self.store.get([job_id]))
        assert job is not None
        return job

    def called(
        self,
        route: Any,
        job_id: str = "",
        *,
        scope: JobScope | None = MINE,
        query: bytes = b"",
        body: Any = None,
    ) -> Any:
        """Call a route, while the dispatcher takes its turns; return the document."""

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": msgspec.json.encode(body)}

        asgi: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "headers": [(b"content-type", b"application/json")],
            "path_params": {"id": job_id},
            "query_string": query,
        }
        if scope is not None:
            asgi[KEY] = client_of(scope.namespace)

        async def call() -> Any:
            turns = asyncio.create_task(self.dispatcher.run())
            try:
                answer = await route(Request(asgi, receive))
            finally:
                turns.cancel()
            return msgspec.json.decode(answer.body)

        return asyncio.run(call())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def answer(asked: Coroutine[Any, Any, tuple[Kind, Message, bool]]) -> Any:
    return finish(asked)[1]


def test_why_is_said_of_what_is_in_scope_alone(scene: Scene) -> None:
    said = scene.called(scene.routes.why, "mine")

    assert (said["job_id"], said["standing"]) == ("mine", "ended")
    for name in ("theirs", "nobodys"):
        with pytest.raises(HttpRefusal) as refused:
            scene.called(scene.routes.why, name)
        assert refused.value.status == 404


def test_logs_are_followed_of_what_is_in_scope_alone(scene: Scene) -> None:
    logs = LogRoutes(scene.dispatcher, JobOrders(scene.dispatcher), RunSecrets())

    for name in ("theirs", "nobodys"):
        with pytest.raises(HttpRefusal) as refused:
            scene.called(logs.follow, name)
        assert refused.value.status == 404
        asked = JournalAsked(1, name, EntryKind.LOG)
        shown: JournalShown = answer(scene.frontend._questions._journal(encode(asked), MINE))
        assert (shown.status, shown.entries) == (None, ())


def test_why_is_asked_over_zeromq_too(scene: Scene) -> None:
    async def asked(name: str, scope: JobScope) -> WhyShown:
        questions = scene.frontend._questions
        kind, shown, _ = await questions._why(encode(WhyAsked(1, name)), scope)
        assert (kind, isinstance(shown, WhyShown)) == (Kind.WHY, True)
        return decode(encode(shown), WhyShown)

    assert asyncio.run(asked("waits", MINE)).explanation is None
    said = asyncio.run(asked("waits", EVERYTHING)).explanation
    assert said is not None
    assert [it.kind for it in said.reasons] == ["unserved"]


def test_a_fetch_finds_what_is_in_scope(scene: Scene) -> None:
    body = encode(Fetch(1, ("mine", "theirs", "nobodys")))

    found: Fetched = answer(scene.frontend._questions._fetch(body, MINE))
    everything: Fetched = answer(scene.frontend._questions._fetch(body, EVERYTHING))

    assert ([it.job_id for it in found.outcomes], found.unknown) == (
        ["mine"],
        ("theirs", "nobodys"),
    )
    assert everything.unknown == ("nobodys",)


@pytest.mark.parametrize(
    ("asked", "scope", "ids"),
    [
        (JobsAsked(1), MINE, ["mine"]),
        (JobsAsked(1, namespace="rivals"), MINE, []),
        (JobsAsked(1, job_ids=("mine", "theirs")), MINE, ["mine"]),
        (JobsAsked(1, before="waits"), MINE, []),
        (JobsAsked(1), JobScope(""), []),
        (JobsAsked(1), EVERYTHING, ["waits", "theirs", "mine"]),
        (JobsAsked(1, namespace="team"), EVERYTHING, ["mine"]),
    ],
)
def test_a_listing_has_what_is_in_scope(
    scene: Scene, asked: JobsAsked, scope: JobScope, ids: list[str]
) -> None:
    listed: JobsListed = answer(scene.frontend._questions._list(encode(asked), scope))

    assert [job.id for job in listed.jobs] == ids


def test_a_submission_gets_the_namespace_of_its_sender(scene: Scene) -> None:
    jobs = (Submission("j-1", "t", b"\xc0"), Submission("theirs", "t", b"\xc0"))

    accepted = scene.says(Kind.SUBMIT, Submit(1, jobs), MINE)

    assert scene.job("j-1").namespace == "team"
    assert [receipt.field for receipt in accepted.receipts] == ["", "id"]
    assert "is taken" in accepted.receipts[1].reason


def test_a_cancel_of_a_job_out_of_scope_says_that_there_is_none(scene: Scene) -> None:
    accepted = scene.says(Kind.CANCEL, Cancel(1, ("waits", "nobodys")), MINE)

    theirs, nobodys = accepted.receipts
    assert (theirs.field, theirs.reason) == (
        nobodys.field,
        nobodys.reason.replace("nobodys", "waits"),
    )
    assert scene.job("waits").status is Status.QUEUED


def test_over_http_a_job_out_of_scope_is_not_found(scene: Scene) -> None:
    routes = scene.routes
    assert scene.called(routes.show, "mine")["namespace"] == "team"
    assert scene.called(routes.show, "theirs", scope=None)["namespace"] == "rivals"

    for route in (routes.show, routes.cancel):
        faults = []
        for job_id in ("waits", "nobodys"):
            with pytest.raises(HttpRefusal) as caught:
                scene.called(route, job_id)
            assert caught.value.status == 404
            faults.append(caught.value.detail.message.replace(job_id, "it"))
        assert len(set(faults)) == 1
    assert scene.job("waits").status is Status.QUEUED


def test_over_http_a_page_has_what_is_in_scope(scene: Scene) -> None:
    def listed(query: bytes = b"", scope: JobScope | None = MINE) -> list[str]:
        page = scene.called(scene.routes.browse, scope=scope, query=query)
        return [job["id"] for job in page["jobs"]]

    assert listed() == ["mine"]
    assert listed(b"namespace=rivals") == listed(b"before=waits") == []
    assert listed(scope=None) == ["waits", "theirs", "mine"]
    assert listed(b"namespace=rivals", scope=None) == ["waits", "theirs"]


def test_over_http_a_job_gets_the_namespace_of_its_sender(scene: Scene) -> None:
    made = scene.called(scene.routes.submit, body={"type": "t"})

    assert (made["id"], made["namespace"]) == ("new", "team")
