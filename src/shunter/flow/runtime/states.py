"""The states of users' objects, as checkpoints keep them."""

from __future__ import annotations

from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.stages import Stage
from shunter.flow.runtime.codec import Codec
from shunter.flow.runtime.zones import may_have_moments, zones_in

_CODEC = Codec({})

_ZONED = 1
"""The code of a state in a checkpoint that has datetimes with zones of their own."""


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
