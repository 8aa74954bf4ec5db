"""HTTP workers of another make: they know the protocol and nothing of Shunter's code."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from system.calls import calls
from system.yard import PATIENCE, Station, free_port

WORKERS = "/dispatcher/workers/"
JOBS = "/dispatcher/jobs/"


class ForeignWorker:
    """Serves the four routes. What it does with a job is the test's business.

    `work` gets the document of each job in a thread of its own and returns the result; None
    reports nothing. `take` may answer a POST by itself: it returns a status.
    """

    def __init__(
        self,
        *stations: Station,
        handlers: tuple[str, ...] = ("add",),
        max_jobs: int = 2,
        work: Callable[[dict[str, Any]], Any] = lambda job: sum(job["payload"]),
    ) -> None:
        self.stations = list(stations)
        self.handlers, self.max_jobs, self.work = handlers, max_jobs, work
        self.take: Callable[[dict[str, Any]], int] | None = None
        self.port = free_port()
        self.id = ""
        self.healthy = True
        self.running: dict[str, dict[str, Any]] = {}
        self.peak = 0
        self.calls: list[tuple[float, str, str]] = []
        self.leases: list[str | None] = []
        self.shown_tokens: set[str | None] = set()
        self.reports: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    # ---- being there

    def listen(self) -> ForeignWorker:
        self._server = _Server(("127.0.0.1", self.port), _handler_of(self))
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def vanish(self) -> None:
        """Stop listening, as a host that died."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._server = None

    def close(self) -> None:
        if self._server is not None:
            self.vanish()

    def register(self, at: int = 0, **changes: Any) -> dict[str, Any]:
        body = {
            "hostname": "127.0.0.1",
            "port": self.port,
            "handlers": list(self.handlers),
            "maxJobs": self.max_jobs,
            **changes,
        }
        answer = self._ask("PUT", at, WORKERS, body)
        assert answer.status_code == 201, answer.text
        self.id = answer.json()["id"]
        return answer.json()

    def resign(self, at: int = 0) -> dict[str, Any]:
        answer = self._ask("DELETE", at, WORKERS + self.id)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def shown(self, at: int = 0) -> dict[str, Any] | None:
        """Return the worker's document, None where there is none any more."""
        answer = self._ask("GET", at, WORKERS + self.id)
        return answer.json() if answer.status_code == 200 else None

    def asked(self, method: str, path: str = "") -> list[float]:
        """Return when calls of this kind came."""
        return [at for at, how, where in list(self.calls) if how == method and path in where]

    # ---- what it is asked

    def answer(self, method: str, path: str, body: Any, lease: str | None) -> int:
        self.calls.append((time.monotonic(), method, path))
        self.leases.append(lease)
        if path == "/health_check/":
            return 200 if self.healthy else 500
        if method == "POST":
            return self.take(body) if self.take is not None else self.accept(body)
        job_id = path.removeprefix("/jobs/").partition("?")[0]
        if method == "GET":
            return 200 if job_id in self.running else 404
        with self._lock:
            return 204 if self.running.pop(job_id, None) else 404

    def accept(self, job: dict[str, Any]) -> int:
        with self._lock:
            self.running[job["id"]] = job
            self.peak = max(self.peak, len(self.running))
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return 202

    def _run(self, job: dict[str, Any]) -> None:
        result = self.work(job)
        with self._lock:
            is_mine = self.running.get(job["id"]) is job
            if is_mine and result is not None:
                del self.running[job["id"]]
        if is_mine and result is not None:
            self.report(job, result)

    def report(self, job: dict[str, Any], result: Any) -> int:
        """Report to the first dispatcher that answers."""
        body = {
            "status": "c",
            "attempt": job["attempt"],
            "worker_id": job["execution"]["worker_id"],
            "result": result,
        }
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for at in range(len(self.stations)):
                try:
                    answer = self._ask("POST", at, f"{JOBS}{job['id']}/result", body)
                except httpx.HTTPError:
                    continue
                if answer.status_code < 500:
                    self.reports.append((job["id"], answer.status_code))
                    return answer.status_code
            time.sleep(0.05)
        raise AssertionError(f"nobody took the result of {job['id']}")

    def _ask(self, method: str, at: int, path: str, body: Any = None) -> httpx.Response:
        url = f"http://127.0.0.1:{self.stations[at].http_port}{path}"
        return calls.request(method, url, json=body, timeout=PATIENCE / 2)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _handler_of(worker: ForeignWorker) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            worker.shown_tokens.add(self.headers.get("Authorization"))
            lease = self.headers.get("Shunter-Lease")
            status = worker.answer(self.command, self.path, body, lease)
            if status == 0:  # break off without an answer
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_DELETE = do_GET  # noqa: N815 - the names that the library looks for

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
