"""The backend forgets where workers are only once they are really gone."""

from __future__ import annotations

from typing import Any

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.gateway.key_list import KeyList
from shunter.gateway.zmq.backend import Backend
from shunter.model.worker import Handler
from shunter.refusal_log import RefusalLog
from shunter.testing import MemoryStore, VirtualClock
from shunter.testing.finish import finish
from shunter.wire import frames
from shunter.wire.frames import full
from shunter.wire.messages import Hello, Kind


class Deaf:
    """A socket that sends nothing and never fails."""

    def send(self, message: Any) -> bool:
        return True


def test_a_worker_is_forgotten_when_it_has_been_silent_for_long() -> None:
    store, clock = MemoryStore(), VirtualClock()
    finish(store.open())
    dispatcher = Dispatcher(store, dispatcher_id="d", rules=Rules(), now=clock, jitter=lambda: 0.5)
    backend = Backend(
        dispatcher,
        RefusalLog(dispatcher.counters),
        worker_expire_seconds=3.0,
        max_result_bytes=1024,
        store="s",
        keys=KeyList(None),
    )
    backend.socket = Deaf()  # type: ignore[assignment]
    hello = Hello("w-1", 1, (Handler("t"),), 1, 1)

    backend.receive([[b"plain", frames.DELIMITER, frames.READY]])
    backend.receive([[b"full", *full(Kind.READY, hello)]])
    clock.advance(2.0)
    backend.forget_gone()
    assert sorted(backend._identities.values()) == [b"full", b"plain"]

    clock.advance(60.0)
    backend.tick()
    backend.forget_gone()

    assert backend._identities == {}
