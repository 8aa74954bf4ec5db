"""What makes payloads, results and texts unreadable between client and handler: the port, and how
what a codec made is wrapped.

A sealed document is one msgpack value, an extension, so that dispatchers and stores treat it as
any other document; a sealed text is a token in a text, so that Shunter's own words may stand
beside it. Either shows the codec's label, which names the key, and hides the rest. What was
sealed for one field of one job opens nowhere else.
Must not know any cipher, nor jobs beyond their names. Spec: docs/spec/codec.md.
"""

from __future__ import annotations

import base64
import binascii
import re
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.errors import CodecError
from shunter.model.document import FIXED_EXTENSIONS, SEALED_EXTENSION, sealed_data_at
from shunter.model.identity import NAME_RULE, is_name

FORMAT = 1

Buffer = bytes | bytearray | memoryview


class SealedField(StrEnum):
    """What of a job was sealed."""

    PAYLOAD = "payload"
    RESULT = "result"
    MESSAGE = "message"
    TRACEBACK = "traceback"
    LOG = "log"
    NOTE = "note"
    STEP = "step"
    SIGNAL = "signal"
    CHUNK = "chunk"


class CodecContext(Struct, frozen=True):
    """Where data belongs: a codec must not decode it with any other context.

    `job_type` is of payloads alone, since who reads a result may know no more than the job's id.
    `job_id` is empty for payloads that came over UDP, whose clients don't know it. `label` is the
    codec's at the time when it encoded the data.
    """

    field: SealedField
    job_id: str
    job_type: str = ""
    label: str = ""

    @property
    def associated_data(self) -> bytes:
        """The same as bytes, which no two contexts share."""
        return msgspec.msgpack.encode(
            ["shunter", FORMAT, self.field, self.job_id, self.job_type, self.label]
        )


@runtime_checkable
class Codec(Protocol):
    """Encodes what leaves a client or a worker, and decodes it at the other end.

    `label` is stored and shown beside the data: the name of the key, as a rule. Raise CodecError
    where data can't ever be decoded; anything else counts as a failure that may pass, and is shown.
    """

    @property
    def label(self) -> str:
        """What is shown beside the data: the name of the key, as a rule."""
        ...

    def encode(self, data: Buffer, context: CodecContext) -> Buffer:
        """Return data as it is to be sent and stored."""
        ...

    def decode(self, data: Buffer, context: CodecContext) -> Buffer:
        """Return what was encoded for this context, or raise a CodecError."""
        ...


class _Envelope(NamedTuple):
    label: str
    is_bound: bool
    body: memoryview


# ---- documents


def seal(codec: Codec, data: bytes, context: CodecContext) -> bytes:
    """Return a document as a sealed one."""
    return b"".join(_extension(_sealed(codec, data, context)))


def open_document(codec: Codec, document: bytes, context: CodecContext) -> bytes:
    """Return what a sealed document was made of, or raise a CodecError."""
    return bytes(_opened(codec, _envelope(_extension_data(document)), context))


def is_sealed(document: bytes) -> bool:
    """True if a document is a sealed one."""
    return sealed_data_at(document) is not None


def label_of(document: bytes) -> str:
    """Return the label on a sealed document; anybody may have made it, so it may have none."""
    try:
        return _envelope(_extension_data(document)).label
    except CodecError:
        return "?"


# ---- texts

_TOKEN = re.compile(r"<sealed:([A-Za-z0-9+/]+={0,2})(?:>|…|\.\.\.|\Z)")


def seal_text(codec: Codec, text: str, context: CodecContext) -> str:
    """Return a text as a token that hides it."""
    if not text:
        return ""
    sealed = b"".join(_sealed(codec, text.encode(errors="replace"), context))
    return f"<sealed:{base64.b64encode(sealed).decode()}>"


def open_text(codec: Codec, text: str, context: CodecContext) -> str:
    """Return a text with what its tokens hide, or in their place why they can't be opened.

    It never raises: an error that can't be read is still an error.
    """

    def opened(found: re.Match[str]) -> str:
        if not found[0].endswith(">"):
            return f"[{_shown_token(found[1])}, and cut off]"
        try:
            data = base64.b64decode(found[1], validate=True)
            return bytes(_opened(codec, _envelope(data), context)).decode(errors="replace")
        except Exception as error:
            return f"[{_shown_token(found[1])}: {error}]"

    return _TOKEN.sub(opened, text) if "<sealed:" in text else text


def is_sealed_text(text: str) -> bool:
    """True if there is a token in a text."""
    return "<sealed:" in text and _TOKEN.search(text) is not None


def shown_sealed(text: str) -> str:
    """Return a text with its tokens made short: encrypted (key k1)."""
    return _TOKEN.sub(lambda found: _shown_token(found[1]), text) if "<sealed:" in text else text


def shown_label(label: str) -> str:
    """Say that something is sealed."""
    return f"encrypted (key {label})"


# ---- the envelope: format, whether it is bound to a job's id, the label, the codec's own bytes


def _sealed(codec: Codec, data: Buffer, context: CodecContext) -> list[Buffer]:
    label = codec.label
    if not is_name(label):
        kind = type(codec).__name__
        raise CodecError(f"the label of {kind} is {label!r}; a label is {NAME_RULE}")
    body = codec.encode(data, replace(context, label=label))
    return [bytes([FORMAT, bool(context.job_id), len(label)]), label.encode(), body]


def _opened(codec: Codec, envelope: _Envelope, context: CodecContext) -> Buffer:
    job_id = context.job_id if envelope.is_bound else ""
    return codec.decode(envelope.body, replace(context, job_id=job_id, label=envelope.label))


def _extension(parts: list[Buffer]) -> list[Buffer]:
    """Put msgpack's head before the data of an extension, as msgspec would write it."""
    size = sum(map(len, parts))
    if size in FIXED_EXTENSIONS:
        head = bytes([FIXED_EXTENSIONS[size], SEALED_EXTENSION])
    elif size < 1 << 8:
        head = bytes([0xC7, size, SEALED_EXTENSION])
    elif size < 1 << 16:
        head = b"\xc8" + size.to_bytes(2) + bytes([SEALED_EXTENSION])
    else:
        head = b"\xc9" + size.to_bytes(4) + bytes([SEALED_EXTENSION])
    return [head, *parts]


def _extension_data(document: bytes) -> memoryview:
    start = sealed_data_at(document)
    if start is None:
        raise CodecError("this is not a sealed document; seal it, or open it without a codec")
    return memoryview(document)[start:]


def _envelope(data: Buffer) -> _Envelope:
    view = memoryview(data)
    if len(view) < 3 or view[0] != FORMAT or view[1] > 1 or len(view) < 3 + view[2]:
        raise CodecError(
            f"this is not sealed in format {FORMAT}: it was cut, altered, or made by a newer "
            "Shunter; open it with that one"
        )
    end = 3 + view[2]
    label = bytes(view[3:end]).decode(errors="replace")
    if not is_name(label):
        raise CodecError("the label of sealed data is no name: it was altered")
    return _Envelope(label, bool(view[1]), view[end:])


def _shown_token(encoded: str) -> str:
    try:
        return shown_label(_envelope(base64.b64decode(encoded[: len(encoded) // 4 * 4])).label)
    except (binascii.Error, CodecError):
        return "encrypted"
