"""The settings of `shunter worker --http`, from every source."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.cli.working import http_host_settings, worker_flags
from shunter.errors import SettingsError
from shunter.settings import Settings
from shunter.settings_sources import load_settings


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(environ: dict[str, str] | None = None, **flags: object) -> Settings:
    dotted = {key.replace("__", "."): value for key, value in flags.items()}
    return load_settings(None, environ or {}, dotted).settings


def test_a_nested_section_is_read_from_a_file_and_the_environment() -> None:
    Path("shunter.toml").write_text(
        "[worker]\nmax_jobs = 3\n[worker.http]\nport = 9000\ndispatchers = ['http://a:1']\n"
    )
    settings = loaded(
        {
            "SHUNTER__WORKER__HTTP__HOST": "10.0.0.1",
            "SHUNTER__WORKER__HTTP__DISPATCHERS": "http://b:1, https://c/shunter",
        }
    )

    http = settings.worker.http
    assert (settings.worker.max_jobs, http.port, http.host) == (3, 9000, "10.0.0.1")
    assert http.dispatchers == ("http://b:1", "https://c/shunter")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8081"),
        ("0.0.0.0", "http://127.0.0.1:8081"),
        ("::", "http://[::1]:8081"),
        ("a.internal", "http://a.internal:8081"),
    ],
)
def test_without_a_list_the_dispatcher_of_this_host_is_called(host: str, address: str) -> None:
    assert loaded(http__host=host).http_dispatchers == (address,)


def test_a_list_replaces_the_dispatcher_of_this_host() -> None:
    settings = loaded(worker__http__dispatchers=["http://a:1", "http://[::1]:2"])

    assert settings.http_dispatchers == ("http://a:1", "http://[::1]:2")


@pytest.mark.parametrize(
    "address", ["tcp://a:1", "a:1", "http://", "http://a:70000", "http://a:1?x=1", "http://a b:1"]
)
def test_what_is_no_http_address_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="http://host:port"):
        loaded(worker__http__dispatchers=[address])


def test_one_who_listens_everywhere_must_say_where_to_call() -> None:
    with pytest.raises(SettingsError, match=r"worker\.http: .*a hostname by which dispatchers"):
        loaded(worker__http__host="0.0.0.0")

    settings = loaded(worker__http__host="0.0.0.0", worker__http__hostname="b.internal")
    assert http_host_settings(settings).hostname == "b.internal"


def test_a_port_that_the_system_picks_is_no_address_to_call() -> None:
    with pytest.raises(SettingsError, match="--dispatcher"):
        http_host_settings(loaded(http__port=0))


def test_flags_stand_for_the_settings_of_the_worker_that_is_meant() -> None:
    plain = worker_flags(["tcp://a:1"], 4, http=False, listen=None)
    http = worker_flags(["http://a:1"], None, http=True, listen="[::1]:9000")

    assert plain == {"worker.max_jobs": 4, "worker.dispatchers": ["tcp://a:1"]}
    assert http == {
        "worker.max_jobs": None,
        "worker.http.dispatchers": ["http://a:1"],
        "worker.http.host": "::1",
        "worker.http.port": "9000",
    }
