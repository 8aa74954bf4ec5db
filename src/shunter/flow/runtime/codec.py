"""Batches of events as bytes: msgpack, with the type of the events beside it where it has one.

Plain values need no type. A batch of one type, as most are, names it once; a mixed batch names it
for each event. Only types that the flow knows are made on arrival, so nobody's bytes choose code.
Inside plain containers, tuples arrive as lists and objects as dicts; inside typed ones they keep
their types. A datetime keeps its zone wherever it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from shunter.errors import FlowError
from shunter.flow.runtime.zones import Zone, may_have_moments, with_zones, zones_in
from shunter.flow.sources.port import BadInput, WithBadInput

PLAIN = ""
MIXED = "*"
ZONED = "@"
"""Before the name of a type: the bytes are those of the zones, and those of the events."""

_PLAIN_TYPES: frozenset[type] = frozenset({dict, list, str, int, float, bool, type(None), bytes})

_TYPED: tuple[type, ...] = (
    tuple, set, frozenset, datetime, date, time, timedelta, Decimal, UUID, bytearray, BadInput,
)  # fmt: skip

_BUILT_IN = {kind.__name__: kind for kind in (*_PLAIN_TYPES, *_TYPED)}


_ZONED = msgspec.msgpack.Decoder(tuple[list[Zone], msgspec.Raw])


class EventCodec:
    """For one flow, whose own types are given by name."""

    def __init__(self, types: Mapping[str, type]) -> None:
        self._types = {**_BUILT_IN, **types}
        self._names = {kind: name for name, kind in self._types.items()}
        self._encoder = msgspec.msgpack.Encoder()
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {
            PLAIN: msgspec.msgpack.Decoder(list[Any]),
            MIXED: msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]]),
        }

    def encode(self, events: list[Any]) -> tuple[str, bytes]:
        """Return the name of the type, and the bytes."""
        kinds = set(map(type, events))
        try:
            if kinds <= _PLAIN_TYPES:
                kind, encoded = PLAIN, self._encoder.encode(events)
            elif len(kinds) == 1:
                kind, encoded = self._name(kinds.pop()), self._encoder.encode(events)
            else:
                named = [(self._name(type(event)), event) for event in events]
                kind, encoded = MIXED, self._encoder.encode(named)
            if may_have_moments(encoded) and (zones := zones_in(events)):
                return ZONED + kind, self._encoder.encode((zones, msgspec.Raw(encoded)))
        except (TypeError, ValueError, OverflowError) as error:
            raise FlowError(
                f"an event can't be sent to another process: {error}; let events be numbers, "
                "texts, bytes, lists, dicts, dataclasses or msgspec structs of these"
            ) from error
        return kind, encoded

    def decode(self, kind: str, encoded: bytes | memoryview) -> list[Any]:
        """Return the events that bytes hold; raises FlowError where they don't."""
        try:
            if kind.startswith(ZONED):
                zones, raw = _ZONED.decode(encoded)
                return with_zones(self.decode(kind.removeprefix(ZONED), raw), zones)
            events: list[Any] = self._decoder(kind).decode(encoded)
            if kind == BadInput.__name__:
                return WithBadInput(events)
            if kind != MIXED:
                return events
            mixed = [self._event(name, raw) for name, raw in events]
            return WithBadInput(mixed) if BadInput in map(type, mixed) else mixed
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise FlowError(f"events of type {kind or 'any'!r} don't decode: {error}") from error

    def _event(self, name: str, raw: msgspec.Raw) -> Any:
        return msgspec.msgpack.decode(raw, type=self._type(name))

    def _name(self, kind: type) -> str:
        name = self._names.get(kind)
        if name is None:
            raise FlowError(
                f"an event is a {kind.__module__}.{kind.__qualname__}, which the flow does not "
                "know; let it be a dataclass or a msgspec struct, and name it in Flow(types=[...])"
            )
        return name

    def _type(self, name: str) -> type:
        kind = self._types.get(name)
        if kind is None:
            raise FlowError(f"events are of type {name!r}, which this flow does not know")
        return kind

    def _decoder(self, name: str) -> msgspec.msgpack.Decoder[Any]:
        decoder = self._decoders.get(name)
        if decoder is None:
            of_type: Any = list[self._type(name)]  # type: ignore[misc]
            decoder = self._decoders[name] = msgspec.msgpack.Decoder(of_type)
        return decoder
