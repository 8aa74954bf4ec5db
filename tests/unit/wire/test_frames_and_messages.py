"""What the wire carries, and what it refuses."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import ProtocolError
from shunter.model.document import is_document
from shunter.model.report import Held
from shunter.model.submission import Submission
from shunter.wire import messages
from shunter.wire.frames import Full, Plain, bytes_of, document_of, full, read
from shunter.wire.messages import Kind, Message, Reports, Submit, decode

BODIES = [
    value
    for value in vars(messages).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message
]


def test_one_frame_behind_the_delimiter_is_plain() -> None:
    assert read([b"", b"anything\0"]) == Plain(b"anything\0")


def test_a_kind_and_a_body_behind_the_delimiter_are_full() -> None:
    assert read(full(Kind.CANCEL, messages.CancelOrders((Held("j", 1),)))) == Full(
        Kind.CANCEL, messages.encode(messages.CancelOrders((Held("j", 1),)))
    )


@pytest.mark.parametrize(
    "frames", [[], [b""], [b"x", b"y"], [b"", b"A", b"b", b"c"], [b"", b"NOPE", b""]]
)
def test_anything_else_is_refused_with_what_to_send(frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="send"):
        read(frames)


@given(st.binary(max_size=200), st.sampled_from(BODIES))
def test_random_bytes_are_a_protocol_error_or_a_message_but_never_a_crash(
    body: bytes, kind: type[Message]
) -> None:
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode(body, kind), kind)


def test_a_message_with_a_field_too_many_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode(msgspec.msgpack.encode(["j", 1, "extra"]), Held)


def test_a_submission_survives_the_wire() -> None:
    submission = Submission("j-1", "t", b"\x01", priority=3, unique_key="k")

    assert decode(messages.encode(Submit(1, (submission,))), Submit) == Submit(1, (submission,))


@given(st.binary())
def test_bytes_come_out_of_a_document_as_they_went_in(raw: bytes) -> None:
    assert bytes_of(document_of(raw)) == raw


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("text", b"text"),
        (None, b"null"),
        ({"a": [1, 2.5]}, b'{"a":[1,2.5]}'),
        ([b"x"], b"x"),
        ([b"x", 1], b'["eA==",1]'),
    ],
)
def test_other_values_are_text_or_json_to_a_plain_peer(value: object, plain: bytes) -> None:
    assert bytes_of(msgspec.msgpack.encode(value)) == plain


@given(st.binary(max_size=300))
def test_nothing_that_a_peer_sends_can_break_the_unwrapping(body: bytes) -> None:
    assert isinstance(bytes_of(body), bytes)
    is_document(body)


def test_a_document_is_one_value_and_nothing_besides() -> None:
    assert is_document(b"\x01")
    assert not is_document(b"\x01\x02")
    assert not is_document(b"")
    assert not is_document(b"\xc1")
    assert not is_document(b"\x91" * 100_000)


def test_reports_carry_their_batch() -> None:
    assert decode(messages.encode(Reports(7, 2, (), ())), Reports).batch == 7


def test_a_report_of_an_older_worker_says_nothing_of_its_times() -> None:
    body = msgspec.msgpack.encode([7, 2, [["j", 1, b"\xc0", None, "", None]], [b"s"]])

    (report,) = decode(body, Reports).reports

    assert (report.result, report.waited, report.ran) == (b"\xc0", None, None)
