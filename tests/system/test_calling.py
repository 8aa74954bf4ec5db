"""Calls that we make over HTTP: where they may go, and what comes back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from shunter.model.allowed_hosts import allowed_hosts
from shunter.net.http_calls import KEPT_BYTES, Answer, Caller, CallFailed, CallForbidden
from system.receiver import Receiver
from system.yard import PATIENCE, free_port

ELSEWHERE = allowed_hosts(("hooks.example.com",))


def called(url: str, *, seconds: float = PATIENCE, times: int = 1, **options: Any) -> Answer:
    async def call() -> Answer:
        caller = Caller(at_once=2, **options)
        try:
            for _ in range(times):
                answer = await caller.call("POST", url, seconds=seconds, json=b"{}")
            return answer
        finally:
            await caller.close()

    return run(call())


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(work)


def by_name(receiver: Receiver) -> str:
    return receiver.url.replace("127.0.0.1", "localhost")


def test_the_answer_comes_back_whatever_its_status() -> None:
    with Receiver(lambda call, before: (418, {}, b"teapot")) as receiver:
        assert called(receiver.url) == Answer(418, b"teapot")


def test_a_long_answer_is_cut_and_holds_nobody_up() -> None:
    with Receiver(lambda call, before: (200, {}, b"x" * (KEPT_BYTES * 20))) as receiver:
        assert len(called(receiver.url, times=3).body) == KEPT_BYTES


def test_an_address_that_a_name_leads_to_is_asked_about_before_it_is_called() -> None:
    asked: list[tuple[str, str]] = []

    def may_call(host: str, address: str) -> bool:
        asked.append((host, address))
        return False

    forbidden = pytest.raises(CallForbidden, match=r"localhost is at .*, which may not be called")
    with Receiver() as receiver, forbidden:
        called(by_name(receiver), may_call=may_call)

    assert ("localhost", "127.0.0.1") in asked
    assert receiver.calls == []


def test_an_address_in_a_url_is_asked_about_before_it_is_called() -> None:
    forbidden = pytest.raises(CallForbidden, match=r"127\.0\.0\.1 may not be called")
    with Receiver() as receiver, forbidden:
        called(receiver.url, may_call=ELSEWHERE.may_call)

    assert receiver.calls == []


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "0177.0.0.1", "[::ffff:7f00:1]"])
def test_another_spelling_of_an_address_is_no_way_around(host: str) -> None:
    with Receiver() as receiver:
        port = receiver.url.rpartition(":")[2]
        with pytest.raises(CallFailed):
            called(f"http://{host}:{port}/", may_call=ELSEWHERE.may_call)

    assert receiver.calls == []


def test_a_name_is_resolved_once_for_a_call_and_the_call_goes_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads elsewhere when asked again changes nothing any more."""
    resolved: list[str] = []
    system = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if host == "hooks.example.com":
            resolved.append(host)
            host = "127.0.0.1" if len(resolved) == 1 else "192.0.2.1"
        return system(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example.com")
        here = allowed_hosts(("hooks.example.com", "127.0.0.0/8"))
        assert called(url, may_call=here.may_call).status == 200

    assert resolved == ["hooks.example.com"]
    assert len(receiver.calls) == 1


def test_a_listed_name_that_leads_inwards_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    system = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        host = "127.0.0.1" if host == "hooks.example.com" else host
        return system(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example.com")
        with pytest.raises(CallForbidden, match=r"hooks\.example\.com is at 127\.0\.0\.1, which"):
            called(url, may_call=ELSEWHERE.may_call)

    assert receiver.calls == []


def test_a_peer_that_is_not_there_was_not_sent_anything() -> None:
    with pytest.raises(CallFailed, match=r"can't connect to 127\.0\.0\.1") as failure:
        called(f"http://127.0.0.1:{free_port()}/")

    assert not failure.value.was_sent


def test_a_peer_that_does_not_answer_may_have_been_sent_it() -> None:
    unanswered = pytest.raises(CallFailed, match=r"no answer from 127\.0\.0\.1.* within 0\.3 s")
    with Receiver(lambda call, before: None) as receiver, unanswered as fault:
        called(receiver.url, seconds=0.3)

    assert fault.value.was_sent


def test_a_redirect_is_an_answer_like_any_other() -> None:
    moved = (302, {"Location": "/elsewhere"}, b"")
    with Receiver(lambda call, before: moved) as receiver:
        assert called(receiver.url).status == 302
        assert len(receiver.calls) == 1
