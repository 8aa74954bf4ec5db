"""What a payload or a result is: one msgpack value, which only the client and the handler open."""

from __future__ import annotations

import msgspec

NIL = b"\xc0"
"""The document that says nothing: msgpack's nil."""

DOCUMENT_BYTES = 16
"""What a document may add to the bytes in it, so that limits are limits for the bytes."""


def is_document(body: bytes) -> bool:
    """True if these bytes are one msgpack value, and nothing besides."""
    try:
        msgspec.msgpack.decode(body, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True
