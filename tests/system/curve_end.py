"""One end of a CURVE connection by hand, for peers that have a key and behave badly all the same.

libzmq sends a message when it is whole, so it can't be used to send one that never is. What boxes
are made with is the libsodium that comes with pyzmq.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import zmq
from zmq.utils import z85

from shunter.model.key import CurvePair

KEY_BYTES, MAC_BYTES = 32, 16


def _sodium() -> ctypes.CDLL:
    beside = Path(zmq.__file__).parent.parent / "pyzmq.libs"
    [found] = beside.glob("libsodium-*.so*")
    return ctypes.CDLL(str(found))


class CurveEnd:
    """The client's end: the handshake and then frames, each in a box with the next number."""

    WELCOME_BYTES = 16 + 144

    def __init__(self, pair: CurvePair) -> None:
        assert pair.server is not None
        self._sodium = _sodium()
        self._public, self._secret, self._server = (
            z85.decode(text.encode()) for text in (pair.public, pair.secret, pair.server)
        )
        public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
        self._sodium.crypto_box_keypair(public, secret)
        self._short_public, self._short_secret = public.raw, secret.raw
        self._shared = b""
        self._number = 0

    def hello(self) -> bytes:
        number = self._next()
        box = self._box(bytes(64), b"CurveZMQHELLO---" + number, self._server, self._short_secret)
        return b"\x05HELLO\x01\x00" + bytes(72) + self._short_public + number + box

    def initiate(self, welcome: bytes, properties: bytes) -> bytes:
        nonce, box = welcome[:16], welcome[16:]
        opened = self._opened(box, b"WELCOME-" + nonce, self._server, self._short_secret)
        server, cookie = opened[:KEY_BYTES], opened[KEY_BYTES:]
        nonce, number = os.urandom(16), self._next()
        vouched = self._short_public + self._server
        vouch = nonce + self._box(vouched, b"VOUCH---" + nonce, server, self._secret)
        self._shared = self._precomputed(server)
        said = self._boxed(self._public + vouch + properties, b"CurveZMQINITIATE" + number)
        return b"\x08INITIATE" + cookie + number + said

    def frame(self, body: bytes, flags: int) -> bytes:
        number = self._next()
        box = self._boxed(bytes([flags]) + body, b"CurveZMQMESSAGEC" + number)
        whole = b"\x07MESSAGE" + number + box
        if len(whole) < 256:
            return bytes([0, len(whole)]) + whole
        return b"\x02" + len(whole).to_bytes(8, "big") + whole

    def _next(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(8, "big")

    def _box(self, text: bytes, nonce: bytes, public: bytes, secret: bytes) -> bytes:
        made = ctypes.create_string_buffer(len(text) + MAC_BYTES)
        size = ctypes.c_ulonglong(len(text))
        assert self._sodium.crypto_box_easy(made, text, size, nonce, public, secret) == 0
        return made.raw

    def _boxed(self, text: bytes, nonce: bytes) -> bytes:
        made = ctypes.create_string_buffer(len(text) + MAC_BYTES)
        size = ctypes.c_ulonglong(len(text))
        self._sodium.crypto_box_easy_afternm(made, text, size, nonce, self._shared)
        return made.raw

    def _opened(self, box: bytes, nonce: bytes, public: bytes, secret: bytes) -> bytes:
        text = ctypes.create_string_buffer(len(box) - MAC_BYTES)
        size = ctypes.c_ulonglong(len(box))
        assert self._sodium.crypto_box_open_easy(text, box, size, nonce, public, secret) == 0
        return text.raw

    def _precomputed(self, server: bytes) -> bytes:
        shared = ctypes.create_string_buffer(32)
        self._sodium.crypto_box_beforenm(shared, server, self._short_secret)
        return shared.raw
