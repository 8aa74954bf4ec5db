"""How workers say over HTTP and UDP that they have hooks, and who may not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shunter.gateway.udp.workers import _handlers, _offered, _task
from shunter.model.job import Job
from shunter.model.retry import Retry
from shunter.model.worker import Handler
from shunter.wire.checked_documents import checked
from shunter.wire.tagged_values import BadDocument
from shunter.wire.udp.methods import Heartbeat
from shunter.wire.udp.packets import PacketFault, notice, parse
from shunter.wire.worker_documents import WorkerRequest
from shunter.worker.http.offers import Introduction

JOB = Job(id="j", type="t", created=0.0, updated=0.0, payload=b"\xc0")


@pytest.mark.parametrize("has_hooks", [True, False])
def test_a_worker_over_http_says_whether_its_app_has_hooks(has_hooks: bool) -> None:
    said = Introduction(hostname="h", port=5, handlers=["t"], maxJobs=1, hasHooks=has_hooks)

    read = checked(msgspec.json.decode(msgspec.json.encode(said)), WorkerRequest)

    assert read.hasHooks is has_hooks


def test_a_calculator_does_calls_of_hooks_for_all_its_types_if_its_app_has_any() -> None:
    has, hook = Heartbeat(status="ready", handlers=("a", "b"), has_hooks=True), Handler("a")

    assert _offered(has) == ("a", "b", "final-failure/a", "final-failure/b")
    assert _handlers(_offered(has) or ()) == (
        Handler("a", has_hooks=True),
        Handler("b", has_hooks=True),
    )
    assert _offered(Heartbeat(status="ready", has_hooks=True)) == (
        "default",
        "final-failure/default",
    )
    assert _offered(Heartbeat(status="ready")) is None
    assert _handlers(("a",)) == (hook,)


def test_nobody_serves_calls_of_hooks_by_name() -> None:
    document: dict[str, Any] = {"hostname": "h", "port": 5, "handlers": ["t"], "maxJobs": 1}
    assert checked(document, WorkerRequest).handlers == ("t",)

    with pytest.raises(BadDocument) as refused:
        checked({**document, "handlers": ["final-failure/t"]}, WorkerRequest)
    with pytest.raises(PacketFault, match="none beginning with"):
        parse(notice(Heartbeat(status="ready", handlers=("final-failure/t",))))

    assert refused.value.field == "handlers"
    assert "none beginning with final-failure/" in refused.value.message


def test_a_task_over_udp_says_whether_it_would_be_tried_again() -> None:
    def may_retry(**changes: Any) -> bool | None:
        return _task(msgspec.structs.replace(JOB, **changes), "j").may_retry

    assert may_retry() is None
    assert may_retry(retry=Retry(limit=2), failures=1)
    assert may_retry(retry=Retry(limit=2), failures=2) is None
