"""TLS for what we serve and for what we call: contexts that follow their files.

Certificates are replaced while processes run, so the files are looked at again and again. What they
say is read once, tried aside, and only then put into the context that is in use: a broken file, or
a certificate whose key has not been written yet, changes nothing. Connections that are open go on.
Must not know who may do what. Settings: docs/settings.md.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from msgspec import Struct

from shunter.errors import SettingsError

MAX_BYTES = 1 << 20
GROUP, OTHERS = 0o070, 0o007
PEM = "a PEM file"

Mark = tuple[int, int, int] | None


class ServerFiles(Struct, frozen=True, kw_only=True):
    """What a server shows, and by which authorities it knows callers; `section` has the settings.

    Without `client_ca`, callers need no certificate.
    """

    section: str
    certificate: str
    key: str
    client_ca: str = ""


class CallerFiles(Struct, frozen=True, kw_only=True):
    """Authorities that are trusted beside the system's, and what is shown to who asks for it."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


class PemFile(Struct, frozen=True):
    """A file, and the setting that names it."""

    setting: str
    path: str

    def fault(self, reason: object, allowed: str = PEM) -> SettingsError:
        return SettingsError("the system", self.setting, f"{self.path} ({reason})", allowed)

    def mark(self) -> Mark:
        """Return what changes when the file does."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self, *, is_private: bool = False) -> bytes:
        try:
            with Path(self.path).open("rb") as file:
                found = os.fstat(file.fileno())
                text = file.read(MAX_BYTES)
        except OSError as error:
            raise self.fault(error.strerror) from None
        # as usual for keys: what belongs to root may be read by a group that was given the right
        denied = OTHERS if found.st_uid == 0 else OTHERS | GROUP
        if is_private and found.st_mode & denied:
            mode = f"mode {stat.S_IMODE(found.st_mode):04o}: others may read it"
            remedy = f"a file that its owner alone may read; type: chmod 600 {self.path}"
            raise self.fault(mode, remedy)
        return text


class TlsContext:
    """A context that is kept up to what its files say. Authorities are added, never taken away."""

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        pair: tuple[PemFile, PemFile] | None = None,
        authorities: PemFile | None = None,
    ) -> None:
        self.context = context
        self._pair, self._authorities = pair, authorities
        self._files = [*(pair or ()), *([authorities] if authorities else [])]
        self._marks = [file.mark() for file in self._files]
        self._log = structlog.get_logger("shunter.tls")
        self._load()

    def refresh(self) -> None:
        """Take what the files say by now; what can't be used is logged once."""
        marks = [file.mark() for file in self._files]
        if marks == self._marks:
            return
        self._marks = marks
        try:
            self._load()
        except SettingsError as error:
            self._log.error(
                "new TLS files can't be used, the old ones are kept", action="tls", error=str(error)
            )
        else:
            self._log.info("TLS files were read again", action="tls", files=self._paths())

    def _paths(self) -> list[str]:
        return [file.path for file in self._files]

    def _load(self) -> None:
        """Try all of it aside, then use it."""
        cas = self._authorities.read() if self._authorities else b""
        pair = None
        if self._pair:
            certificate, key = self._pair
            pair = certificate.read(), key.read(is_private=True)
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
            if self._authorities:
                _add_authorities(context, self._authorities, cas)
            if pair is not None:
                assert self._pair is not None
                _show_certificate(context, self._pair, pair)


def server_tls(files: ServerFiles) -> TlsContext:
    """Return what to serve with, or raise a SettingsError that names the file at fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    authorities = None
    if files.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        authorities = PemFile(f"{files.section}.tls_client_ca", files.client_ca)
    return TlsContext(
        context,
        pair=(
            PemFile(f"{files.section}.tls_certificate", files.certificate),
            PemFile(f"{files.section}.tls_key", files.key),
        ),
        authorities=authorities,
    )


def caller_tls(files: CallerFiles) -> TlsContext | None:
    """Return what to call with; None if the system's authorities are all that is needed."""
    if not files.ca and not files.certificate:
        return None
    context = ssl.create_default_context()  # the system's authorities, names are verified
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    pair = None
    if files.certificate:
        certificate = PemFile("auth.tls_certificate", files.certificate)
        pair = certificate, PemFile("auth.tls_key", files.key)
    return TlsContext(
        context,
        pair=pair,
        authorities=PemFile("auth.ca_file", files.ca) if files.ca else None,
    )


def _add_authorities(context: ssl.SSLContext, file: PemFile, text: bytes) -> None:
    try:
        context.load_verify_locations(cadata=text.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise file.fault(_reason(error), "a PEM file with certificates of authorities") from None


def _show_certificate(
    context: ssl.SSLContext, files: tuple[PemFile, PemFile], pair: tuple[bytes, bytes]
) -> None:
    """Load a certificate from memory, so that both files are as they were read together."""
    with _as_file(pair[0]) as certificate, _as_file(pair[1]) as key:
        try:
            context.load_cert_chain(certificate, key, password="")  # never ask at a terminal
        except (ssl.SSLError, ValueError) as error:
            allowed = f"a PEM certificate whose key {files[1].setting} has, without a password"
            raise files[0].fault(_reason(error), allowed) from None


@contextmanager
def _as_file(text: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("pem")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    """Say in OpenSSL's words what is wrong, without the line of its source."""
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error).partition(" (_ssl")[0]
