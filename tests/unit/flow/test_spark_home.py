"""A local Spark is started from a folder without PySpark's zip, unless somebody chose otherwise."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from shunter.flow.runners.spark.session.home import home_without_zip


@pytest.fixture
def pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    installed = tmp_path / "pyspark"
    for name in ("bin", "jars", "conf", "python"):
        (installed / name).mkdir(parents=True)
    return installed


def home(pyspark: Path, **settings: str) -> str | None:
    with home_without_zip(pyspark, settings):
        return os.environ.get("SPARK_HOME")


def test_it_has_the_programs_and_not_the_zip(pyspark: Path) -> None:
    found = home(pyspark)

    assert found is not None
    assert {each.name: each.resolve() for each in Path(found).iterdir()} == {
        "bin": pyspark / "bin",
        "conf": pyspark / "conf",
        "jars": pyspark / "jars",
    }
    assert home(pyspark) == found
    assert "SPARK_HOME" not in os.environ


def test_two_installations_have_two(pyspark: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "jars").mkdir(parents=True)

    assert home(tmp_path / "other") != home(pyspark)


def test_a_pyspark_without_a_spark_in_it_is_left_to_itself(tmp_path: Path, pyspark: Path) -> None:
    assert home(tmp_path / "none") is None


def test_a_chosen_spark_or_python_counts(pyspark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home(pyspark, **{"spark.pyspark.python": "/another/python"}) is None
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    assert home(pyspark) is None
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert home(pyspark) is not None
    monkeypatch.setenv("SPARK_HOME", "/a/spark")
    assert home(pyspark) == "/a/spark"
    assert os.environ["SPARK_HOME"] == "/a/spark"


def test_without_a_place_for_it_spark_starts_as_it_is(
    pyspark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")

    assert home(pyspark) is None
