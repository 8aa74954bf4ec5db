"""`shunter config` says every value and its source."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from shunter.cli import config
from shunter.cli.terminal import Terminal
from shunter.errors import SettingsError
from shunter.settings import all_settings

KEYS = [setting.key for setting in all_settings()]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def console() -> Terminal:
    return Terminal(file=io.StringIO(), width=120)


def printed(console: Terminal) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_every_key_in_full_even_where_it_is_narrow() -> None:
    console = Terminal(file=io.StringIO(), width=80)

    assert config.show(None, environ={}, console=console) == 0

    assert all(f" {key} " in printed(console) for key in KEYS)


def test_the_table_shows_where_a_value_came_from(console: Terminal) -> None:
    Path("shunter.toml").write_text("http.port = 9000\n[worker]\ndispatchers = ['tcp://a:1']")

    config.show(
        None,
        environ={"SHUNTER__ZMQ__ENABLED": "false"},
        flags={"zmq.frontend": "tcp://h:1"},
        console=console,
    )

    lines = {
        line.split("│")[1].strip(): line for line in printed(console).splitlines() if "│" in line
    }
    assert "9000" in lines["http.port"]
    assert "shunter.toml" in lines["http.port"]
    assert '["tcp://a:1"]' in lines["worker.dispatchers"]
    assert "SHUNTER__ZMQ__ENABLED" in lines["zmq.enabled"]
    assert "--frontend" in lines["zmq.frontend"]
    assert "default" in lines["zmq.backend"]


def test_json_is_an_array_of_keys_values_and_sources(console: Terminal) -> None:
    environ = {"SHUNTER__STORE__URL": "mongodb://jo:secret@db:27017/x"}

    assert config.show(None, environ=environ, as_json=True, console=console) == 0

    rows = {row["key"]: row for row in json.loads(printed(console))}
    assert list(rows) == KEYS
    assert rows["http.port"] == {"key": "http.port", "value": 8081, "source": "default"}
    assert rows["store.url"]["value"] == "mongodb://jo:***@db:27017/x"
    assert rows["store.url"]["source"] == "SHUNTER__STORE__URL"


def test_a_wrong_setting_is_not_hidden(console: Terminal) -> None:
    with pytest.raises(SettingsError, match=r"SHUNTER__HTTP__PORT: http\.port: found"):
        config.show(None, environ={"SHUNTER__HTTP__PORT": "web"}, console=console)
