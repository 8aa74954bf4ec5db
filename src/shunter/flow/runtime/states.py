"""The states of users' objects, as checkpoints keep them."""

from __future__ import annotations

from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.stages import Stage


def saved_state(instance: Any, stage: Stage) -> Any:
    """Return the state of an instance: its own snapshot, or its attributes where they are plain."""
    own = getattr(instance, "snapshot", None)
    if own is not None:
        return own()
    try:
        attributes = vars(instance)
        if msgspec.msgpack.decode(msgspec.msgpack.encode(attributes)) == attributes:
            return dict(attributes)
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
    own = getattr(instance, "restore", None)
    if own is not None:
        own(saved)
    else:
        vars(instance).update(saved)
