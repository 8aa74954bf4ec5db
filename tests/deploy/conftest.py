"""Fixtures for what is deployed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from system.yard import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A place for the processes of one test."""
    place = Yard(tmp_path)
    try:
        yield place
    finally:
        place.close()
