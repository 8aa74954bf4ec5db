"""How the ZeroMQ dialogue looks on the wire: frames in, typed values out, and back.

Two levels share the sockets. The plain level is the seeds' to the letter: an empty delimiter
and one frame. The full level has a kind and a body behind the delimiter. Nothing else is the
protocol. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shunter.errors import ProtocolError
from shunter.wire.messages import Kind, Message, encode

DELIMITER = b""
READY = b"READY"
PING = b"PING"
PONG = b"PONG"
ERROR = b"ERROR"

_KINDS = {kind.value.encode(): kind for kind in Kind}


class Plain(Struct, frozen=True):
    """A plain message: one frame behind the delimiter."""

    body: bytes


class Full(Struct, frozen=True):
    """A full message: a kind and a body behind the delimiter."""

    kind: Kind
    body: bytes


def read(frames: Sequence[bytes]) -> Plain | Full:
    """Read what a peer sent, its identity taken off, or raise a ProtocolError."""
    match frames:
        case [b"", body]:
            return Plain(body)
        case [b"", kind, body]:
            known = _KINDS.get(kind)
            if known is None:
                raise ProtocolError(
                    f"unknown kind {kind[:32]!r}; send one of {', '.join(Kind)}, "
                    "or a single frame behind the delimiter"
                )
            return Full(known, body)
    shape = "no empty delimiter first" if frames and frames[0] else f"{len(frames)} frames"
    raise ProtocolError(f'{shape}; send ["", body] or ["", KIND, body]')


def full(kind: Kind, body: Message) -> list[bytes]:
    """Write a full message."""
    return [DELIMITER, kind.value.encode(), encode(body)]


def plain_error(reason: str) -> list[bytes]:
    """Write a plain client's refusal."""
    return [DELIMITER, ERROR, reason.encode()]


def document_of(body: bytes) -> bytes:
    """Wrap raw bytes as the msgpack document that payloads and results are."""
    return msgspec.msgpack.encode(body)


def bytes_of(document: bytes) -> bytes:
    """Unwrap a document for a peer that knows only bytes.

    Bytes are given as they are, text as UTF-8, anything else as JSON (with bytes inside it as
    base64 text). A list of one is given as that one: it is how a single argument travels. What
    is no document at all, or can't be JSON, is given as it came.
    """
    try:
        value: Any = msgspec.msgpack.decode(document)
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], bytes | str):
            value = value[0]
        if isinstance(value, bytes):
            return value
        return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    except (ValueError, TypeError, RecursionError):
        return document
