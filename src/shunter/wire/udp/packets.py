"""Packets of the UDP dialogue: bytes in, typed values out, and back.

    {"method": "add_task", "params": {"task_id": 5}, "packet_type": 1, "transmission_id": 7}
    {"packet_type": 2, "transmission_id": 7}

`packet_type` is 0 where no answer is wanted, 1 for a request, 2 for the answer to one. What is
wrong is a PacketFault. It carries the transmission id exactly where an answer is in order: the
packet says that it is a request, and which.

Payloads and results are JSON on the wire and msgpack documents on our side of it; how one becomes
the other is in `wire/tagged_values.py`. Packets come from anybody, tens of thousands a second, so
what is right takes the short way through two decoders made once, and only what is wrong is taken
apart to see why. Pure.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from shunter.errors import ProtocolError
from shunter.wire.checked_documents import Document, rules_of
from shunter.wire.tagged_values import MAX_NESTING, BadDocument, shown, tagged_document, untagged
from shunter.wire.udp.methods import MAX_NUMBER, METHODS, Packed, Params

MAX_PACKET_BYTES = 1200
"""What passes any network in one piece, the headers below us included."""

PacketType = Annotated[
    Literal[0, 1, 2], Meta(description="0 (no answer wanted), 1 (request) or 2 (answer)")
]
TransmissionId = Annotated[
    Annotated[int, Meta(ge=0, le=MAX_NUMBER)] | Annotated[str, Meta(min_length=1, max_length=64)],
    Meta(description="a whole number from 0 to 2**63 - 1, or a text of 1 to 64 characters"),
]


class Command(Struct, frozen=True, gc=False):
    """A packet that wants something done, with an answer (type 1) or without (type 0).

    `fingerprint` is of method and params. A packet is a resent one only if its id and its
    fingerprint are both known: the seed's ids are milliseconds, so that two tasks of one client
    may well share one, and a client that starts again may count from 1 again.
    """

    params: Params
    transmission_id: int | str | None
    wants_answer: bool
    fingerprint: int

    @property
    def key(self) -> tuple[int | str | None, int]:
        """What all resends of this packet have in common, and no other packet of its sender."""
        return self.transmission_id, self.fingerprint

    @property
    def asked_as(self) -> int | str | None:
        """The id under which an answer is awaited; None where none is."""
        return self.transmission_id if self.wants_answer else None


class AnswerError(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a request was refused."""

    code: str
    message: str | None = None
    field: str | None = None


class Confirmation(Struct, frozen=True, gc=False):
    """The answer to a request (type 2); with an `error`, it was refused."""

    transmission_id: int | str
    data: Packed | None = None
    error: AnswerError | None = None


Packet: TypeAlias = Command | Confirmation


class PacketReason(StrEnum):
    """Why a packet was refused, for counters and for the `code` of an error."""

    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    NESTING = "nesting"
    FIELDS = "fields"
    METHOD = "method"
    FORBIDDEN = "forbidden"


class PacketFault(ProtocolError):
    """A packet can't be taken as it is. With a `transmission_id`, its sender may be told why."""

    def __init__(
        self,
        reason: PacketReason,
        field: str,
        message: str,
        transmission_id: int | str | None = None,
    ) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.reason, self.field, self.message = reason, field, message
        self.transmission_id = transmission_id

    def under(self, step: str) -> PacketFault:
        """Return the same fault, seen from one level further out."""
        field = f"{step}.{self.field}" if self.field else step
        return PacketFault(self.reason, field, self.message, self.transmission_id)

    def asked_by(self, transmission_id: int | str | None) -> PacketFault:
        """Return the same fault, in the request of this id."""
        return PacketFault(self.reason, self.field, self.message, transmission_id)


# ---- reading

_ABSENT = Raw(b"null")


class _Head(Document, frozen=True, kw_only=True, forbid_unknown_fields=False, gc=False):
    packet_type: PacketType
    transmission_id: TransmissionId | None = None
    method: Annotated[str, Meta(description=f"one of {', '.join(METHODS)}")] | None = None
    params: Raw = Raw(b"{}")
    data: Raw = _ABSENT
    error: Raw = _ABSENT


