"""What settings there are, and where they may come from."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shunter.model.lease import LeaseTerms
from shunter.settings import Settings, all_settings
from shunter.settings_sources import flag_name, load_settings, shown, value_of, variable_name

DESIGN = """
[store]
url = "sqlite:///shunter.db"
[zmq]
frontend = "tcp://127.0.0.1:5560"
backend = "tcp://127.0.0.1:5561"
worker_expire_seconds = 3.0
resend_after_seconds = 60.0
[worker]
broker_timeout = 1.0
n_timeouts = 3
max_jobs = 2
[udp]
client_address = { host = "127.0.0.1", port = 5555 }
timeout_task_placement = 120.0
confirm_timeout = 5.0
heartbeat_timeout = 10.0
task_timeout = 60.0
[http]
host = "127.0.0.1"
port = 8081
[dispatcher.jobs]
cooldown_period = 0
job_verification_interval = 10000
[dispatcher.workers]
ping_interval = 30000
max_retries = 3
dead_worker_ping_interval = 60000
dead_worker_max_retries = 10
"""


def flattened(table: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


DESIGNED = flattened(tomllib.loads(DESIGN))
ALL = {setting.key: setting for setting in all_settings()}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def file_with(text: str, name: str = "given.toml") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("key", "value"), DESIGNED.items())
def test_a_designed_key_has_the_designed_default(key: str, value: object) -> None:
    assert value_of(Settings(), key) == value


def test_the_designed_file_is_accepted_as_tables() -> None:
    loaded = load_settings(file_with(DESIGN), {}, {})

    assert loaded.settings == Settings()
    assert {key for key, source in loaded.sources.items() if source == "given.toml"} == set(
        DESIGNED
    )


def test_the_designed_file_is_accepted_as_dotted_keys() -> None:
    lines = [f"{key} = {shown(value)}" for key, value in DESIGNED.items()]

    loaded = load_settings(file_with("\n".join(lines)), {}, {})

    assert loaded.settings == Settings()
    assert {key for key, source in loaded.sources.items() if source == "given.toml"} == set(
        DESIGNED
    )


@pytest.mark.parametrize("key", ALL)
def test_every_key_is_accepted_from_every_source(key: str) -> None:
    default = ALL[key].default
    text = shown(default)

    for path, environ, flags, source in (
        (file_with(f"{key} = {text}"), {}, {}, "given.toml"),
        (None, {variable_name(key): text}, {}, variable_name(key)),
        (None, {}, {key: default}, flag_name(key)),
    ):
        loaded = load_settings(path, environ, flags)
        assert loaded.sources[key] == source
        assert value_of(loaded.settings, key) == default


def test_every_key_says_what_it_means_and_what_is_allowed() -> None:
    assert [key for key in ALL if not (ALL[key].meaning and ALL[key].allowed)] == []


def test_without_any_source_all_is_default() -> None:
    loaded = load_settings(None, {"PATH": "/bin", "SHUNTER_HOME": "/x"}, {})

    assert loaded.settings == Settings()
    assert set(loaded.sources) == set(ALL)
    assert set(loaded.sources.values()) == {"default"}


def test_shunter_toml_here_is_read_without_being_named() -> None:
    file_with("http.port = 9000", "shunter.toml")

    loaded = load_settings(None, {}, {})

    assert loaded.settings.http.port == 9000
    assert loaded.sources["http.port"] == "shunter.toml"


def test_shunter_toml_here_is_not_read_beside_a_named_file() -> None:
    file_with("http.port = 9000", "shunter.toml")

    loaded = load_settings(file_with("http.host = 'localhost'"), {}, {})

    assert loaded.settings.http.port == 8081


def test_environment_overrides_file_and_flags_override_environment() -> None:
    path = file_with("[worker]\nmax_jobs = 3\nn_timeouts = 4\nbroker_timeout = 5")
    environ = {"SHUNTER__WORKER__MAX_JOBS": "6", "SHUNTER__WORKER__N_TIMEOUTS": "7"}

    loaded = load_settings(path, environ, {"worker.max_jobs": 8, "worker.n_timeouts": None})

    worker, sources = loaded.settings.worker, loaded.sources
    assert (worker.max_jobs, sources["worker.max_jobs"]) == (8, "--max-jobs")
    assert (worker.n_timeouts, sources["worker.n_timeouts"]) == (7, "SHUNTER__WORKER__N_TIMEOUTS")
    assert (worker.broker_timeout, sources["worker.broker_timeout"]) == (5.0, "given.toml")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("http.host", "localhost", "localhost"),
        ("http.host", '"localhost"', "localhost"),
        ("http.host", "5", "5"),
        ("zmq.enabled", "false", False),
        ("worker.broker_timeout", "2", 2.0),
        ("worker.broker_timeout", "2.5", 2.5),
        ("dispatcher.jobs.cooldown_period", "5_000", 5000),
        ("worker.dispatchers", '["tcp://a:1", "ipc:///b"]', ("tcp://a:1", "ipc:///b")),
        ("worker.dispatchers", "tcp://a:1, tcp://b:2", ("tcp://a:1", "tcp://b:2")),
    ],
)
def test_an_environment_value_is_toml_or_text(key: str, text: str, value: object) -> None:
    loaded = load_settings(None, {variable_name(key): text}, {})

    assert value_of(loaded.settings, key) == value


def test_an_environment_value_may_be_a_whole_table_and_a_narrower_one_wins() -> None:
    environ = {
        "SHUNTER__UDP__CLIENT_ADDRESS": '{ host = "::1", port = 1 }',
        "SHUNTER__UDP__CLIENT_ADDRESS__PORT": "2",
    }

    address = load_settings(None, environ, {}).settings.udp.client_address

    assert (address.host, address.port) == ("::1", 2)


def test_everything_listens_on_loopback_by_default() -> None:
    settings = Settings()

    listening = (settings.zmq.frontend, settings.zmq.backend, settings.http.host)
    assert all("127.0.0.1" in address for address in listening)
    assert settings.udp.client_address.host == "127.0.0.1"


def test_lease_settings_are_the_terms_of_a_lease() -> None:
    lease = Settings().lease

    assert isinstance(lease, LeaseTerms)
    assert all(
        getattr(lease, name) == getattr(LeaseTerms(), name) for name in lease.__struct_fields__
    )


@pytest.mark.parametrize(
    ("listening", "connected"),
    [
        ("tcp://127.0.0.1:7", "tcp://127.0.0.1:7"),
        ("tcp://*:7", "tcp://127.0.0.1:7"),
        ("tcp://0.0.0.0:7", "tcp://127.0.0.1:7"),
        ("tcp://[::]:7", "tcp://[::1]:7"),
        ("ipc:///run/shunter", "ipc:///run/shunter"),
    ],
)
def test_workers_and_clients_find_the_dispatcher_of_this_host(
    listening: str, connected: str
) -> None:
    for_workers = load_settings(None, {}, {"zmq.backend": listening}).settings
    for_clients = load_settings(None, {}, {"zmq.frontend": listening}).settings

    assert for_workers.worker_dispatchers == (connected,)
    assert for_clients.client_dispatchers == (connected,)


def test_named_dispatchers_replace_the_one_of_this_host() -> None:
    flags = {"worker.dispatchers": ["tcp://a:1", "tcp://b:1"], "client.dispatchers": "tcp://c:1"}

    settings = load_settings(None, {}, flags).settings

    assert settings.worker_dispatchers == ("tcp://a:1", "tcp://b:1")
    assert settings.client_dispatchers == ("tcp://c:1",)


def test_a_password_is_not_shown() -> None:
    assert shown("mongodb://jo:secret@db:1/x") == '"mongodb://jo:***@db:1/x"'
