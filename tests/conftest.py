"""What all tests share: who runs beside whom, and how patient hypothesis is on a busy machine."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from long_runs import IS_LONG
from running_order import STANDS_BACK, SideBySide, begins_with_busy, place_of

settings.register_profile(
    "patient",
    deadline=None,
    max_examples=160 if IS_LONG else 25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SideBySide:
    return SideBySide(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Collect tests without collecting garbage: a third of that time went into looking for it."""
    gc.disable()
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker and begins_with_busy(worker):
        os.nice(STANDS_BACK)


def pytest_collection_finish() -> None:
    """What collection made stays until the end, so no test's garbage collection looks at it."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest begin."""
    items.sort(key=lambda item: place_of(item.nodeid))
