"""Somebody who is called back: an HTTP server that writes down what it hears."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from system.yard import until


class Call(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]

    @property
    def tries(self) -> int:
        return int(self.headers["Shunter-Try"])


Answer = tuple[int, dict[str, str], bytes]
Answering = Callable[[Call, int], int | Answer | None]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Receiver:
    """Answers each call as `answering` says, given the call and how many came before.

    A status is enough of an answer; None is no answer at all, for as long as the test lasts.
    """

    def __init__(self, answering: Answering = lambda call, before: 200, *, port: int = 0) -> None:
        self.calls: list[Call] = []
        self._answering = answering
        self._over = threading.Event()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                call = Call(self.path, dict(self.headers), json.loads(body))
                with receiver._lock:
                    before = len(receiver.calls)
                    receiver.calls.append(call)
                answer = receiver._answering(call, before)
                if answer is None:
                    receiver._over.wait()
                    self.close_connection = True
                    return
                status, headers, text = (answer, {}, b"") if isinstance(answer, int) else answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self) -> None:
                receiver.calls.append(Call(f"GET {self.path}", dict(self.headers), {}))
                self.send_error(500)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def heard(self, count: int) -> list[Call]:
        """Wait until so many calls have come."""
        until(lambda: len(self.calls) >= count, what=f"{count} calls, heard {len(self.calls)}")
        return self.calls

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
