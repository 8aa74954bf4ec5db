"""A dispatcher that is none: it notes what a worker says, and answers what the test wants."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shunter.net.web.server import bound_listener, http_server
from system.yard import PATIENCE, free_port, until

LEASE = 30.0
"""What every call promises unless the test says otherwise."""

Said = dict[str, Any]


class FakeDispatcher:
    """`answers` are statuses for the next reports; after them all is well.

    `registrations`, `reports` and `farewells` are what the worker said, in order; `log` is the
    kinds of all of it.
    """

    def __init__(self, port: int | None = None, *, worker_id: str = "w-fake") -> None:
        self.port = port or free_port()
        self.worker_id = worker_id
        self.answers: deque[tuple[int, Said]] = deque()
        self.registration_answers: deque[int] = deque()
        self.registrations: list[Said] = []
        self.reports: list[tuple[str, Said]] = []
        self.farewells: list[str] = []
        self.log: list[str] = []
        self.on_farewell: Callable[[], None] = lambda: None
        self._calls = httpx.Client(trust_env=False)
        self.patience = PATIENCE
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # ---- being there, and not

    def start(self) -> FakeDispatcher:
        app = Starlette(
            routes=[
                Route("/dispatcher/workers/", self._register, methods=["PUT"]),
                Route("/dispatcher/workers/{id:path}", self._resign, methods=["DELETE"]),
                Route("/dispatcher/jobs/{id:path}/result", self._report, methods=["POST"]),
            ]
        )
        listener = bound_listener("127.0.0.1", self.port, key="port", remedy="another")
        server = self._server = http_server(app)
        self._thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        self._thread.start()
        until(lambda: server.started)
        return self

    def stop(self) -> None:
        """Go down; connections that the worker has kept are closed."""
        if self._server is not None:
            self._server.stop()
            self._thread.join(PATIENCE)
            self._server = None

    def close(self) -> None:
        self.stop()
        self._calls.close()

    # ---- what the worker calls

    async def _register(self, request: Request) -> Response:
        self.log.append("register")
        status = self.registration_answers.popleft() if self.registration_answers else 201
        if status != 201:
            return JSONResponse(_error("unavailable"), status)
        self.registrations.append(await request.json())
        return JSONResponse({"id": self.worker_id, "isDead": False}, 201)

    async def _resign(self, request: Request) -> Response:
        self.on_farewell()
        self.log.append("resign")
        self.farewells.append(request.path_params["id"])
        return JSONResponse({})

    async def _report(self, request: Request) -> Response:
        body = await request.json()
        self.log.append("report")
        self.reports.append((request.path_params["id"], body))
        status, document = self.answers.popleft() if self.answers else (200, {})
        return JSONResponse(document, status)

    def will_answer(self, *statuses: int, code: str = "unavailable") -> None:
        """Answer the next reports with these."""
        self.answers.extend((status, _error(code)) for status in statuses)

    # ---- what it calls

    @property
    def worker_url(self) -> str:
        at = until(lambda: self.registrations, what="a registration")[-1]
        return f"http://{at['hostname']}:{at['port']}"

    def call(
        self, method: str, path: str, *, lease: float | None = LEASE, **how: Any
    ) -> httpx.Response:
        headers = {} if lease is None else {"Shunter-Lease": str(lease)}
        headers |= how.pop("headers", {})
        url = self.worker_url + path
        return self._calls.request(method, url, headers=headers, timeout=self.patience, **how)

    def health_check(self, **how: Any) -> httpx.Response:
        return self.call("GET", "/health_check/", **how)

    def await_introduction(self) -> None:
        """Wait until the worker has read the answer that says its name."""
        until(lambda: self.health_check().json()["id"] == self.worker_id, what="it has its name")

    def offer(
        self,
        job_id: str,
        job_type: str,
        *args: Any,
        attempt: int = 1,
        timeout: float | None = None,
        lease: float | None = LEASE,
        **fields: Any,
    ) -> httpx.Response:
        """Offer a job; `timeout` is in milliseconds."""
        document = {
            "id": job_id,
            "type": job_type,
            "payload": list(args),
            "attempt": attempt,
            "execution": {"worker_id": self.worker_id, "timeout": timeout, "started": 1.0},
            **fields,
        }
        return self.call("POST", "/jobs/", json=document, lease=lease)

    def look(self, job_id: str, attempt: int | None = 1, **how: Any) -> int:
        query = {} if attempt is None else {"attempt": attempt}
        return self.call("GET", f"/jobs/{job_id}", params=query, **how).status_code

    def cancel(self, job_id: str, attempt: int | None = 1) -> int:
        query = {} if attempt is None else {"attempt": attempt}
        return self.call("DELETE", f"/jobs/{job_id}", params=query).status_code

    def report_on(self, job_id: str, *, within: float = PATIENCE) -> Said:
        """Wait for the report on a job, and return it."""
        found = until(
            lambda: [said for job, said in self.reports if job == job_id],
            within=within,
            what=f"a report on {job_id}",
        )
        return found[-1]


def _error(code: str) -> Said:
    return {"error": {"code": code, "message": f"as the test wants: {code}", "field": None}}
