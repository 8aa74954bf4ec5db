"""What docs/guide/spark.md says is true: its programs run, and print what they say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs.pages import blocks_in, expectations, printed_by
from shunter.store.registry import store_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "spark.md"


async def empty_store(url: str) -> None:
    store = store_for(url)
    await store.open()
    await store.close()


def test_the_programs_of_the_guide_print_what_they_say(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = f"sqlite:///{tmp_path}/shunter.db"  # Spark was started elsewhere
    asyncio.run(empty_store(here))
    names: dict[str, Any] = {}
    for block in blocks_in(PAGE):
        if block.file is None:
            block = block._replace(code=block.code.replace("sqlite:///shunter.db", here))
            assert printed_by(block, names) == expectations(block.code), block.line
