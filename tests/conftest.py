"""What all tests share: who runs beside whom, and how patient hypothesis is on a busy machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

TESTS = Path(__file__).parent
TOGETHER = TESTS / "system" / "spark"
"""Tests of this folder share one Spark session, so one process runs all of them."""

LONGEST = [TOGETHER, TESTS / "system"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of a file stay together, as they share fixtures, and the longest begin."""
    items.sort(key=lambda item: [not item.path.is_relative_to(each) for each in LONGEST])
    for item in items:
        group = TOGETHER if item.path.is_relative_to(TOGETHER) else item.path
        item.add_marker(pytest.mark.xdist_group(str(group.relative_to(TESTS))))
