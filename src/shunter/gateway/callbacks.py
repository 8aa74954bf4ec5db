"""Calls back for jobs that have ended: a POST of the job's document to the URL it came with.

A shell: which job is called for, and when again, is decided in `dispatch/callbacks.py`; who may
be called, in `model/allowed_hosts.py`, here once more for the addresses that a name led to.
Spec: docs/spec/http.md.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

import msgspec
import structlog
from msgspec.structs import replace

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import StoreError
from shunter.gateway.udp.clients import UdpClients
from shunter.model.allowed_hosts import SETTING
from shunter.model.job import Job
from shunter.model.redaction import without_callback_of
from shunter.net.environment import REAL, Environment
from shunter.net.http_calls import Answer, CallFailed, CallForbidden
from shunter.net.tls import CallerFiles
from shunter.net.web.bodies import aside
from shunter.wire.documents import job_document
from shunter.wire.udp.job_names import SCHEME

FINISH_SECONDS = 2.0
"""How long calls under way may go on when the dispatcher stops; others make them again later."""

SPARE_SECONDS = 1.0
"""What is left of the time in which a call is ours, when the call must have ended."""

MOST_SHOWN_LETTERS = 200


class CallbackCaller:
    """Makes the calls of one dispatcher. A CallbackLink."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        tls: CallerFiles | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._dispatcher = dispatcher
        self._rules = dispatcher.rules.callbacks
        self._hosts = dispatcher.rules.intake.callback_hosts
        self._log = structlog.get_logger("shunter.dispatcher")
        self._caller = environment.caller(
            at_once=self._rules.at_once, may_call=self._hosts.may_call, tls=tls
        )
        self._waiting: asyncio.Queue[Job] = asyncio.Queue()
        self.udp: UdpClients | None = None
        self._under_way = 0

    def call(self, job: Job) -> None:
        self._under_way += 1
        self._waiting.put_nowait(job)

    async def run(self) -> None:
        """Make calls until cancelled."""
        self._dispatcher.serve_callbacks(self)
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._make(await self._waiting.get()))

    async def finish(self) -> None:
        """Begin no more calls, and give those under way a moment to end."""
        self._dispatcher.serve_callbacks(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while self._under_way:
                    await asyncio.sleep(0.01)

    async def close(self) -> None:
        await self._caller.close()

    async def _make(self, job: Job) -> None:
        """Make one call and tell the dispatcher how it went, whatever happens."""
        assert job.callback is not None
        error: str | None = "the dispatcher stopped during the call"
        try:
            is_udp = job.callback.url.startswith(f"{SCHEME}:")
            error = await (self._notified(job) if is_udp else self._called(job))
        except CallForbidden as failure:
            error = f"{failure}; add the address to {SETTING} of the dispatchers"
        except CallFailed as failure:
            error = str(failure)
        except StoreError as failure:
            error = f"its record could not be read: {failure}"
        except Exception as failure:
            self._log.exception("a callback failed", action="callback", job=job.id)
            error = f"a fault of Shunter's, see the log: {type(failure).__name__}"
        finally:
            self._under_way -= 1
            self._dispatcher.callback_attempted(job.id, job.callback.tries, error)
        if error is not None and job.callback.tries >= self._rules.max_tries:
            self._log.warning("callback given up", action="callback", job=job.id, error=error)

    async def _notified(self, job: Job) -> str | None:
        """Tell a client of UDP; return what went wrong, None if nothing did."""
        if self.udp is None:
            return "this dispatcher has no UDP gateway (udp.enabled)"
        (stored,) = await self._dispatcher.store.get([job.id])
        return "it is gone" if stored is None else await self.udp.notify(stored)

    async def _called(self, job: Job) -> str | None:
        """Post the document; return what went wrong, None if nothing did."""
        mine = job.callback
        assert mine is not None
        assert mine.due is not None
        (stored,) = await self._dispatcher.store.get([job.id])
        left = mine.due - self._dispatcher.now() - SPARE_SECONDS
        if stored is None or stored.revision != job.revision or left <= 0:
            return "it took too long to begin; another dispatcher may be at it"
        if fault := self._hosts.fault(mine.url):
            return fault
        size = len(stored.result or b"")
        body = await aside(size, lambda: _document(stored))
        answer = await self._caller.call(
            "POST",
            mine.url,
            seconds=min(self._rules.timeout, left),
            json=body,
            headers={"Idempotency-Key": job.id, "Shunter-Try": str(mine.tries)},
        )
        return None if answer.is_success else without_callback_of(mine.url, _said(answer))


def _document(job: Job) -> bytes:
    """Write what is shown of the job over HTTP, without its payload: the client has that."""
    return msgspec.json.encode(replace(job_document(job), payload=msgspec.UNSET))


def _said(answer: Answer) -> str:
    """Say what came in place of success."""
    line = answer.body.decode(errors="replace").strip().partition("\n")[0]
    shown = "".join(letter if letter.isprintable() else " " for letter in line)
    said = f"answered with {answer.status}"
    if answer.status in (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER,
                         HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT):  # fmt: skip
        said += ", and redirects are not followed"
    return f"{said}: {shown[:MOST_SHOWN_LETTERS]}" if shown else said
