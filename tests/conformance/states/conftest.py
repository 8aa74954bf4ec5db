"""Where checkpoints of streams are kept: each test runs on a disk and on S3."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from s3_server import s3_bucket, s3_server
from shunter.flow.location import Location

__all__ = ["s3_bucket", "s3_server"]


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """Return a new place."""
    if request.param == "disk":
        folder = tmp_path / "checkpoint"
        folder.mkdir()
        return Location.of(folder)
    return Location.of(f"{cast(str, request.getfixturevalue('s3_bucket'))}/streams/one")
