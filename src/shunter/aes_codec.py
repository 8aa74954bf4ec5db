"""A codec that encrypts with AES-256-GCM under one of several keys, each known by a name.

Nonces are random and of 192 bits, as in XAES-256-GCM: the first half derives a key for this one
message, the second is GCM's own nonce, so that no number of jobs wears a key out. The job, its
type and the field are associated data. What is decrypted under which key is decided by the label.
`cryptography` is imported when a codec is made: an app without one does not need it.
Spec: docs/spec/codec.md.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shunter.codec import Buffer, CodecContext
from shunter.errors import CodecError
from shunter.model.identity import NAME_RULE, is_name

KEY_BYTES = 32
NONCE_BYTES = 24
TAG_BYTES = 16

_OTHERS = 0o077
_BLOCK = 16
_REMEDY = "make one with AesCodec.new_key()"

KeySource = bytes | str | Path
"""32 bytes; or base64 of them, as an environment variable has it; or a file with either."""


class AesCodec:
    """Encrypts with the key named `current`, and decrypts with any of `keys`."""

    def __init__(self, keys: Mapping[str, KeySource], *, current: str | None = None) -> None:
        if not keys:
            raise CodecError(f"AesCodec has no keys; {_REMEDY}")
        if current is None:
            if len(keys) > 1:
                raise CodecError(f"AesCodec has several keys; say which is current: {_named(keys)}")
            current = next(iter(keys))
        if current not in keys:
            raise CodecError(f"current={current!r} is none of the keys: {_named(keys)}")
        for name in keys:
            if not is_name(name):
                raise CodecError(f"{name!r} can't name a key: a name is {NAME_RULE}")
        self._keys = {name: _MessageKeys(_key(name, source)) for name, source in keys.items()}
        self._current = current

    def __repr__(self) -> str:
        return f"<AesCodec with keys {_named(self._keys)}; current is {self._current!r}>"

    @staticmethod
    def new_key() -> str:
        """Return a new random key, as base64."""
        return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()

    @property
    def label(self) -> str:
        """The name of the key that is used to encrypt."""
        return self._current

    def encode(self, data: Buffer, context: CodecContext) -> bytearray:
        """Return data encrypted with the newest key, for this context alone."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = bytearray(NONCE_BYTES + len(data) + TAG_BYTES)
        sealed[:NONCE_BYTES] = nonce
        cipher = self._keys[self._current].cipher(nonce)
        room = memoryview(sealed)[NONCE_BYTES:]
        cipher.encrypt_into(nonce[12:], data, context.associated_data, room)
        return sealed

    def decode(self, data: Buffer, context: CodecContext) -> bytes:
        """Return what was encrypted, or raise a CodecError."""
        keys = self._keys.get(context.label)
        if keys is None:
            raise CodecError(
                f"the {context.field} of job {context.job_id or '(over UDP)'} is encrypted with "
                f"key {context.label!r}, and here are {_named(self._keys)}; add that key to the "
                "keys of AesCodec",
                label=context.label,
            )
        from cryptography.exceptions import InvalidTag

        nonce, rest = bytes(data[:NONCE_BYTES]), memoryview(data)[NONCE_BYTES:]
        try:
            if len(rest) < TAG_BYTES:
                raise InvalidTag
            found: bytes = keys.cipher(nonce).decrypt(nonce[12:], rest, context.associated_data)
        except InvalidTag:
            raise CodecError(
                f"the {context.field} of job {context.job_id or '(over UDP)'} does not open with "
                f"key {context.label!r}: the key of that name was another when it was encrypted, "
                "or it was altered, or is of another job, type or field; compare the keys of "
                "client and worker",
                label=context.label,
            ) from None
        return found


class _MessageKeys:
    """Derives from one key a key for each message, as CMAC in counter mode does."""

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise CodecError(
                "AesCodec needs the package cryptography; install shunter[codec]"
            ) from None
        # Single blocks under the key, which are the definition of CMAC; nothing is sent so.
        block = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305
        self._encrypted = block.encryptor().update
        self._gcm = AESGCM
        doubled = int.from_bytes(self._encrypted(bytes(_BLOCK))) << 1
        self._mask = (doubled ^ (0x87 if doubled >> 128 else 0)) & (1 << 128) - 1

    def cipher(self, nonce: bytes) -> Any:
        """Return the cipher for the message with this nonce."""
        blocks = (self._masked(bytes([0, at]) + b"X\0" + nonce[:12]) for at in (1, 2))
        return self._gcm(self._encrypted(b"".join(blocks)))

    def _masked(self, block: bytes) -> bytes:
        return (int.from_bytes(block) ^ self._mask).to_bytes(_BLOCK)


def _key(name: str, source: KeySource) -> bytes:
    """Return the 32 bytes of a key; what is wrong with it is said without showing it."""
    found: bytes | str = _read(name, source) if isinstance(source, Path) else source
    if isinstance(found, bytes) and len(found) == KEY_BYTES:
        return found
    try:
        decoded = base64.b64decode(found.strip(), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if len(decoded) == KEY_BYTES:
        return decoded
    if not found.strip():
        raise CodecError(f"key {name!r} is empty; {_REMEDY}")
    raise CodecError(f"key {name!r} is not {KEY_BYTES} bytes, nor base64 of them; {_REMEDY}")


def _read(name: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            found = file.read(1024)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CodecError(f"key {name!r} can't be read from {path}: {reason}") from None
    if mode & _OTHERS:
        raise CodecError(
            f"key {name!r}: others may read {path}, its mode is {mode:04o}; type: chmod 600 {path}"
        )
    return found


def _named(keys: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in keys)