def parse(packet: bytes, *, most: int = MAX_PACKET_BYTES) -> Packet:
    """Read a packet of at most so many bytes, or raise a PacketFault."""
    if len(packet) > most:
        raise too_large(packet, most)
    try:
        head = _HEAD.decode(packet)
    except _UNREADABLE as error:
        raise _head_fault(packet, error) from None
    transmission_id, packet_type = head.transmission_id, head.packet_type
    if transmission_id is None and packet_type:
        send = _RULES[_Head]["transmission_id"]
        raise PacketFault(PacketReason.FIELDS, "transmission_id", f"missing; send {send}")
    if packet_type == 2:
        return _confirmation(head)
    method, raw = head.method, bytes(head.params)
    asked = transmission_id if packet_type == 1 else None
    if method is None or (decoder := _PARAMS.get(method)) is None:
        raise _method_fault(method).asked_by(asked)
    try:
        params = decoder.decode(raw)
    except (PacketFault, *_UNREADABLE) as error:
        raise _params_fault(raw, error, METHODS[method]).asked_by(asked) from None
    return Command(params, transmission_id, packet_type == 1, hash((method, raw)))


def _confirmation(head: _Head) -> Confirmation:
    assert head.transmission_id is not None
    if head.data is _ABSENT and head.error is _ABSENT:
        return Confirmation(head.transmission_id)
    data = error = None
    try:
        if head.data is not _ABSENT and (found := _value_of(bytes(head.data))) is not None:
            data = _packed(Packed, found)
    except PacketFault as fault:
        raise fault.under("data") from None
    if head.error is not _ABSENT:
        error = _error_of(bytes(head.error))
    return Confirmation(head.transmission_id, data, error)


def _error_of(raw: bytes) -> AnswerError | None:
    """Take anything for an error but null: what matters is that the peer refused."""
    try:
        return _ERROR.decode(raw)
    except _UNREADABLE:
        return AnswerError("error", raw.decode(errors="replace"))


def _packed(kind: type, value: Any) -> Packed:
    try:
        return Packed(msgspec.msgpack.encode(untagged(value)))
    except BadDocument as fault:
        if _is_deep(value):
            raise PacketFault(PacketReason.NESTING, "", _TOO_DEEP) from None
        raise PacketFault(PacketReason.FIELDS, fault.field, fault.message) from None
    except RecursionError:
        raise PacketFault(PacketReason.NESTING, "", _TOO_DEEP) from None


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_NESTING + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


# ---- saying what is wrong


def too_large(packet: bytes, most: int) -> PacketFault:
    return PacketFault(
        PacketReason.TOO_LARGE, "", f"found {len(packet)} bytes; send at most {most}"
    )


def _head_fault(packet: bytes, error: Exception) -> PacketFault:
    try:
        document = _value_of(packet)
    except PacketFault as fault:
        return fault
    if not isinstance(document, dict):
        found = shown(document)
        return PacketFault(PacketReason.NOT_AN_OBJECT, "", f"found {found}; send one JSON object")
    wrong = _field_fault(document, error, _Head)
    looked_at = {key: document.get(key) for key in ("packet_type", "transmission_id")}
    try:
        head = msgspec.convert(looked_at, _Head)
    except msgspec.ValidationError:
        return wrong
    return wrong.asked_by(head.transmission_id if head.packet_type == 1 else None)


def _params_fault(raw: bytes, error: Exception, expected: type[Params]) -> PacketFault:
    if isinstance(error, PacketFault):
        name = "result" if "result" in _RULES[expected] else "payload"
        return error.under(name).under("params")
    try:
        document = _value_of(raw)
    except PacketFault as fault:
        return fault.under("params")
    return _field_fault(document, error, expected).under("params")


