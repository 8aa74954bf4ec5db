"""Fixtures of the tests with a worker behind HTTP: real workers, made-up dispatchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from system.http_worker.fake_dispatcher import FakeDispatcher
from system.yard import WITNESS_APP, Process, Yard

StartWorker = Callable[..., Process]


def worker_in(yard: Yard) -> StartWorker:
    """Return what starts a worker of the witness app for some dispatchers."""
    count = 0

    def start(*dispatchers: FakeDispatcher | str, slots: int = 2, **settings: Any) -> Process:
        nonlocal count
        count += 1
        name = f"http-worker-{count}"
        config = yard.config(
            name,
            {
                "worker.max_jobs": slots,
                "worker.kill_grace_seconds": 0.3,
                **{key.replace("__", "."): value for key, value in settings.items()},
            },
        )
        words = ["worker", "--http", "--app", WITNESS_APP, "--config", str(config)]
        for dispatcher in dispatchers:
            url = dispatcher if isinstance(dispatcher, str) else dispatcher.url
            words += ["--dispatcher", url]
        return yard.process(words, name, children=slots)

    return start


@pytest.fixture
def start_worker(yard: Yard) -> StartWorker:
    return worker_in(yard)


@pytest.fixture
def dispatcher() -> Iterator[FakeDispatcher]:
    fake = FakeDispatcher().start()
    yield fake
    fake.close()


@pytest.fixture(scope="module")
def shared(shared_yard: Yard) -> Iterator[FakeDispatcher]:
    """A dispatcher with one worker, for tests that leave both as they found them."""
    fake = FakeDispatcher().start()
    worker = worker_in(shared_yard)(fake, slots=2, zmq__max_message_bytes=1024 * 1024)
    fake.await_introduction()
    yield fake
    assert worker.is_alive
    assert fake.health_check().json()["jobs"] == 0
    fake.close()
