"""No password of a URL is printed or logged, by whatever command and however it goes wrong."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from shunter.cli import config, doctor, main, processes
from shunter.cli.terminal import Terminal
from shunter.errors import SettingsError, StoreError
from shunter.flow.sources.mongo_client import connected
from shunter.store.mongo.connection import MongoConnection, public_name
from shunter.store.registry import store_for

URLS = [
    "mongodb://u:hunter2@127.0.0.1:9/db",
    "mongodb://u:hun/hunter2@127.0.0.1:9/db",
    "mongodb://u:hun@hunter2@127.0.0.1:9/db",
    "mongodb://u:hunter2@127.0.0.1:9",
    "mongodb+srv://u:a/hunter2@example.invalid/db",
    "mongodb://127.0.0.1:9/db?tls=true&tlsCertificateKeyFile=/none&tlsCertificateKeyFilePassword=hunter2",
    "mongodb://127.0.0.1:9/db?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:hunter2",
    "mongodb://127.0.0.1:9/db?password=hunter2",
    "mongodb://u:hunter2@127.0.0.1:port/db",
    "u:hunter2@127.0.0.1:9/db",
    "mongo://u:hunter2@127.0.0.1:9/db",
]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("as_json", [False, True])
def test_config_hides_it_whether_the_url_is_right_or_wrong(url: str, as_json: bool) -> None:
    console = Terminal(file=io.StringIO(), width=200)

    try:
        config.show(None, environ={"SHUNTER__STORE__URL": url}, console=console, as_json=as_json)
    except SettingsError as error:
        said = str(error)
    else:
        assert isinstance(console.file, io.StringIO)
        said = console.file.getvalue()

    assert "store.url" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "line",
    [
        'store.url = "mongodb://u:hunter2@h/db',
        "store.url = 'mongodb://u:hun ter \\' hunter2@h/db'",
        'store = "mongodb://u:hunter2@h/db"',
        '[worker]\ndispatchers = ["tcp://u:hunter2@h:1", 5]',
        'store = { url = "mongodb://u:hunter2@h", busy = 1 }',
    ],
)
def test_a_settings_file_that_is_wrong_is_quoted_without_it(line: str) -> None:
    Path("shunter.toml").write_text(line)

    with pytest.raises(SettingsError) as found:
        config.show(None, environ={}, console=Terminal(file=io.StringIO()))

    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize("url", URLS)
def test_a_store_that_can_not_be_opened_says_so_without_it(url: str) -> None:
    try:
        store_for(url)
        MongoConnection(url, patience=0.1)
    except (SettingsError, StoreError) as error:
        shown: BaseException | None = error
        while shown is not None:
            assert "hunter2" not in str(shown)
            shown = shown.__cause__
    else:
        assert "hunter2" not in public_name(url)


@pytest.mark.parametrize("url", [URLS[1], URLS[3], URLS[5], URLS[8]])
def test_a_source_that_can_not_be_opened_says_so_without_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.flow.sources.mongo_client.ANSWER_SECONDS", 0.05)

    with pytest.raises(Exception, match=r"mongodb") as found:
        connected(url)

    shown: BaseException | None = found.value
    while shown is not None:
        assert "hunter2" not in str(shown)
        shown = shown.__cause__


def test_doctor_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from shunter.cli import addresses

    monkeypatch.setattr("shunter.store.mongo.driver.PATIENCE_SECONDS", 0.1)
    console = Terminal(file=io.StringIO(), width=200)
    for url in URLS:
        environ = {"SHUNTER__STORE__URL": url}
        doctor.run(None, environ=environ, console=console, checks=(addresses.store,))

    assert isinstance(console.file, io.StringIO)
    assert "127.0.0.1" in console.file.getvalue()
    assert "hunter2" not in console.file.getvalue()


def test_the_log_hides_it_in_fields_and_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    processes.set_up_logging()
    try:
        log = structlog.get_logger("test")
        try:
            raise ValueError(URLS[0])
        except ValueError:
            log.exception("it failed", url=URLS[7], several=[URLS[0]])
    finally:
        structlog.reset_defaults()

    said = capsys.readouterr().err
    assert json.loads(said)["url"] == "mongodb://127.0.0.1:9/db?password=***"
    assert "ValueError" in said
    assert "hunter2" not in said


def test_errors_of_commands_hide_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreError(f"can't open {URLS[0]}")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit):
        main.main()
    try:
        raise KeyError(URLS[0])
    except KeyError as error:
        main._print_traceback(KeyError, error, error.__traceback__)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    said = capsys.readouterr().err
    assert "can't open mongodb://u:***@127.0.0.1:9/db" in said
    assert "KeyError" in said
    assert "hunter2" not in said
