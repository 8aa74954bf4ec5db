"""AES-256-GCM under named keys: what opens, what does not, and what is said then."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.aes_codec import AesCodec, _MessageKeys
from shunter.codec import CodecContext, SealedField
from shunter.errors import CodecError

K1, K2 = bytes([1]) * 32, bytes([2]) * 32
HERE = CodecContext(SealedField.PAYLOAD, "j-1", "add", "k1")


def test_messages_are_encrypted_as_xaes_256_gcm_says() -> None:
    nonce, text = b"ABCDEFGHIJKLMNOPQRSTUVWX", b"XAES-256-GCM"

    plain = _MessageKeys(bytes([1]) * 32).cipher(nonce).encrypt(nonce[12:], text, b"")
    bound = _MessageKeys(bytes([3]) * 32).cipher(nonce)

    assert plain.hex() == "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"
    assert (
        bound.encrypt(nonce[12:], text, b"c2sp.org/XAES-256-GCM").hex()
        == "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"
    )


@given(st.binary(max_size=300))
def test_what_is_encoded_comes_back(data: bytes) -> None:
    codec = AesCodec({"k1": K1})

    assert bytes(codec.decode(codec.encode(data, HERE), HERE)) == data


def test_the_same_data_is_never_the_same_bytes() -> None:
    codec = AesCodec({"k1": K1})

    assert codec.encode(b"data", HERE) != codec.encode(b"data", HERE)


@pytest.mark.parametrize(
    "elsewhere",
    [
        CodecContext(SealedField.RESULT, "j-1", "add", "k1"),
        CodecContext(SealedField.PAYLOAD, "j-2", "add", "k1"),
        CodecContext(SealedField.PAYLOAD, "", "add", "k1"),
        CodecContext(SealedField.PAYLOAD, "j-1", "subtract", "k1"),
        CodecContext(SealedField.PAYLOAD, "j-1a", "dd", "k1"),
    ],
)
def test_data_opens_only_where_it_belongs(elsewhere: CodecContext) -> None:
    codec = AesCodec({"k1": K1})
    sealed = codec.encode(b"data", HERE)

    with pytest.raises(CodecError, match=r"does not open with key 'k1'.*compare the keys"):
        codec.decode(sealed, elsewhere)


def test_every_bit_is_guarded() -> None:
    codec = AesCodec({"k1": K1})
    sealed = codec.encode(b"data", HERE)

    for at in range(len(sealed)):
        altered = bytearray(sealed)
        altered[at] ^= 1
        with pytest.raises(CodecError):
            codec.decode(altered, HERE)
    for length in range(len(sealed)):
        with pytest.raises(CodecError):
            codec.decode(sealed[:length], HERE)


def test_an_older_key_still_opens_what_it_closed() -> None:
    before = AesCodec({"k1": K1})
    after = AesCodec({"k2": K2, "k1": K1}, current="k2")

    assert after.label == "k2"
    assert after.decode(before.encode(b"data", HERE), HERE) == b"data"


def test_an_unknown_key_is_named_with_those_that_there_are() -> None:
    sealed = AesCodec({"k1": K1}).encode(b"data", HERE)

    with pytest.raises(CodecError, match=r"job j-1 is encrypted with key 'k1'.*'k2'.*add") as found:
        AesCodec({"k2": K2}).decode(sealed, HERE)
    assert found.value.label == "k1"


def test_a_key_is_bytes_or_base64_or_a_file_of_either(tmp_path: Path) -> None:
    sealed = AesCodec({"k1": K1}).encode(b"data", HERE)
    raw, text = tmp_path / "raw", tmp_path / "text"
    raw.write_bytes(K1)
    text.write_text(base64.b64encode(K1).decode() + "\n")
    for path in (raw, text):
        path.chmod(0o600)

    for source in (K1, base64.b64encode(K1).decode(), raw, text):
        assert AesCodec({"k1": source}).decode(sealed, HERE) == b"data"


@pytest.mark.parametrize("wrong", [b"short", "c2hvcnQ=", "not base64!", "", b"", K1.hex()])
def test_a_wrong_key_is_refused_and_not_shown(wrong: bytes | str) -> None:
    with pytest.raises(CodecError, match=r"key 'k1'.*new_key") as found:
        AesCodec({"k1": wrong})
    shown = wrong.decode() if isinstance(wrong, bytes) else wrong
    assert not shown or shown not in str(found.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(K1)
    path.chmod(0o640)

    with pytest.raises(CodecError, match="chmod 600"):
        AesCodec({"k1": path})


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CodecError, match=r"'k1' can't be read from .*key: No such file"):
        AesCodec({"k1": tmp_path / "key"})


@pytest.mark.parametrize(
    ("keys", "current", "said"),
    [
        ({}, None, "no keys"),
        ({"k1": K1, "k2": K2}, None, "say which is current: 'k1', 'k2'"),
        ({"k1": K1}, "k3", "current='k3' is none of the keys: 'k1'"),
        ({"": K1}, None, "can't name a key"),
        ({"k 1": K1}, None, "can't name a key"),
    ],
)
def test_keys_that_make_no_sense_are_refused(
    keys: dict[str, bytes], current: str | None, said: str
) -> None:
    with pytest.raises(CodecError, match=said):
        AesCodec(keys, current=current)


def test_a_codec_shows_names_and_no_keys() -> None:
    key = AesCodec.new_key()

    shown = repr(AesCodec({"k1": key}))

    assert "'k1'" in shown
    assert key not in shown
    assert AesCodec.new_key() != key


def test_large_data_is_written_once(tmp_path: Path) -> None:
    """The buffer that is returned is the one that was encrypted into."""
    codec, data = AesCodec({"k1": K1}), os.urandom(1 << 20)

    sealed = codec.encode(data, HERE)

    assert len(sealed) == len(data) + 24 + 16
    assert codec.decode(memoryview(sealed), HERE) == data
