"""What operators did: written down before it is done, so that nothing is done without a line.

Others act on what is their own, and are not written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shunter.dispatch.dispatcher import Dispatcher
from shunter.model.key import Key, Role
from shunter.store.key_records import AuditEntry, note


class AuditLog:
    """The lines that this dispatcher writes."""

    def __init__(self, dispatcher: Dispatcher, *, new_id: Callable[[], str]) -> None:
        self._dispatcher, self._new_id = dispatcher, new_id

    @staticmethod
    def is_due(key: Key | None) -> bool:
        """True if what is done with this key is written down."""
        return key is not None and key.role is Role.OPERATOR

    async def note(self, key: Key | None, action: str, targets: Sequence[str], way: str) -> None:
        """Write down what the holder of a key is about to do, if that is due."""
        if key is None or not self.is_due(key):
            return
        entries = [
            AuditEntry(
                id=self._new_id(),
                at=self._dispatcher.now(),
                actor=key.name,
                action=action,
                target=target,
                detail=way,
            )
            for target in targets
        ]
        await note(self._dispatcher.store, entries)
