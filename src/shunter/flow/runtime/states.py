"""The states of users' objects, as checkpoints keep them.

A checkpoint has the whole state of a stage; or, where somebody keeps states by key between
checkpoints (`KeyedStates`), a stage loads those of the keys that come, and hands back those alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.stages import Stage
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.zones import may_have_moments, zones_in

_CODEC = EventCodec({})

_ZONED = 1
"""The code of a state in a checkpoint that has datetimes with zones of their own."""

NOT_KEPT = object()
"""In place of a state in a snapshot: the stage is new there, and stays as it was made."""


class KeyedStates(Protocol):
    """The states of one stage by key, kept outside of the worker; each `part` by itself."""

    def load(self, key: Any, part: Any = None) -> Any:
        """Return the state of a key; raise KeyError if there is none."""

    def items(self, part: Any = None) -> Iterable[tuple[Any, Any]]:
        """Return all keys with their states, in any order."""

    def parts(self) -> Iterable[Any]:
        """Return the parts that there are."""

    def put(self, key: Any, state: Any, part: Any = None) -> None:
        """Keep the state of a key from the next checkpoint on."""

    def drop(self, part: Any) -> None:
        """Forget all states of a part from the next checkpoint on."""


def saved_state(instance: Any, stage: Stage) -> Any:
    """Return the state of an instance: its own snapshot, or its attributes where they are plain."""
    own = getattr(instance, "snapshot", None)
    if own is not None:
        return _with_zones_kept(own())
    try:
        attributes = vars(instance)
        encoded = msgspec.msgpack.encode(attributes)
        if msgspec.msgpack.decode(encoded) == attributes:
            return _with_zones_kept(dict(attributes), encoded)
        reason = "some would come back as another type"
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error)
    raise FlowError(
        f"the attributes of {type(instance).__name__} can't be kept in a checkpoint ({reason}); "
        "give it snapshot(), which returns numbers, texts, lists and dicts, and restore(saved)",
        stage=stage.name,
        place=str(stage.where),
    )


def set_state(instance: Any, saved: Any) -> None:
    """Give an instance the state that was saved."""
    if type(saved) is msgspec.msgpack.Ext and saved.code == _ZONED:
        saved = _CODEC.decode(*msgspec.msgpack.decode(saved.data))[0]
    own = getattr(instance, "restore", None)
    if own is not None:
        own(saved)
    else:
        vars(instance).update(saved)


def _with_zones_kept(saved: Any, encoded: bytes | None = None) -> Any:
    """Return a state as it is, or as one value of msgpack if zones would else be lost."""
    try:
        encoded = encoded or msgspec.msgpack.encode(saved)
    except (TypeError, ValueError, OverflowError):
        return saved  # whoever writes the checkpoint says what is wrong with it
    if not may_have_moments(encoded) or not zones_in([saved]):
        return saved
    return msgspec.msgpack.Ext(_ZONED, msgspec.msgpack.encode(_CODEC.encode([saved])))
