"""What all tests share: who runs beside whom, and how patient hypothesis is on a busy machine."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadfile import LoadFileScheduling

from long_runs import IS_LONG

settings.register_profile(
    "patient",
    deadline=None,
    max_examples=160 if IS_LONG else 25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")

TESTS = Path(__file__).parent
ON_ONE_SESSION = TESTS / "system" / "spark"


class Together(LoadFileScheduling):
    """The tests of a file run in one process, and so do all that share a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        folder = (TESTS.parent / nodeid.partition("::")[0]).parent
        return str(folder if folder == ON_ONE_SESSION else super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)


def pytest_configure() -> None:
    """Collect tests without collecting garbage: a third of that time went into looking for it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What collection made stays until the end, so no test's garbage collection looks at it."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest begin."""
    longest = ["spark/test_", "spark/drivers/test_cluster", "spark/", "system/"]
    items.sort(key=lambda item: [each not in item.nodeid for each in longest])
