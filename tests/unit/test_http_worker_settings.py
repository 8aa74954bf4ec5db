"""The settings of `shunter worker --http`, from every source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shunter.cli.worker_process import http_host_settings, worker_flags
from shunter.errors import SettingsError
from shunter.key_file import KeyFile, write_key_file
from shunter.model.key import Role
from shunter.net.tls import ServerFiles
from shunter.settings import Settings
from shunter.settings_sources import load_settings
from shunter.worker.http.exposures import check_exposures


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


def test_workers_call_a_dispatcher_beside_them_over_tls_if_it_speaks_it() -> None:
    settings = loaded(http__tls_certificate="a.crt", http__tls_key="a.key")

    assert settings.http_dispatchers == ("https://127.0.0.1:8081",)


def test_a_worker_shows_the_key_of_a_worker_alone(tmp_path: Path) -> None:
    path = tmp_path / "key.toml"
    key = KeyFile(
        name="k", role=Role.CLIENT, public="p" * 40, secret="s" * 40, token="t" * 40
    )  # fmt: skip
    write_key_file(path, key)

    with pytest.raises(SettingsError, match=r"the key of a client.*the key of a worker"):
        http_host_settings(loaded(auth__key_file=str(path)))


OPEN, HERE = "0.0.0.0", "127.0.0.1"
KEY = KeyFile(name="k", role=Role.WORKER, public="p" * 40, secret="s" * 40, token="t" * 40)
TLS = ServerFiles(section="worker.http", certificate="c", key="k")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"host": HERE}, None),
        ({"host": OPEN}, r"no key.*auth\.key_file"),
        ({"host": OPEN, "tls": TLS}, r"no key.*auth\.key_file"),
        ({"host": OPEN, "key": KEY}, r"in clear.*worker\.http\.tls_certificate"),
        ({"host": OPEN, "key": KEY, "tls": TLS}, None),
        ({"host": OPEN, "insecure": True}, None),
        ({"dispatchers": ("http://192.0.2.1:1",)}, None),
        ({"dispatchers": ("http://192.0.2.1:1",), "key": KEY}, r"token would travel in clear"),
        ({"dispatchers": ("https://192.0.2.1:1",), "key": KEY}, None),
        ({"dispatchers": ("http://localhost:1",), "key": KEY}, None),
        ({"dispatchers": ("http://192.0.2.1:1",), "key": KEY, "insecure": True}, None),
    ],
)
def test_nothing_of_a_worker_is_laid_open_by_mistake(
    changes: dict[str, Any], fault: str | None
) -> None:
    settings = replace(http_host_settings(loaded()), **changes)

    if fault is None:
        check_exposures(settings)
    else:
        with pytest.raises(SettingsError, match=fault):
            check_exposures(settings)
