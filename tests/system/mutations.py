"""Messages that are nearly right: valid ones, each changed a little, the same for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -1.5, 1e308,
    "", "x", "\0", "x" * 300, "\N{SNOWMAN}", "m-1", [], {}, [[]], {"": None}, [0] * 50,
]  # fmt: skip
ODD_BYTES = [b"", b"\0", b"\xff", b"\xc1", b"\r\n", b"\xdf\xff\xff\xff\xff", b"\x80" * 40]

Frames = tuple[bytes, ...]


class Mutator:
    """Makes mutants of a corpus."""

    def __init__(self, corpus: Sequence[Frames], seed: int) -> None:
        self._corpus, self._random = corpus, random.Random(seed)
        self._ways: list[Callable[[Frames], Frames]] = [
            self._with_other_value, self._with_other_value, self._with_flipped_bit,
            self._cut, self._with_odd_bytes, self._spliced, self._with_other_frames,
        ]  # fmt: skip

    def mutants(self, count: int) -> Iterator[Frames]:
        for _ in range(count):
            mutant = self._random.choice(self._corpus)
            for _ in range(self._random.choice((1, 1, 1, 2, 4))):
                mutant = self._random.choice(self._ways)(mutant)
            yield mutant or (b"",)

    def _with_body(self, frames: Frames, change: Callable[[bytes], bytes]) -> Frames:
        if not frames:
            return frames
        at = len(frames) - 1 if self._random.random() < 0.8 else self._random.randrange(len(frames))
        return (*frames[:at], change(frames[at]), *frames[at + 1 :])

    def _with_other_value(self, frames: Frames) -> Frames:
        """Read the body, put something else somewhere in it, and write it again."""

        def change(body: bytes) -> bytes:
            try:
                return msgspec.msgpack.encode(self._altered(msgspec.msgpack.decode(body)))
            except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
                pass
            head, _, rest = body.rpartition(b"\r\n\r\n")
            try:
                altered = json.dumps(self._altered(json.loads(rest))).encode()
            except (ValueError, RecursionError):
                return self._flipped(body)
            return head + b"\r\n\r\n" + altered if head else altered

        return self._with_body(frames, change)

    def _altered(self, value: Any, depth: int = 0) -> Any:
        if depth < 6 and isinstance(value, dict) and value and self._random.random() < 0.9:
            key = self._random.choice(list(value))
            match self._random.randrange(6):
                case 0:
                    return {name: it for name, it in value.items() if name != key}
                case 1:
                    return {**value, "x" * self._random.randrange(9): None}
            return {**value, key: self._altered(value[key], depth + 1)}
        if depth < 6 and isinstance(value, list) and value and self._random.random() < 0.9:
            at = self._random.randrange(len(value))
            match self._random.randrange(6):
                case 0:
                    return value[:at] + value[at + 1 :]
                case 1:
                    return value[:at] + [value[at]] * self._random.choice((2, 30)) + value[at:]
            return [*value[:at], self._altered(value[at], depth + 1), *value[at + 1 :]]
        return self._random.choice(ODD_VALUES)

    def _with_flipped_bit(self, frames: Frames) -> Frames:
        return self._with_body(frames, self._flipped)

    def _flipped(self, body: bytes) -> bytes:
        if not body:
            return b"\x01"
        changed = bytearray(body)
        changed[self._random.randrange(len(body))] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _cut(self, frames: Frames) -> Frames:
        return self._with_body(frames, lambda it: it[: self._random.randrange(len(it) + 1)])

    def _with_odd_bytes(self, frames: Frames) -> Frames:
        def change(body: bytes) -> bytes:
            at = self._random.randrange(len(body) + 1)
            return body[:at] + self._random.choice(ODD_BYTES) + body[at:]

        return self._with_body(frames, change)

    def _spliced(self, frames: Frames) -> Frames:
        other = self._random.choice(self._corpus)[-1]
        return self._with_body(
            frames, lambda it: it[: len(it) // 2] + other[self._random.randrange(len(other) + 1) :]
        )

    def _with_other_frames(self, frames: Frames) -> Frames:
        at = self._random.randrange(len(frames) + 1)
        match self._random.randrange(3):
            case 0:
                return frames[:at] + frames[at + 1 :]
            case 1:
                return (*frames[:at], self._random.choice(ODD_BYTES), *frames[at:])
        return (*frames[:at], *self._random.choice(self._corpus), *frames[at:])
