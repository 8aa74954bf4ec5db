"""When an instruction that comes by several senders is due, and who waits for whom until then.

A sender that has brought one is held back until all that carry it have: so everything before the
instruction is done before it, and nothing that follows it. Two instructions of different origins
may come in one order by one sender and in the other by another; then no order is right for both,
and one of them is let pass. A checkpoint never is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from shunter.flow.graph.instructions import CHECKPOINT, END_OF_STREAM, Instruction, least_far

Identity = tuple[str, int]


class _Pending:
    __slots__ = ("awaited", "instruction")

    def __init__(self, instruction: Instruction, awaited: set[str]) -> None:
        self.instruction, self.awaited = instruction, awaited


class Alignment:
    """`carriers` names the senders by which the instructions of an origin come."""

    def __init__(
        self, senders: Collection[str], carriers: Callable[[str], Iterable[str]] | None = None
    ) -> None:
        self._open = set(senders)
        self._carriers = carriers
        self._pending: dict[Identity, _Pending] = {}
        self._held: dict[str, Identity] = {}

    def is_held(self, sender: str) -> bool:
        return sender in self._held

    @property
    def is_at_end(self) -> bool:
        """True if all senders have come to the end of their streams."""
        return not self._open

    def arrived(self, sender: str, instruction: Instruction) -> None:
        """Note what a sender has brought."""
        if instruction.name == END_OF_STREAM:
            self._open.discard(sender)
            for pending in self._pending.values():
                pending.awaited.discard(sender)
            return
        identity = instruction.identity
        if identity not in self._pending:
            self._pending[identity] = _Pending(instruction, self._awaited(instruction))
        copies = self._pending[identity]
        copies.instruction = least_far(copies.instruction, instruction)
        copies.awaited.discard(sender)
        self._held[sender] = identity

    def due(self) -> Instruction | None:
        """Return an instruction that has come by all, once, and let its senders go on."""
        for identity, pending in self._pending.items():
            if not pending.awaited:
                del self._pending[identity]
                self._let_go(identity)
                return pending.instruction
        self._untangle()
        return None

    def snapshot(self) -> Any:
        """What a checkpoint must know: who has ended, and what was let pass."""
        return {
            "open": sorted(self._open),
            "pending": [
                [msgspec.to_builtins(pending.instruction), sorted(pending.awaited)]
                for pending in self._pending.values()
            ],
        }

    def restore(self, saved: Any) -> None:
        self._open = set(saved["open"])
        for fields, awaited in saved["pending"]:
            instruction = Instruction(**fields)
            self._pending[instruction.identity] = _Pending(instruction, set(awaited))

    def _awaited(self, instruction: Instruction) -> set[str]:
        if not instruction.origin or self._carriers is None:
            return set(self._open)
        return self._open & set(self._carriers(instruction.origin))

    def _let_go(self, identity: Identity) -> None:
        self._held = {by: held for by, held in self._held.items() if held != identity}

    def _untangle(self) -> None:
        """Where instructions wait for each other, let all of them pass but the first."""
        ranked = sorted(self._pending, key=self._rank)
        for identity in ranked:
            in_the_way = self._waits_for(identity)
            tangled = {other for other in in_the_way if identity in self._all_behind(other)}
            if tangled:
                for other in tangled:
                    self._let_go(other)
                return

    def _rank(self, identity: Identity) -> tuple[bool, Identity]:
        return self._pending[identity].instruction.name != CHECKPOINT, identity

    def _waits_for(self, identity: Identity) -> set[Identity]:
        """The instructions at which senders are held that should bring this one."""
        awaited = self._pending[identity].awaited
        return {self._held[sender] for sender in awaited if sender in self._held}

    def _all_behind(self, identity: Identity) -> set[Identity]:
        found: set[Identity] = set()
        rest = [identity]
        while rest:
            for other in self._waits_for(rest.pop()) - found:
                found.add(other)
                rest.append(other)
        return found
