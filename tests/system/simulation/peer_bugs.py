"""Bugs that only HTTP workers, peers over UDP and receivers of callbacks show."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import pytest
from bug_list import bug, nothing
from msgspec.structs import replace

from shunter.gateway import callbacks, service
from shunter.gateway.callbacks import CallbackCaller
from shunter.gateway.http.worker_calls import HttpWorkers
from shunter.gateway.udp.clients import UdpClients, _notice
from shunter.gateway.udp.workers import UdpWorkers, _outcome
from shunter.model.report import Report
from shunter.net.http_calls import CallFailed
from shunter.net.udp_endpoint import UdpEndpoint
from shunter.wire.udp import job_names, packets
from shunter.worker.http.holdings import Holdings, Reply
from shunter.worker.http.http_lease import HttpLease
from shunter.worker.udp.calculator_session import CalculatorSession


@bug("a completion over UDP counts for whatever attempt runs now")
def udp_attempt_ignored(patch: pytest.MonkeyPatch) -> None:
    complete = UdpWorkers.complete

    def believe(self: Any, params: Any, command: Any, peer: Any) -> None:
        complete(self, params, command, peer)
        result, error = _outcome(params)
        for job in list(self._dispatcher.state.running.values()):
            if job_names.task_id_of(job) == params.task_id:
                report = Report(job.id, job.attempt, result=result, error=error)
                self._dispatcher.report(job.execution.worker_id, [report])

    patch.setattr(UdpWorkers, "complete", believe)


@bug("a completion over UDP is confirmed before the commit")
def udp_completion_confirmed_early(patch: pytest.MonkeyPatch) -> None:
    complete = UdpWorkers.complete

    def eager(self: Any, params: Any, command: Any, peer: Any) -> None:
        self._confirm_completion(command, peer)
        complete(self, params, command, peer)

    patch.setattr(UdpWorkers, "complete", eager)


@bug("a calculator begins a task again that is sent again")
def perform_task_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UdpEndpoint, "_is_new", lambda self, command, peer, *, is_repeated: True)
    offered = CalculatorSession.offered

    def begin(self: Any, task: Any, **about: Any) -> Any:
        self.settled()
        return offered(self, task)

    patch.setattr(CalculatorSession, "offered", begin)


@bug("a duplicate add_task is stored twice")
def task_stored_twice(patch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()

    def nameless(client: Any, task_id: Any) -> str:
        return f"udp:{next(numbers)}"

    patch.setattr(job_names, "unique_key", nameless)
    patch.setattr(UdpEndpoint, "_is_new", lambda self, command, peer, *, is_repeated: True)


@bug("an add_task is confirmed before it is stored")
def task_confirmed_early(patch: pytest.MonkeyPatch) -> None:
    add = UdpClients.add

    def eager(self: Any, params: Any, command: Any, peer: Any, *others: Any) -> None:
        self._exchange.endpoint.confirm(command, peer)
        add(self, params, command, peer, *others)

    patch.setattr(UdpClients, "add", eager)


@bug("a notice over UDP is sent once")
def notice_sent_once(patch: pytest.MonkeyPatch) -> None:
    def once(self: Any, job: Any, peer: Any, task_id: Any, heard: Any) -> None:
        notice = packets.request(_notice(job, task_id), job_names.notice_number(job))
        self._exchange.endpoint.send(notice, peer)
        heard(None)

    patch.setattr(UdpClients, "_notify", once)


@bug("a callback is written down as delivered before it was")
def callback_assumed(patch: pytest.MonkeyPatch) -> None:
    called = CallbackCaller._called

    async def assume(self: Any, job: Any) -> None:
        self._dispatcher.callback_attempted(job.id, job.callback.tries, None)
        await called(self, job)

    patch.setattr(CallbackCaller, "_called", assume)


@bug("any answer to a callback is taken for a yes")
def callback_refusal_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(callbacks, "_said", nothing)


@bug("a callback that failed is not made again")
def callback_made_once(patch: pytest.MonkeyPatch) -> None:
    rules_of = service.rules_of

    def once(settings: Any) -> Any:
        rules = rules_of(settings)
        return replace(rules, callbacks=replace(rules.callbacks, max_tries=1))

    patch.setattr(service, "rules_of", once)


@bug("an HTTP worker's 202 is taken for the end of the job")
def accepted_is_done(patch: pytest.MonkeyPatch) -> None:
    offer = HttpWorkers._offer

    async def believe(self: Any, worker_id: str, job: Any, held: Any) -> None:
        await offer(self, worker_id, job, held)
        result = msgspec.msgpack.encode([job.id, job.attempt, ""])
        self._dispatcher.report(worker_id, [Report(job.id, job.attempt, result=result)])

    patch.setattr(HttpWorkers, "_offer", believe)


@bug("an HTTP worker starts a run again that is offered again")
def offer_repeated(patch: pytest.MonkeyPatch) -> None:
    offer = HttpWorkers._offer

    async def twice(self: Any, worker_id: str, job: Any, held: Any) -> None:
        await offer(self, worker_id, job, held)
        await offer(self, worker_id, job, held)

    patch.setattr(HttpWorkers, "_offer", twice)
    patch.setattr(Holdings, "offered", lambda self, offer: Reply.START)


@bug("an HTTP worker that is cut off never stops its jobs")
def http_lease_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HttpLease, "ends_at", property(lambda self: math.inf))


@bug("an offer without an answer is taken to have failed")
def unanswered_means_no(patch: pytest.MonkeyPatch) -> None:
    failed = CallFailed.__init__

    def not_sent(self: Any, reason: str, *, was_sent: bool) -> None:
        failed(self, reason, was_sent=False)

    patch.setattr(CallFailed, "__init__", not_sent)
