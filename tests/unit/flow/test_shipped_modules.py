"""Which of a user's modules go to Spark's executors along with a flow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.flow.runners.spark.shipping.shipped_code import _users_modules

FILES = {
    "depot/prices.py": "import depot_rates\ndef price_of(): return depot_rates.RATE",
    "depot/unneeded.py": "",
    "depot_rates.py": "RATE = 1",
    "depot_by_value.py": "from depot.prices import price_of",
    "depot_by_name.py": "import depot.prices",
    "depot_packed/__init__.py": "import json\nfrom depot_packed import inner",
    "depot_packed/inner.py": "",
    "depot_packed/flows.py": "",
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder without `__init__.py`, a package, and modules that use them, all imported."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("depot.unneeded")
    for name in ("depot_by_value", "depot_by_name", "depot_packed.flows"):
        importlib.import_module(name)
    yield
    for name in [each for each in sys.modules if each.startswith("depot")]:
        del sys.modules[name]


def sent_with(name: str) -> set[str]:
    return {module.__name__ for module in _users_modules([name])}


def test_of_a_folder_goes_what_is_used() -> None:
    assert sent_with("depot_by_value") == {"depot_by_value", "depot", "depot.prices", "depot_rates"}


def test_who_has_the_folder_itself_gets_what_is_in_it() -> None:
    assert sent_with("depot_by_name") >= {"depot_by_name", "depot", "depot.prices", "depot_rates"}


def test_a_package_goes_with_what_its_own_file_imports() -> None:
    assert sent_with("depot_packed.flows") >= {
        "depot_packed", "depot_packed.flows", "depot_packed.inner",
    }  # fmt: skip
    assert "json" not in sent_with("depot_packed.flows")
