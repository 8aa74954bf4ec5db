"""Sealed documents and texts: what dispatchers see of them, and what they open to."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.aes_codec import AesCodec
from shunter.codec import (
    SEALED_EXTENSION,
    Buffer,
    CodecContext,
    SealedField,
    is_sealed,
    is_sealed_text,
    label_of,
    open_document,
    open_text,
    seal,
    seal_text,
    shown_sealed,
)
from shunter.errors import CodecError
from shunter.model.document import is_document
from shunter.wire.tagged_values import document_of, tagged_document

AES = AesCodec({"k1": bytes(32)})
PAYLOAD = CodecContext(SealedField.PAYLOAD, "j-1", "add")
LOG = CodecContext(SealedField.LOG, "j-1")


class Mirror:
    """A codec that one can see through."""

    label = "m"

    def encode(self, data: Buffer, context: CodecContext) -> bytes:
        return bytes(data)[::-1]

    def decode(self, data: Buffer, context: CodecContext) -> bytes:
        return bytes(data)[::-1]


@given(st.binary(max_size=70_000))
def test_a_sealed_document_is_one_value_of_msgpack(data: bytes) -> None:
    sealed = seal(Mirror(), data, PAYLOAD)

    assert is_document(sealed)
    found = msgspec.msgpack.decode(sealed)
    assert isinstance(found, msgspec.msgpack.Ext)
    assert found.code == SEALED_EXTENSION
    assert msgspec.msgpack.encode(found) == sealed
    assert open_document(Mirror(), sealed, PAYLOAD) == data
    assert document_of(tagged_document(sealed), "payload") == sealed  # as HTTP passes it on


@pytest.mark.parametrize("size", [*range(20), 251, 252, 253, 65531, 65532, 65533])
def test_heads_of_all_sizes_are_those_of_msgspec(size: int) -> None:
    sealed = seal(Mirror(), bytes(size), PAYLOAD)

    assert msgspec.msgpack.encode(msgspec.msgpack.decode(sealed)) == sealed


@given(st.recursive(st.none() | st.integers(-(2**31), 2**31) | st.text() | st.binary(), st.lists))
def test_plain_values_are_not_taken_for_sealed_ones(value: object) -> None:
    assert not is_sealed(msgspec.msgpack.encode(value))
    assert not is_sealed(b"")


def test_a_document_shows_its_key_and_nothing_else() -> None:
    sealed = seal(AES, b"the canary", PAYLOAD)

    assert label_of(sealed) == "k1"
    assert b"canary" not in sealed
    assert open_document(AES, sealed, PAYLOAD) == b"the canary"


def test_a_document_without_an_id_opens_in_any_job_of_its_type_and_one_with_an_id_does_not() -> (
    None
):
    free = seal(AES, b"data", CodecContext(SealedField.PAYLOAD, "", "add"))
    bound = seal(AES, b"data", PAYLOAD)
    other = CodecContext(SealedField.PAYLOAD, "j-2", "add")

    assert open_document(AES, free, other) == b"data"
    with pytest.raises(CodecError):
        open_document(AES, free, CodecContext(SealedField.PAYLOAD, "j-2", "subtract"))
    unbound = bytearray(bound)
    unbound[unbound.index(b"\x01\x01\x02k1") + 1] = 0
    with pytest.raises(CodecError):
        open_document(AES, bytes(unbound), other)


@given(st.binary(max_size=40))
def test_no_bytes_do_anything_but_open_or_be_refused(data: bytes) -> None:
    document = msgspec.msgpack.encode(msgspec.msgpack.Ext(SEALED_EXTENSION, data))

    with pytest.raises(CodecError):
        open_document(AES, document, PAYLOAD)
    assert label_of(document)
    assert shown_sealed(f"<sealed:{data.hex()}>")
    assert open_text(AES, f"<sealed:{data.hex()}>", LOG)


def test_a_label_that_is_no_name_is_refused() -> None:
    codec = Mirror()
    codec.label = "two words"

    with pytest.raises(CodecError, match="label of Mirror"):
        seal(codec, b"data", PAYLOAD)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_text_comes_back_among_other_words(text: str) -> None:
    sealed = seal_text(AES, text, LOG)

    assert is_sealed_text(sealed)
    assert open_text(AES, f"it ended with {sealed}; {sealed}", LOG) == (
        f"it ended with {text}; {text}"
    )


def test_a_text_is_shown_as_encrypted_with_its_key() -> None:
    sealed = seal_text(AES, "the canary", LOG)

    assert shown_sealed(f"it ended with {sealed}") == "it ended with encrypted (key k1)"
    assert shown_sealed(sealed[:-9] + "...") == "encrypted (key k1)"
    assert shown_sealed("plain") == "plain"
    assert seal_text(AES, "", LOG) == ""


def test_a_text_that_can_not_be_opened_says_why_in_its_place() -> None:
    sealed = seal_text(AES, "the canary", LOG)
    other = AesCodec({"k2": bytes(32)})

    assert "[encrypted (key k1): " in open_text(other, f"failed: {sealed}", LOG)
    assert "add that key" in open_text(other, sealed, LOG)
    assert open_text(AES, sealed[:-9] + "…", LOG) == "[encrypted (key k1), and cut off]"
    assert "does not open" in open_text(AES, sealed, CodecContext(SealedField.LOG, "j-2"))


def test_codecs_of_ones_own_may_wrap_others() -> None:
    class Compressed:
        label = AES.label

        def encode(self, data: Buffer, context: CodecContext) -> Buffer:
            return AES.encode(zlib.compress(data), context)

        def decode(self, data: Buffer, context: CodecContext) -> Buffer:
            return zlib.decompress(AES.decode(data, context))

    data = b"the same " * 1000
    sealed = seal(Compressed(), data, PAYLOAD)

    assert len(sealed) < 200
    assert open_document(Compressed(), sealed, PAYLOAD) == data
