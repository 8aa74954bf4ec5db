"""Throw-away certificate authorities: what tests of TLS trust, and nobody else does."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOUR = datetime.timedelta(hours=1)


class Authority:
    """Signs certificates, and leaves its own in `path`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        signed = _begun(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).sign(self._key, hashes.SHA256())  # fmt: skip
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(signed.public_bytes(Encoding.PEM))

    def sign(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Write a certificate for these hosts, and its key; return where they are."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_general(host) for host in hosts or ("localhost", "127.0.0.1")]
        signed = _begun(_named(name), self._name, key).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        ).sign(self._key, hashes.SHA256())  # fmt: skip
        certificate, private = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        # beside, then moved: whoever looks finds all of a file
        for path, text in (
            (private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())),
            (certificate, signed.public_bytes(Encoding.PEM)),
        ):
            new = path.with_suffix(".new")
            new.touch(mode=0o600)
            new.write_bytes(text)
            new.rename(path)
        return certificate, private


def serial_in(certificate: bytes) -> int:
    """Return the serial number of a certificate as TLS shows it."""
    return x509.load_der_x509_certificate(certificate).serial_number


def serial_at(path: Path) -> int:
    """Return the serial number of a certificate in a file."""
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HOUR)
        .not_valid_after(now + 24 * HOUR)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
