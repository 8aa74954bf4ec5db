"""What is wrong with a setting is said with source, key, what was found and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.errors import SettingsError
from shunter.settings import Setting, all_settings
from shunter.settings_sources import load_settings


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal_of(text: str) -> SettingsError:
    path = Path("given.toml")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(path, {}, {})
    return caught.value


def refused_variable(name: str, value: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {name: value}, {})
    return caught.value


SECONDS = "seconds, above 0, at most a year"
ENDPOINT = "tcp://host:port (port 0 to 65535) or ipc://path"
PORT = "a port, 0 to 65535 (0: the system picks)"
SECTIONS = "auth, callbacks, client, dispatcher, http, lease, store, udp, worker, zmq"

WRONG_VALUES = [
    ("http.port", "'80'", '"80"', PORT),
    ("http.port", "80.0", "80.0", PORT),
    ("http.port", "65536", "65536", PORT),
    ("http.port", "-1", "-1", PORT),
    ("http.port", "true", "true", PORT),
    ("udp.client_address", "{ port = 70000 }", "70000", PORT),
    ("http.host", "'a b'", '"a b"', "a host name or an IP address"),
    ("http.host", "''", '""', "a host name or an IP address"),
    ("zmq.enabled", "1", "1", "true or false"),
    ("worker.broker_timeout", "0", "0", SECONDS),
    ("worker.broker_timeout", "-1.5", "-1.5", SECONDS),
    ("worker.broker_timeout", "nan", "NaN", SECONDS),
    ("worker.broker_timeout", "inf", "Infinity", SECONDS),
    ("worker.broker_timeout", "true", "true", SECONDS),
    ("worker.broker_timeout", "1979-05-27", '"1979-05-27"', SECONDS),
    ("worker.max_jobs", "0", "0", "a whole number, 1 to 1024"),
    ("worker.max_jobs", "[1]", "[1]", "a whole number, 1 to 1024"),
    ("zmq.high_water_mark", "0", "0", "a whole number, 1 to 1000000"),
    ("zmq.frontend", "5560", "5560", ENDPOINT),
    ("zmq.frontend", "'127.0.0.1:5560'", '"127.0.0.1:5560"', ENDPOINT),
    ("zmq.frontend", "'tcp://127.0.0.1'", '"tcp://127.0.0.1"', ENDPOINT),
    ("zmq.frontend", "'tcp://127.0.0.1:70000'", '"tcp://127.0.0.1:70000"', ENDPOINT),
    ("zmq.frontend", '"tcp://127.0.0.1:1\\n"', '"tcp://127.0.0.1:1\\n"', ENDPOINT),
    ("worker.dispatchers", "'tcp://a:1'", '"tcp://a:1"', f"a list of {ENDPOINT}"),
    ("worker.dispatchers", "['x']", '["x"]', f"a list of {ENDPOINT}"),
    (
        "store.url",
        "'mongodb://jo:secret@db:1'",
        '"mongodb://jo:***@db:1"',
        "sqlite:///file, mongodb://host:port/database or memory://",
    ),
    ("dispatcher.jobs.unknown_types", "'drop'", '"drop"', '"wait" or "refuse"'),
    ("zmq.frontend", "{ host = 'x' }", '{"host": "x"}', ENDPOINT),
    ("zmq", "1", "1", "a table of keys"),
]


@pytest.mark.parametrize(("key", "written", "found", "allowed"), WRONG_VALUES)
def test_a_wrong_value_is_named(key: str, written: str, found: str, allowed: str) -> None:
    error = refusal_of(f"{key} = {written}")

    assert error.key.startswith(key)
    assert (error.source, error.found, error.allowed) == ("given.toml", found, allowed)
    assert str(error) == f"given.toml: {error.key}: found {found}; allowed: {allowed}"


@pytest.mark.parametrize("setting", list(all_settings()), ids=lambda setting: setting.key)
def test_no_key_takes_a_value_of_a_type_that_is_not_its_own(setting: Setting) -> None:
    error = refusal_of(f"{setting.key} = 1979-05-27T07:32:00Z")

    assert (error.key, error.allowed) == (setting.key, setting.allowed)


@pytest.mark.parametrize(
    ("text", "key", "found", "allowed"),
    [
        ("[zqm]\na = 1", "zqm", "an unknown section", f"{SECTIONS}; did you mean zmq?"),
        ("[flights]", "flights", "an unknown section", SECTIONS),
        ("port = 1", "port", "an unknown key", f"{SECTIONS}; did you mean http.port?"),
        (
            "[store]\nurI = 'x'",
            "store.urI",
            "an unknown key",
            "store.retention_days, store.url; did you mean store.url?",
        ),
        (
            "[dispatcher]\nmax_losses = 1",
            "dispatcher.max_losses",
            "an unknown key",
            "dispatcher.jobs, dispatcher.workers; did you mean dispatcher.jobs.max_losses?",
        ),
        (
            "[dispatcher.job]\nmax_losses = 1",
            "dispatcher.job",
            "an unknown section",
            "dispatcher.jobs, dispatcher.workers; did you mean dispatcher.jobs?",
        ),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    text: str, key: str, found: str, allowed: str
) -> None:
    error = refusal_of(text)

    assert (error.source, error.key) == ("given.toml", key)
    assert (error.found, error.allowed) == (found, allowed)


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("http.port = 1\na = = 1\n", "line 2", '"a = = 1" (Invalid value)'),
        ("[zmq]\n\n[http]\nhost = 'x", "line 4", '"host = \'x" (Expected "\'")'),
        ("[zmq]\n[zmq]\n", "line 2", "\"[zmq]\" (Cannot declare ('zmq',) twice)"),
        ("store.url = 'mongodb://jo:secret@db'x", "line 1", "mongodb://jo:***@db"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(text: str, line: str, found: str) -> None:
    error = refusal_of(text)

    assert (error.source, error.key) == ("given.toml", line)
    assert found in error.found
    assert error.allowed == "TOML, such as: http.port = 8081"


def test_a_file_that_is_not_text_is_named() -> None:
    Path("given.toml").write_bytes(b"a = '\xff'")

    with pytest.raises(SettingsError, match=r"given\.toml: file: found bytes that are not UTF-8"):
        load_settings(Path("given.toml"), {}, {})


def test_a_named_file_must_exist() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(Path("absent.toml"), {}, {})

    assert str(caught.value) == (
        "absent.toml: file: found no such file; allowed: an existing TOML file"
    )


def test_a_folder_is_not_a_file() -> None:
    with pytest.raises(SettingsError, match="Is a directory; allowed: a readable TOML file"):
        load_settings(Path(), {}, {})


@pytest.mark.parametrize(
    ("name", "value", "key", "found", "allowed"),
    [
        ("SHUNTER__HTTP__PORT", "web", "http.port", '"web"', PORT),
        ("SHUNTER__HTTP__PORT", "1\nx = 2", "http.port", '"1\\nx = 2"', PORT),
        ("SHUNTER__HTTP", "8081", "http", '"8081"', "a table of keys"),
        (
            "SHUNTER__ZQM__FRONTEND",
            "x",
            "zqm.frontend",
            "an unknown key",
            f"{SECTIONS}; did you mean zmq.frontend?",
        ),
        ("SHUNTER__", "x", "", "an unknown key", SECTIONS),
    ],
)
def test_a_wrong_variable_is_named(
    name: str, value: str, key: str, found: str, allowed: str
) -> None:
    error = refused_variable(name, value)

    assert (error.source, error.key) == (name, key)
    assert (error.found, error.allowed) == (found, allowed)


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {}, {"store.url": "postgres://x"})

    assert str(caught.value).startswith('--store: store.url: found "postgres://x"; allowed: ')


def test_lease_terms_that_could_run_a_job_twice_are_refused() -> None:
    error = refusal_of("lease.worker_gives_up = 9.0")

    assert (error.source, error.key) == ("given.toml", "lease")
    assert error.found == "lease.worker_gives_up = 9.0"
    assert "9 + 2 s is not less than 10 s" in error.allowed


def test_a_heartbeat_slower_than_the_lease_is_refused() -> None:
    error = refused_variable("SHUNTER__LEASE__HEARTBEAT", "5")

    assert str(error) == (
        "SHUNTER__LEASE__HEARTBEAT: lease: found lease.heartbeat = 5.0; "
        "allowed: a heartbeat shorter than worker_gives_up"
    )


def test_clients_and_workers_can_not_share_an_address() -> None:
    error = refusal_of("zmq.frontend = 'tcp://127.0.0.1:5561'")

    assert (error.key, error.allowed) == (
        "zmq",
        "different addresses for frontend and backend",
    )


@pytest.mark.parametrize("entry", ["10.0.0.1/8", "http://hooks.example.com", "*", "hook:80"])
def test_a_host_that_can_not_be_called_back_is_named(entry: str) -> None:
    error = refusal_of(f"callbacks.allowed_hosts = ['localhost', '{entry}']")

    assert error.key == "callbacks"
    assert f'callbacks.allowed_hosts = ["localhost", "{entry}"]' in error.found
    assert error.allowed.startswith("host names (hooks.example.com, *.example.com), IP addresses")
    assert f"'{entry}' is none" in error.allowed
