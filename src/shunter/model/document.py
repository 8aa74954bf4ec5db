"""What a payload or a result is: one msgpack value, which only the client and the handler open."""

from __future__ import annotations

import msgspec

NIL = b"\xc0"
"""The document that says nothing: msgpack's nil."""

DOCUMENT_BYTES = 16
"""What a document may add to the bytes in it, so that limits are limits for the bytes."""

SEALED_EXTENSION = 0x53
"""The code of msgpack's extension that is a sealed document (`codec.py`)."""

FIXED_EXTENSIONS = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
_SIZE_BYTES = {0xC7: 1, 0xC8: 2, 0xC9: 4, **dict.fromkeys(FIXED_EXTENSIONS.values(), 0)}


def sealed_data_at(document: bytes) -> int | None:
    """Return where the data of a sealed document begins, None of any other document."""
    size_bytes = _SIZE_BYTES.get(document[0]) if document else None
    if size_bytes is None or len(document) < size_bytes + 2:
        return None
    return size_bytes + 2 if document[size_bytes + 1] == SEALED_EXTENSION else None


def is_document(body: bytes) -> bool:
    """True if these bytes are one msgpack value, and nothing besides."""
    try:
        msgspec.msgpack.decode(body, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True
