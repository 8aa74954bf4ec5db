"""What a run asks of its worker's parent about its journal, and what it is told."""

from __future__ import annotations

from msgspec import Struct

from shunter.model.journal import EntryKind
from shunter.wire.messages import Assignment, Recalled


class KeepAsk(Struct, frozen=True, array_like=True, tag=1):
    """Keep this, and `marks` with it; a chunk comes alone, and meets others on its way."""

    kind: EntryKind
    key: str
    body: bytes
    digest: bytes = b""
    seconds: float = 0.0
    marks: tuple[KeepAsk, ...] = ()


class RecallAsk(Struct, frozen=True, array_like=True, tag=2):
    """Show what is kept; with a `name`, how the jobs ended that were waited for under it."""

    kind: EntryKind = EntryKind.STEP
    after: str = ""
    name: str = ""
    count: int = 0
    start: int = 0


JournalAsk = KeepAsk | RecallAsk


class RunAsk(Struct, frozen=True, array_like=True):
    """An ask under a number of the child's; 0 wants no answer."""

    number: int
    ask: JournalAsk


class RunAsked(Struct, frozen=True):
    """An ask of one run, which its pool knows by `key`."""

    key: int
    job: Assignment
    asked: RunAsk


class JournalAnswer(Struct, frozen=True, array_like=True):
    """The answer to an ask; a `refusal` says why there is none."""

    is_kept: bool = False
    recalled: Recalled | None = None
    refusal: str = ""


Answer = tuple[int, int, JournalAnswer]
"""The key of the run, the number of its ask, what to say."""