def _value_of(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise PacketFault(PacketReason.NESTING, "", _TOO_DEEP) from None
    except _UNREADABLE as error:
        raise PacketFault(
            PacketReason.NOT_JSON, "", f"can't be read ({error}); send JSON"
        ) from None


def _method_fault(method: str | None) -> PacketFault:
    send = f"send {_RULES[_Head]['method']}"
    if method is None:
        return PacketFault(PacketReason.FIELDS, "method", f"missing; {send}")
    return PacketFault(PacketReason.METHOD, "method", f"found {shown(method)}; {send}")


def _field_fault(document: Any, error: Exception, expected: type[Document]) -> PacketFault:
    if isinstance(error, RecursionError):
        return PacketFault(PacketReason.NESTING, "", _TOO_DEEP)
    named = _NAMED.search(str(error))
    if named is None:
        send = f"send an object with {', '.join(_RULES[expected])}"
        return PacketFault(PacketReason.FIELDS, "", f"found {shown(document)}; {send}")
    field = named["missing"] or named["wrong"]
    what = "missing" if named["missing"] else f"found {shown(document[field])}"
    return PacketFault(PacketReason.FIELDS, field, f"{what}; send {_RULES[expected][field]}")


_TOO_DEEP = f"nested too deeply; send at most {MAX_NESTING} levels"
# Anchored, since an error may quote what the peer sent.
_NAMED = re.compile(
    r"\AObject missing required field `(?P<missing>\w+)`\Z| - at `\$\.(?P<wrong>\w+)[^`]*`\Z"
)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_HEAD = msgspec.json.Decoder(_Head)
_ERROR: msgspec.json.Decoder[AnswerError | None] = msgspec.json.Decoder(AnswerError | None)
_PARAMS: dict[str, msgspec.json.Decoder[Params]] = {
    method: msgspec.json.Decoder(params, dec_hook=_packed) for method, params in METHODS.items()
}
_DOCUMENTS: tuple[type[Document], ...] = (_Head, *METHODS.values())
_RULES = {expected: rules_of(expected) for expected in _DOCUMENTS}


# ---- writing


class _Sent(Struct, frozen=True, gc=False):
    method: str
    params: Params
    packet_type: int
    transmission_id: int | str | UnsetType = UNSET


class _Answered(Struct, frozen=True, gc=False, omit_defaults=True):
    packet_type: int
    transmission_id: int | str
    data: Packed | None = None
    error: AnswerError | None = None


def _tagged(packed: Any) -> Any:
    assert isinstance(packed, Packed)
    return tagged_document(packed)


_ENCODE = msgspec.json.Encoder(enc_hook=_tagged).encode
_METHOD_OF = {params: method for method, params in METHODS.items()}
_PADDING = b',"padding":"%b"}'


def request(params: Params, transmission_id: int | str) -> bytes:
    """Write a packet that wants an answer."""
    return _ENCODE(_Sent(_METHOD_OF[type(params)], params, 1, transmission_id))


def notice(params: Params, transmission_id: int | str | None = None) -> bytes:
    """Write a packet that wants no answer; with an id, a doubled one can be told."""
    known = UNSET if transmission_id is None else transmission_id
    return _ENCODE(_Sent(_METHOD_OF[type(params)], params, 0, known))


def padded(packet: bytes, size: int) -> bytes:
    """Write a packet with so much padding that it has `size` bytes at least."""
    if len(packet) >= size:
        return packet
    lacking = size - len(packet) - len(_PADDING % b"") + 1
    return packet[:-1] + _PADDING % (b"." * max(lacking, 1))


def answer(
    transmission_id: int | str, data: Packed | None = None, *, most: int | None = None
) -> bytes:
    """Write the answer to a request; data that would make it longer than `most` is left out.

    Without data it is shorter than any request that could have asked for it.
    """
    if data is not None:
        written = _ENCODE(_Answered(2, transmission_id, data))
        if most is None or len(written) <= most:
            return written
    if isinstance(transmission_id, int):
        return b'{"packet_type":2,"transmission_id":%d}' % transmission_id
    return _ENCODE(_Answered(2, transmission_id))


def error_answer(
    transmission_id: int | str, code: str, message: str, field: str = "", *, most: int
) -> bytes | None:
    """Write why a request was refused, in at most as many bytes as the request had.

    The message is shortened, then dropped, then the field; and nothing is left where not even
    the code fits, since an answer without an error would be taken for a confirmation.
    """
    written = _refused(transmission_id, code, message, field)
    if (excess := len(written) - most) > 0:
        kept = len(message) - excess - len("...")
        shortened = f"{message[:kept]}..." if kept > 0 else ""
        written = _refused(transmission_id, code, shortened, field)
    if len(written) > most:
        written = _refused(transmission_id, code, "", "")
    return written if len(written) <= most else None


def _refused(transmission_id: int | str, code: str, message: str, field: str) -> bytes:
    error = AnswerError(code, message or None, field or None)
    return _ENCODE(_Answered(2, transmission_id, error=error))
