"""Which addresses a dispatcher opens to other hosts, and what it takes."""

from __future__ import annotations

import pytest

from shunter.errors import SettingsError
from shunter.gateway.service_rules import check_exposures
from shunter.settings import AuthSettings, HttpSettings, Settings

KEYS = AuthSettings(key_file="key.toml")
NONE = AuthSettings()


@pytest.mark.parametrize(
    ("auth", "tls", "insecure", "fault"),
    [
        (NONE, "", False, r"http\.host.*no keys.*keys \(auth\.key_file\)"),
        (NONE, "a.pem", False, r"http\.host.*no keys.*keys \(auth\.key_file\)"),
        (KEYS, "", False, r"no TLS, so that keys.*in clear.*http\.tls_certificate"),
        (KEYS, "a.pem", False, None),
        (KEYS, "", True, None),
        (NONE, "", True, None),
    ],
)
def test_http_beyond_this_host_takes_keys_and_tls_or_the_users_word(
    auth: AuthSettings, tls: str, insecure: bool, fault: str | None
) -> None:
    http = HttpSettings(host="0.0.0.0", tls_certificate=tls, tls_key=tls, insecure=insecure)
    settings = Settings(http=http, auth=auth)

    if fault is None:
        check_exposures(settings)
    else:
        with pytest.raises(SettingsError, match=fault) as caught:
            check_exposures(settings)
        assert "http.insecure = true" in str(caught.value)


def test_this_host_alone_needs_neither() -> None:
    check_exposures(Settings())
    check_exposures(Settings(auth=KEYS))
