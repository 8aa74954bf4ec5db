"""The backend forgets where workers are only once they are really gone."""

from __future__ import annotations

from typing import Any

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.gateway.backend import Backend
from shunter.gateway.complaints import Complaints
from shunter.testing import MemoryStore, VirtualClock
from shunter.testing.sandbox import _finish as finish
from shunter.wire import frames


class Deaf:
    """A socket that sends nothing and never fails."""

    def send(self, message: Any) -> bool:
        return True


def test_a_worker_that_has_just_come_is_not_forgotten_before_its_first_turn() -> None:
    store = MemoryStore()
    finish(store.open())
    dispatcher = Dispatcher(
        store, dispatcher_id="d", rules=Rules(), now=VirtualClock(), spread=lambda: 0.5
    )
    backend = Backend(
        dispatcher,
        Complaints(dispatcher.counters),
        worker_expire_seconds=3.0,
        max_result_bytes=1024,
        store="s",
    )
    backend.socket = Deaf()  # type: ignore[assignment]

    backend.receive([[b"plain", frames.DELIMITER, frames.READY]])
    backend.forget_gone()

    assert list(backend._identities.values()) == [b"plain"]
    for worker_id in list(dispatcher.desk.members):
        dispatcher.desk.remove(worker_id)
    backend.forget_gone()
    assert backend._identities == {}
