"""What all tests share: who runs beside whom, and how patient hypothesis is on a busy machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadfile import LoadFileScheduling

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

TESTS = Path(__file__).parent
LONGEST = [TESTS / "system" / "spark", TESTS / "system"]
ON_ONE_SESSION = "tests/system/spark/"


class Together(LoadFileScheduling):
    """The tests of a file run in one process, and so do all that share the Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ON_ONE_SESSION):
            return ON_ONE_SESSION
        return str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest begin."""
    items.sort(key=lambda item: [not item.path.is_relative_to(each) for each in LONGEST])
