"""The socket that HTTP is served on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket

import pytest

from shunter.net.web.server import LOGGED_SECONDS, LOGGER, HttpServer, SeldomFilter, bound_listener


def test_answers_are_sent_without_delay() -> None:
    """Asyncio turns off Nagle's algorithm only where the socket names its protocol.

    Without it every answer waits 40 ms for the client's delayed acknowledgement.
    """
    with bound_listener("127.0.0.1", 0, key="http.port", remedy="another") as listener:
        assert listener.proto == socket.IPPROTO_TCP


async def application(*_: object) -> None: ...


def test_that_descriptors_have_run_out_is_logged_once_and_not_at_each_try_to_accept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = HttpServer(application, "127.0.0.1", 0, key="http.port", remedy="another")
    shortage = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, "Too many open files"),
    }

    async def serving() -> None:
        task = asyncio.create_task(server.serve())
        await server.started()
        for _ in range(3):
            asyncio.get_running_loop().call_exception_handler(shortage)
        server.stop()
        await task

    with contextlib.closing(server):
        asyncio.run(serving())

    told = [it.getMessage() for it in caplog.records if it.name == LOGGER and "raise" in it.msg]
    assert told == [
        "socket.accept() out of system resource: Too many open files; raise the limit of open files"
    ]


def test_the_same_line_passes_again_after_a_while() -> None:
    log = SeldomFilter()

    def passes(text: str, created: float) -> bool:
        record = logging.LogRecord(LOGGER, logging.WARNING, "", 0, text, (), None)
        record.created = created
        return log.filter(record)

    assert passes("no", 1000.0)
    assert passes("other", 1000.0)
    assert not passes("no", 1000.0 + LOGGED_SECONDS / 2)
    assert passes("no", 1000.0 + LOGGED_SECONDS)
