"""Contexts of TLS: which files are taken, and that new ones are, without a moment in between."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from structlog.testing import capture_logs

from authority import Authority, serial_at, serial_in
from shunter.errors import SettingsError
from shunter.net.tls import CallerFiles, ServerFiles, TlsContext, caller_tls, server_tls


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def served(certificate: Path, key: Path, client_ca: str = "") -> TlsContext:
    return server_tls(
        ServerFiles(section="http", certificate=str(certificate), key=str(key), client_ca=client_ca)
    )


def met(server: TlsContext, client: ssl.SSLContext, host: str = "localhost") -> bytes:
    """Shake hands in memory; return the certificate that the server has shown."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(to_client, to_server, server_hostname=host)
    answerer = server.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(6):
        for side in (caller, answerer):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = caller.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def trusting(authority: Authority) -> ssl.SSLContext:
    tls = caller_tls(CallerFiles(ca=str(authority.path)))
    assert tls is not None
    return tls.context


def test_a_caller_trusts_the_named_authority_and_verifies_the_name(authority: Authority) -> None:
    server = served(*authority.sign("server", "localhost"))

    assert met(server, trusting(authority))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        met(server, trusting(authority), host="elsewhere")


def test_a_caller_does_not_trust_another_authority(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")

    with pytest.raises(ssl.SSLCertVerificationError):
        met(served(*other.sign("server")), trusting(authority))


def test_old_versions_of_tls_are_refused(authority: Authority) -> None:
    server, old = served(*authority.sign("server")), trusting(authority)
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")

    with pytest.raises(ssl.SSLError):
        met(server, old)


def test_callers_without_a_certificate_are_refused_where_one_is_demanded(
    authority: Authority, tmp_path: Path
) -> None:
    server = served(*authority.sign("server"), client_ca=str(authority.path))
    certificate, key = authority.sign("caller")
    known = caller_tls(
        CallerFiles(ca=str(authority.path), certificate=str(certificate), key=str(key))
    )
    assert known is not None

    assert met(server, known.context)
    with pytest.raises(ssl.SSLError):
        met(server, trusting(authority))
    strange, its_key = Authority(tmp_path, "other").sign("stranger")
    stranger = caller_tls(
        CallerFiles(ca=str(authority.path), certificate=str(strange), key=str(its_key))
    )
    assert stranger is not None
    with pytest.raises(ssl.SSLError):
        met(server, stranger.context)


def test_a_new_certificate_is_shown_by_the_same_context(authority: Authority) -> None:
    server = served(*authority.sign("server"))
    first = serial_in(met(server, trusting(authority)))

    certificate, _ = authority.sign("server")
    server.refresh()

    assert serial_in(met(server, trusting(authority))) == serial_at(certificate) != first


def test_a_certificate_without_its_key_changes_nothing_until_the_key_is_there(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.sign("server")
    server = served(certificate, key)
    first = serial_in(met(server, trusting(authority)))
    new_certificate, new_key = authority.sign("new")

    with capture_logs() as logs:
        new_certificate.rename(certificate)
        server.refresh()
        server.refresh()
    assert [entry["log_level"] for entry in logs] == ["error"]
    assert "key values mismatch" in logs[0]["error"]
    assert serial_in(met(server, trusting(authority))) == first

    new_key.rename(key)
    server.refresh()
    assert serial_in(met(server, trusting(authority))) == serial_at(certificate) != first


@pytest.mark.parametrize("break_it", ["certificate", "key", "remove", "open"])
def test_broken_files_keep_what_was_there(authority: Authority, break_it: str) -> None:
    certificate, key = authority.sign("server")
    server = served(certificate, key)
    first = met(server, trusting(authority))

    match break_it:
        case "certificate":
            certificate.write_text("-----BEGIN CERTIFICATE-----\nnonsense")
        case "key":
            key.write_text("")
        case "remove":
            certificate.unlink()
        case "open":
            authority.sign("server")
            key.chmod(0o644)
    with capture_logs() as logs:
        server.refresh()

    assert [entry["log_level"] for entry in logs] == ["error"]
    assert met(server, trusting(authority)) == first


def test_what_is_wrong_with_a_file_is_said_with_its_setting(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.sign("server")
    other, _ = authority.sign("other")
    with pytest.raises(SettingsError, match=r"http\.tls_certificate.*No such file"):
        served(tmp_path / "nowhere", key)
    with pytest.raises(SettingsError, match=r"http\.tls_certificate.*mismatch.*http\.tls_key"):
        served(other, key)
    with pytest.raises(SettingsError, match=r"http\.tls_client_ca.*PEM file"):
        served(certificate, key, client_ca=str(key))
    with pytest.raises(SettingsError, match=r"auth\.ca_file.*No such file"):
        caller_tls(CallerFiles(ca=str(tmp_path / "nowhere")))
    key.chmod(0o604)
    with pytest.raises(SettingsError, match=r"http\.tls_key.*others may read it.*chmod 600"):
        served(certificate, key)


def test_a_key_with_a_password_is_refused_without_asking_for_it(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.sign("server")
    key.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hidden")
        )
    )

    with pytest.raises(SettingsError, match="without a password"):
        served(certificate, key)


def test_without_files_the_system_alone_is_trusted() -> None:
    assert caller_tls(CallerFiles()) is None
