"""Alerts and the board ask for what a real dispatcher shows, and promtool takes the rules."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.settings_files import DEPLOY, PROJECT
from system.yard import Yard, until

RULES = DEPLOY / "monitoring" / "shunter.rules.yml"
GUIDE = PROJECT / "docs" / "guide" / "production.md"

sys.path.insert(0, str(PROJECT))
write_board = importlib.import_module("tools.write_board")

_NAME = re.compile(r"\bshunter_\w+")
_GROUPS = re.compile(r"\b(?:by|on)\s*\((?P<labels>[^)]*)\)")
_MATCHES = re.compile(r"\b(?P<label>\w+)\s*=~?\s*\"")
OF_PROMETHEUS = {"instance", "job", "le"}


def rules() -> list[dict[str, str]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (expr for _, _, lines in write_board.PANELS for expr, _ in lines)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """The names of what a dispatcher shows after a job and a bad request, with their labels."""
    yard = Yard(tmp_path_factory.mktemp("monitoring"))
    try:
        one = yard.dispatcher()
        two = yard.dispatcher("beside", store__url=one.settings["store.url"])
        yard.worker(one)
        yard.client(one).submit("work", 1, 0.0).result(timeout=40)
        yard.client(one).submit("nobody_does_this", 1)
        with pytest.raises(OSError, match="415"):
            urllib.request.urlopen(f"{one.url}/dispatcher/jobs/", data=b"nonsense", timeout=20)
        assert two.health() == 200

        def families() -> dict[str, set[str]] | None:
            with urllib.request.urlopen(f"{one.url}/metrics", timeout=20) as answer:
                text = answer.read().decode()
            found: dict[str, set[str]] = {}
            for family in text_string_to_metric_families(text):
                ending = "_total" if family.type == "counter" else ""
                found.setdefault(family.name + ending, set())
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
            is_whole = found["shunter_clock_ahead_seconds"] and found["shunter_refused_total"]
            return found if is_whole else None

        yield until(families, what="both dispatchers know each other")
    finally:
        yard.close()


def test_every_metric_that_is_asked_for_is_there(shown: dict[str, set[str]]) -> None:
    asked = {name for expression in expressions() for name in _NAME.findall(expression)}

    assert len(asked) > 15
    assert asked - set(shown) == set()


def test_every_label_that_is_asked_for_is_there(shown: dict[str, set[str]]) -> None:
    for expression in expressions():
        known = {label for name in _NAME.findall(expression) for label in shown[name]}
        asked = set(_MATCHES.findall(expression))
        for group in _GROUPS.findall(expression):
            asked |= {label.strip() for label in group.split(",")} - {""}
        assert asked - known - OF_PROMETHEUS == set(), expression


def test_every_alert_says_what_to_do_here_and_in_the_guide() -> None:
    guide = GUIDE.read_text()
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert {"summary", "look"} <= set(rule["annotations"])
        assert f"| `{rule['alert']}` |" in guide, rule["alert"]


def test_the_board_is_made_from_its_table() -> None:
    assert write_board.BOARD.read_text() == write_board.text(), "type: make docs"


@pytest.mark.parametrize(
    "words", [("check", "rules", RULES), ("test", "rules", RULES.with_suffix(".test.yml"))]
)
def test_promtool_takes_the_rules_and_each_alert_fires_when_it_should(
    words: tuple[str, str, Path],
) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
